from __future__ import annotations

import torch

from goa_torch.agents.kv import Layout, PrefixStore, RowCache

LAYOUT = Layout(tuple([(2, 4, torch.float32, torch.device("cpu"))] * 4))


def fill(cache: RowCache, row: int, length: int, value: float) -> None:
    for slab in cache._slabs:
        slab[:, row, :, cache.end - length : cache.end] = value


def held(cache: RowCache, row: int) -> list[float]:
    return cache._slabs[0][0, row, 0, cache.begin[row] : cache.end, 0].tolist()


def test_rows_end_together_and_leave_by_one_copy():
    cache = RowCache(LAYOUT, rows=3, columns=12)
    cache.end = 5
    for row, length in enumerate((5, 3, 2)):
        cache.place(length, None, 0)
        fill(cache, row, length, row + 1.0)
    assert cache.begin == [0, 2, 3] and cache.first == 0
    cache.drop(0)
    assert cache.begin == [3, 2] and held(cache, 0) == [3.0, 3.0] and held(cache, 1) == [2.0] * 3


def test_moving_sideways_keeps_the_rows_and_zeroes_what_is_left_of_them():
    cache = RowCache(LAYOUT, rows=2, columns=12)
    cache.end = 4
    for row, length in enumerate((4, 2)):
        cache.place(length, None, 0)
        fill(cache, row, length, row + 1.0)
    for end in (9, 4, 6, 12):
        cache.realign(end)
        assert held(cache, 0) == [1.0] * 4 and held(cache, 1) == [2.0] * 2
        assert not cache._slabs[0][:, 1, :, : cache.begin[1]].any()


def test_a_window_tells_the_model_lengths_masks_and_positions():
    cache = RowCache(LAYOUT, rows=4, columns=12)
    cache.end = 6
    for length in (6, 4, 1):
        cache.place(length, None, 0)
    cache.look_at(slice(1, 3), 2, 6)
    assert cache.get_seq_length() == 2 and cache.get_mask_sizes(2, 0) == (4, 0)
    assert cache.mask().tolist() == [[True] * 4, [False, False, False, True]]
    assert cache.positions().tolist() == [[2, 3], [0, 0]]


def test_a_placed_prefix_is_what_a_snapshot_took():
    cache = RowCache(LAYOUT, rows=2, columns=8)
    cache.end = 4
    cache.place(4, None, 0)
    fill(cache, 0, 4, 7.0)
    cache.end = 6
    cache.begin[0] = 2
    cache.place(5, [slab[:, 0, :, :3] for slab in cache._slabs], 3)
    assert cache._slabs[0][0, 1, 0, 1:4, 0].tolist() == [7.0] * 3
    assert [t.shape for t in cache.snapshot(1, 3)] == [torch.Size([4, 2, 3, 4])]


def put(store: PrefixStore, ids: list[int]) -> None:
    store.expect([store.block_keys(ids)] * 2)  # as if two prompts began like this
    store.put(ids, store.block_keys(ids), lambda length: [torch.tensor(ids[:length])])


def known(store: PrefixStore, ids: list[int]) -> int:
    return store.match(ids, store.block_keys(ids))[1]


def test_the_longest_common_beginning_is_found_to_the_token():
    store = PrefixStore(1000)
    put(store, list(range(100)))
    assert known(store, [*range(50), 7, *range(60)]) == 50
    assert known(store, list(range(100))) == 99  # the last token is always computed
    assert known(store, [*range(100), 1, 2]) == 100
    assert known(store, [9, *range(99)]) == 0
    assert known(store, list(range(10))) == 0  # shorter than a block


def test_an_older_branch_stays_known_beside_a_newer_one():
    store = PrefixStore(1000)
    put(store, [*range(40), *range(100, 140)])
    put(store, [*range(40), *range(200, 240)])
    assert known(store, [*range(40), *range(100, 140), 1]) == 80
    assert known(store, [*range(40), *range(200, 240), 1]) == 80


def test_the_least_recently_used_prompt_goes_first_and_a_longer_one_replaces_what_it_contains():
    store = PrefixStore(200)
    a, b, c = ([base + i for i in range(80)] for base in (0, 1000, 2000))
    put(store, a)
    put(store, b)
    known(store, a)
    put(store, c)
    assert [known(store, x) for x in (a, b, c)] == [79, 0, 79] and store.tokens == 160
    put(store, [*a, *range(5000, 5030)])
    assert store.tokens == 190 and known(store, a) == 79
    put(store, a)
    assert store.tokens == 190
    store.room(0)
    assert store.tokens == 0 and known(store, a) == 0 and not store._holders


def test_a_prompt_beyond_the_budget_is_not_kept():
    store = PrefixStore(50)
    copies = []
    keys = store.block_keys(list(range(64)))
    store.expect([keys, keys])
    store.put(list(range(64)), keys, lambda length: copies.append(1) or [])
    assert store.tokens == 0 and not copies


def test_only_what_prompts_share_is_kept():
    store = PrefixStore(1000)
    a, b = [*range(40), *range(100, 140)], [*range(40), *range(200, 240)]
    store.expect([store.block_keys(a), store.block_keys(b)])
    for ids in (a, b):
        store.put(ids, store.block_keys(ids), lambda length: [])
    assert store.tokens == 32 and known(store, b) == 32  # whole blocks of 16
    alone = list(range(300, 400))
    store.expect([store.block_keys(alone)])
    store.put(alone, store.block_keys(alone), lambda length: [])
    assert store.tokens == 32


def test_parts_of_a_store_divide_its_budget_and_know_nothing_of_each_other():
    store = PrefixStore(300)
    first, second = store.parts(2)
    assert first is store and (first.budget, second.budget) == (150, 150) and store.parts(2) == [first, second]
    put(second, list(range(100)))
    assert known(second, list(range(100))) == 99 and known(first, list(range(100))) == 0
    store.room(160)
    assert second.budget == 80 and second.tokens == 0
    put(first, list(range(64)))
    put(second, list(range(64)))
    store.clear(parts=False)
    assert store.tokens == 0 and second.tokens == 64
    store.clear()
    assert second.tokens == 0
