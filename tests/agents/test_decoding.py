"""The loop against plain forward passes of the same tiny models."""

from __future__ import annotations

import math

import pytest
import torch
from tiny import save_tiny

from goa_torch.agents.decoding import Decoder, Row
from goa_torch.agents.kv import PrefixStore
from goa_torch.agents.token_sampling import next_tokens
from goa_torch.types import Sampling

KINDS = {
    "llama": {},
    "gpt2": dict(n_embd=48, n_layer=3, n_head=4, n_positions=512),  # learned absolute positions
    "gemma2": dict(sliding_window=8, query_pre_attn_scalar=12),  # sliding windows and full attention, soft caps
    "mistral": dict(sliding_window=8),
    "qwen3": {},
    "bloom": dict(n_layer=2, n_head=4),  # position by attention bias
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    from transformers import AutoModelForCausalLM

    made = {}

    def get(kind):
        if kind not in made:
            folder = save_tiny(tmp_path_factory.mktemp(kind), kind, **KINDS[kind])
            made[kind] = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return made[kind]

    return get


def rows(count=16, seed=0, temperature=0.8, new=12, shared=0, top_p=1.0):
    draw = torch.Generator().manual_seed(seed)
    start = torch.randint(3, 360, (shared,), generator=draw).tolist()
    lengths = torch.randint(1, 70, (count,), generator=draw).tolist()
    how = Sampling(temperature, top_p, new)
    return [Row(start + torch.randint(3, 360, (n,), generator=draw).tolist(), how, stream=i)
            for i, n in enumerate(lengths)]


def plainly(model, row, eos=frozenset({2})):
    """One row, no cache, no padding."""
    ids, new, total, how = list(row.ids), [], 0.0, row.sampling
    with torch.no_grad():
        while len(new) < row.sampling.max_new_tokens:
            logits = model(input_ids=torch.tensor([ids])).logits[:, -1]
            token, log_prob = next_tokens(logits, [how.temperature], [how.top_p], [row.stream], [len(new)])
            ids.append(token.item())
            new.append(token.item())
            total += log_prob.item()
            if new[-1] in eos:
                break
    return new, total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [0, 60])
def test_a_batch_says_what_each_row_says_alone_without_a_cache(models, kind, shared):
    model, batch = models(kind), rows(shared=shared)
    Decoder(model, {2}, 10_000, PrefixStore(5000)).run(batch)
    for row in batch:
        new, log_prob = plainly(model, row)
        assert row.new == new
        assert row.log_prob == pytest.approx(log_prob, abs=1e-3)
        assert row.finish == ("stop" if new[-1] == 2 else "length")


@pytest.mark.parametrize("batch_tokens", [1, 200, 400, 10_000])
@pytest.mark.parametrize("prefix_tokens", [0, 150, 5000])
def test_neither_the_size_of_the_batch_nor_shared_prefixes_change_a_reply(models, batch_tokens, prefix_tokens):
    model = models("llama")
    expected = [plainly(model, row)[0] for row in rows(24, shared=40, top_p=0.9)]
    batch = rows(24, shared=40, top_p=0.9)
    Decoder(model, {2}, batch_tokens, PrefixStore(prefix_tokens), prefill_tokens=300).run(batch)
    assert [row.new for row in batch] == expected


def test_rows_come_and_go_at_their_own_pace(models):
    model, batch = models("llama"), rows(40, seed=3)
    for i, row in enumerate(batch):
        row.sampling = Sampling(0.9, 1.0, 1 + 7 * (i % 9))
    expected = [plainly(model, row, frozenset(range(2, 60)))[0] for row in batch]
    assert len({len(new) for new in expected}) > 5
    sizes, step = [], Decoder._step
    decoder = Decoder(model, range(2, 60), 1000)
    decoder._step = lambda cache, active: (sizes.append(len(active)), step(decoder, cache, active))
    decoder.run(batch)
    assert [row.new for row in batch] == expected
    assert max(sizes) > 3 and sizes[-1] < max(sizes)


