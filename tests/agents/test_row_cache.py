"""Rows keep what they hold while their cache gets wider, narrower or moves them, and what is masked is finite."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.kv import SPARE_COLUMNS, Layout, RowCache

CPU = torch.device("cpu")
#: Two layers whose keys and values are of three kinds.
LAYOUT = Layout(((2, 4, torch.float32, CPU), (1, 6, torch.float32, CPU), (2, 4, torch.float32, CPU),
                 (1, 6, torch.float64, CPU)))


def cache_of(rows: int, columns: int) -> RowCache:
    """A cache on memory that holds what nobody may read."""
    memory = RowCache(LAYOUT, rows, columns)
    for buffer in memory.buffers:
        buffer.fill_(torch.nan)
    return RowCache(LAYOUT, rows, columns, memory.buffers)


def put(cache: RowCache, length: int) -> None:
    """Places a row and writes numbers that differ from row to row, channel to channel and column to column."""
    cache.place(length, None, 0)
    row = len(cache.begin) - 1
    for channel, memory in enumerate(channels(cache)):
        memory[row, :, cache.begin[row] : cache.end] = 1000.0 * channel + 100 * row + torch.arange(length)[:, None]


def channels(cache: RowCache) -> list[torch.Tensor]:
    """Keys and values as the layers know them, [rows, heads, columns, size] each."""
    return [memory for layer in cache.layers for memory in (layer.keys, layer.values)]


def check(cache: RowCache, rows: list[tuple[int, int]]) -> None:
    """That ``rows`` (number when it was put, length) are there, in this order, and all else they could see is finite.
    """
    assert [cache.end - begin for begin in cache.begin] == [length for _, length in rows]
    for channel, memory in enumerate(channels(cache)):
        assert memory.shape[2] == cache.columns and memory[: len(rows)].isfinite().all()
        for place, (number, length) in enumerate(rows):
            held = memory[place, :, cache.begin[place] : cache.end]
            assert torch.equal(held, (1000.0 * channel + 100 * number + torch.arange(length)[:, None]).expand_as(held))


def test_rows_keep_what_they_hold_as_the_cache_gets_wider():
    cache = cache_of(rows=4, columns=200)
    cache.widen(20)
    cache.end = 16
    for length in (16, 3, 9):
        put(cache, length)
    rows = [(0, 16), (1, 3), (2, 9)]
    check(cache, rows)
    for columns in (21, 40, 77, 200):
        cache.widen(columns)
        assert cache.columns == columns
        check(cache, rows)
        assert all(not memory[:3, :, cache.end :].any() for memory in channels(cache))
    cache.drop(0)
    check(cache, [(2, 9), (1, 3)])


def test_a_cache_with_rows_gets_no_narrower_and_none_gets_more_than_its_memory():
    cache = cache_of(rows=2, columns=50)
    cache.widen(500)
    assert cache.columns == 50
    cache.widen(30)
    assert cache.columns == 30
    cache.end = 10
    put(cache, 10)
    cache.widen(12)
    assert cache.columns == 30
    cache.drop(0)
    cache.widen(12)
    assert cache.columns == 12 and all(memory.shape[2] == 12 for memory in channels(cache))
    cache.end = 12
    put(cache, 12)
    put(cache, 5)
    check(cache, [(0, 12), (1, 5)])


@pytest.mark.parametrize("free", [0, SPARE_COLUMNS])
def test_one_more_column_comes_from_the_beginning_if_enough_is_free_there_or_from_memory(free):
    cache = cache_of(rows=3, columns=200)
    cache.widen(60)
    cache.end = 60
    for length in (60 - free, 7):
        put(cache, length)
    cache.extend()
    assert (cache.columns, cache.end, cache.first) == ((60, 61 - free, 0) if free else (60 + SPARE_COLUMNS, 61, 0))
    cache.end -= 1  # the column is there, and nobody has written to it
    check(cache, [(0, 60 - free), (1, 7)])


def test_a_cache_that_has_all_its_memory_moves_its_rows_however_little_is_free():
    cache = cache_of(rows=2, columns=30)
    cache.end = 30
    for length in (28, 11):
        put(cache, length)
    cache.extend()
    assert (cache.columns, cache.end, cache.begin) == (30, 29, [0, 17])
    cache.end -= 1
    check(cache, [(0, 28), (1, 11)])
    cache.end += 1
    cache.extend()
    assert cache.end == cache.columns == 30 and cache.begin == [0, 17]