def test_greedy_replies_are_those_of_transformers(models):
    model, batch = models("llama"), rows(6, temperature=0.0)
    Decoder(model, {2}, 10_000).run(batch)
    for row in batch:
        ids = torch.tensor([row.ids])
        said = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12,
                              eos_token_id=2)
        assert said[0, ids.shape[1] :].tolist() == row.new


def test_equal_prompts_are_prefilled_once_and_later_calls_reuse_them(models):
    model = models("llama")
    prompt = list(range(3, 83))
    decoder = Decoder(model, {2}, 10_000, PrefixStore(5000))
    first = [Row(prompt, Sampling(1.0, 1.0, 4), stream=i) for i in range(6)]
    decoder.run(first)
    assert sorted(row.cached for row in first) == [0] + [79] * 5
    later = [Row([*prompt, *range(100, 120)], Sampling(1.0, 1.0, 4))]
    decoder.run(later)
    assert later[0].cached == 80 and later[0].new == plainly(model, later[0])[0]


def test_out_of_memory_halves_the_batch_and_changes_no_reply(models):
    model, batch = models("llama"), rows(16, seed=5)
    expected = [plainly(model, row)[0] for row in batch]
    decoder = Decoder(model, {2}, 10_000, PrefixStore(2000))
    forward, sizes = decoder._forward, []

    def small_machine(cache, ids, keep):
        sizes.append(len(ids))
        if len(ids) > 4 and len(sizes) > 5:  # in the middle of decoding, with tokens generated
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return forward(cache, ids, keep)

    decoder._forward = small_machine
    decoder.run(batch)
    assert [row.new for row in batch] == expected
    assert max(sizes) > 4 and max(sizes[-10:]) <= 4


def test_a_row_too_large_for_memory_fails_alone(models):
    decoder = Decoder(models("llama"), {2}, 10_000)
    batch, forward = [*rows(4, seed=6), Row([5] * 300, Sampling(1.0, 1.0, 3))], decoder._forward

    def small_machine(cache, ids, keep):
        if cache.end >= 290:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you asked for 9 bytes")
        return forward(cache, ids, keep)

    decoder._forward = small_machine
    decoder.run(batch)
    assert [row.finish == "error" for row in batch] == [False] * 4 + [True] and "out of memory" in batch[-1].error


def test_other_errors_are_not_taken_for_a_lack_of_memory(models):
    decoder = Decoder(models("llama"), {2}, 10_000)
    decoder._forward = lambda *args: (_ for _ in ()).throw(RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        decoder.run(rows(3))


def test_an_interruption_leaves_nothing_broken(models):
    model, batch = models("llama"), rows(8, seed=7)
    decoder = Decoder(model, {2}, 10_000, PrefixStore(2000))
    told = []

    def interrupt(count):
        told.append(count)
        if len(told) == 4:
            raise KeyboardInterrupt

    decoder.on_tokens = interrupt
    with pytest.raises(KeyboardInterrupt):
        decoder.run(batch)
    decoder.on_tokens = None
    again = rows(8, seed=7)
    decoder.run(again)
    assert [row.new for row in again] == [plainly(model, row)[0] for row in again]


def test_numbers_that_are_not_finite_fail_their_row(models):
    decoder = Decoder(models("llama"), {2}, 10_000)
    batch, forward = rows(3, seed=8), decoder._forward

    def broken(cache, ids, keep):
        logits = forward(cache, ids, keep).clone()
        logits[0] = math.nan
        return logits

    decoder._forward = broken
    decoder.run(batch)
    assert "not finite" in next(row.error for row in batch if row.finish == "error")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
def test_scores_are_the_log_probabilities_of_the_last_tokens(models, kind):
    model, batch = models(kind), rows(12, seed=9, shared=40)
    for i, row in enumerate(batch):
        row.tail = 1 + i % 5
    decoder = Decoder(model, {2}, 10_000, PrefixStore(3000), prefill_tokens=400)
    decoder.score(batch)
    for row in batch:
        with torch.no_grad():
            scores = model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)
        expected = sum(scores[i - 1, row.ids[i]].item() for i in range(len(row.ids) - row.tail, len(row.ids)))
        assert row.log_prob == pytest.approx(expected, abs=1e-3)
