"""The forward pass without padding, its loop and its threads, against plain forward passes of the same tiny models."""

from __future__ import annotations

import threading

import pytest
import torch
from test_decoding import plainly, rows
from tiny import save_tiny

from goa_torch.agents import ragged, ragged_decoding, team
from goa_torch.agents.decoding import Decoder, Row
from goa_torch.agents.hf import HFModel
from goa_torch.agents.kv import PrefixStore
from goa_torch.agents.loading import Recipe, load
from goa_torch.types import Chat, Message, Sampling

KINDS = {"llama": {}, "qwen2": {}, "qwen3": {}, "mistral": {"sliding_window": None}}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    held = {}

    def get(kind):
        if kind not in held:  # the one who loaded it keeps it in memory
            folder = save_tiny(tmp_path_factory.mktemp(kind), kind, **KINDS.get(kind, {}))
            held[kind] = load(Recipe(str(folder), dtype="float32", device="cpu"))
        return held[kind].module

    return get


@pytest.fixture(autouse=True)
def tiny_models_count(monkeypatch):
    monkeypatch.setattr(ragged, "PARAMETERS", 0)


@pytest.fixture()
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def decoder(model, batch_tokens=10_000, prefix_tokens=0, eos=(2,), prefill_tokens=300, **options):
    made = Decoder(model, eos, batch_tokens, PrefixStore(prefix_tokens), prefill_tokens=prefill_tokens, **options)
    assert made._team is not None
    made._forward = None  # the other path would use it
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared", [0, 60])
def test_a_batch_says_what_each_row_says_alone(models, kind, shared):
    model, batch = models(kind), rows(shared=shared)
    decoder(model, prefix_tokens=5000).run(batch)
    for row in batch:
        new, log_prob = plainly(model, row)
        assert row.new == new and row.log_prob == pytest.approx(log_prob, abs=1e-3)
        assert row.finish == ("stop" if new[-1] == 2 else "length")


@pytest.fixture(scope="module")
def expected(models):
    """What each row of one batch says alone."""
    return [plainly(models("llama"), row)[0] for row in rows(40, shared=40, top_p=0.9, new=8)]


@pytest.mark.parametrize("batch_tokens", [1, 400, 10_000])
@pytest.mark.parametrize("prefix_tokens", [0, 150, 5000])
@pytest.mark.parametrize("count", [1, 2])
def test_neither_budget_nor_prefixes_nor_threads_change_a_reply(models, threads, expected, batch_tokens, prefix_tokens,
                                                                count):
    threads(count)
    batch = rows(40, shared=40, top_p=0.9, new=8)
    decoder(models("llama"), batch_tokens, prefix_tokens).run(batch)
    assert [row.new for row in batch] == expected


def test_short_and_long_rows_advance_together(models, monkeypatch):
    model, batch = models("llama"), rows(6, seed=3, new=8) + rows(6, seed=4, shared=200, new=8)
    expected = [plainly(model, row)[0] for row in batch]
    made, passes, forward = decoder(model, eos=[]), [], ragged.RaggedModel.forward

    def watched(self, ids, positions, pieces, wanted):
        passes.append([piece.shelf.columns for piece in pieces if piece.queries == 1])
        return forward(self, ids, positions, pieces, wanted)

    monkeypatch.setattr(ragged.RaggedModel, "forward", watched)
    made.run(batch)
    steps = [shelves for shelves in passes if shelves]
    assert len(steps) == 7 and all(len(shelves) == len(set(shelves)) == 3 for shelves in steps)
    assert [row.new for row in batch] == expected


def test_a_long_prompt_is_read_in_pieces(models, monkeypatch):
    model, batch = models("llama"), rows(3, seed=5, shared=300, new=4)
    monkeypatch.setattr(ragged, "SCORES", 4 * 16 * 100)
    decoder(model, prefix_tokens=1000).run(batch)
    assert [row.new for row in batch] == [plainly(model, row)[0] for row in batch]


def test_rows_come_and_go_at_their_own_pace(models):
    model, batch = models("llama"), rows(40, seed=3)
    for i, row in enumerate(batch):
        row.sampling = Sampling(0.9, 1.0, 1 + 7 * (i % 9))
    expected = [plainly(model, row, frozenset(range(2, 60)))[0] for row in batch]
    told = []
    decoder(model, 1000, eos=range(2, 60), on_tokens=told.append).run(batch)
    assert [row.new for row in batch] == expected
    assert sum(told) == sum(map(len, expected)) and max(told) > 3 and told[-1] < max(told)


def test_equal_prompts_are_read_once_and_later_calls_reuse_them(models, threads):
    model, prompt = models("llama"), list(range(3, 83))
    threads(1)
    one = decoder(model, prefix_tokens=5000)
    first = [Row(prompt, Sampling(1.0, 1.0, 4), stream=i) for i in range(6)]
    one.run(first)
    assert sorted(row.cached for row in first) == [0] + [79] * 5
    later = [Row([*prompt, *range(100, 120)], Sampling(1.0, 1.0, 4))]
    one.run(later)
    assert later[0].cached == 80 and later[0].new == plainly(model, later[0])[0]


def test_scores_are_the_log_probabilities_of_the_last_tokens(models, threads):
    model = models("llama")
    for count in (1, 2):
        threads(count)
        batch = rows(34, seed=9, shared=40)
        for i, row in enumerate(batch):
            row.tail = 1 + i % 5
        decoder(model, prefix_tokens=3000, prefill_tokens=400).score(batch)
        threads(1)
        for row in batch[::3]:
            with torch.no_grad():
                scores = model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)
            expected = sum(scores[i - 1, row.ids[i]].item() for i in range(len(row.ids) - row.tail, len(row.ids)))
            assert row.log_prob == pytest.approx(expected, abs=1e-3) and row.finish == "stop"


def test_out_of_memory_makes_the_batch_smaller_and_changes_no_reply(models, monkeypatch):
    model, batch = models("llama"), [*rows(12, seed=6), Row([5] * 300, Sampling(1.0, 1.0, 3))]
    expected = [plainly(model, row)[0] for row in batch]
    forward, sizes = ragged.RaggedModel.forward, []

    def small_machine(self, ids, positions, pieces, wanted):
        sizes.append(sum(piece.shelf.rows * piece.shelf.columns for piece in {id(p.shelf): p for p in pieces}.values()))
        if sizes[-1] > 330 and len(sizes) > 4:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you asked for 9 bytes")
        return forward(self, ids, positions, pieces, wanted)

    monkeypatch.setattr(ragged.RaggedModel, "forward", small_machine)
    decoder(model).run(batch)
    assert [row.new for row in batch[:-1]] == expected[:-1]
    assert batch[-1].finish == "error" and "out of memory" in batch[-1].error


def test_other_errors_are_not_taken_for_a_lack_of_memory(models, monkeypatch):
    monkeypatch.setattr(ragged.RaggedModel, "forward",
                        lambda *args: (_ for _ in ()).throw(RuntimeError("shapes do not match")))
    monkeypatch.setattr(ragged.RaggedModel, "_agrees", lambda *args: True)
    with pytest.raises(RuntimeError, match="shapes"):
        decoder(models("llama")).run(rows(3))


@pytest.mark.parametrize("count", [1, 2])
def test_an_interruption_leaves_nothing_broken_and_nobody_running(models, threads, expected, count):
    made, told, batch = decoder(models("llama"), prefix_tokens=2000), [], rows(40, shared=40, top_p=0.9, new=8)
    threads(count)

    def interrupt(tokens):
        told.append(tokens)
        if len(told) == 4:
            raise KeyboardInterrupt

    made.on_tokens = interrupt
    with pytest.raises(KeyboardInterrupt):
        made.run(batch)
    assert torch.get_num_threads() == count
    assert not [t for t in threading.enumerate() if t.name.startswith("ThreadPoolExecutor")]
    made.on_tokens = None
    again = rows(40, shared=40, top_p=0.9, new=8)
    made.run(again)
    assert [row.new for row in again] == expected


def test_numbers_that_are_not_finite_fail_their_row_alone(models, monkeypatch):
    model, batch = models("llama"), rows(5, seed=8)
    forward, passes = ragged.RaggedModel.forward, []

    def broken(self, ids, positions, pieces, wanted):
        passes.append(len(ids))
        logits = forward(self, ids, positions, pieces, wanted)
        if len(passes) == 4:
            logits[0] = torch.nan
        return logits

    made = decoder(model, eos=[])
    monkeypatch.setattr(ragged.RaggedModel, "forward", broken)
    made.run(batch)
    assert sorted(row.finish for row in batch) == ["error"] + ["length"] * 4
    assert "not finite" in next(row.error for row in batch if row.finish == "error")


def test_models_it_would_get_wrong_are_left_to_their_own_forward_pass(models, monkeypatch):
    model = models("llama")
    norm, forward = model.model.norm.weight, type(model).forward
    made = Decoder(model, {2}, 1000)
    assert made._team is not None
    monkeypatch.setattr(type(model), "forward", lambda self, *a, **k: _scaled(forward(self, *a, **k)))
    assert ragged.RaggedModel.of(model, made.layout) is None
    monkeypatch.undo()
    assert model.model.norm.weight is norm
    monkeypatch.setattr(ragged, "PARAMETERS", 10**9)
    assert ragged.RaggedModel.of(model, made.layout) is None


@pytest.mark.parametrize("kind, changes", [
    ("mistral", {"sliding_window": 8}), ("gemma2", {"sliding_window": 8, "query_pre_attn_scalar": 12}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}})])
def test_windows_soft_caps_and_lengths_that_change_positions_are_not_its_business(tmp_path, kind, changes):
    model = load(Recipe(str(save_tiny(tmp_path, kind, **changes)), dtype="float32", device="cpu")).module
    assert Decoder(model, {2}, 1000)._team is None


def test_a_model_answers_a_batch_by_itself_and_alone(tmp_path, threads):
    model = HFModel(save_tiny(tmp_path), dtype="float32", device="cpu")
    threads(2)
    chats = [Chat((Message.of("user", f"Question {i % 7}: which number is prime? " * (1 + i % 4)),), i)
             for i in range(40)]
    together = [reply.text for reply in model.generate(chats, Sampling(0.9, 0.95, 16))]
    threads(1)
    alone = [model.generate([chat], Sampling(0.9, 0.95, 16))[0].text for chat in chats[:8]]
    assert together[:8] == alone and len(set(together)) > 20


def test_parts_of_a_batch_hold_equal_work_and_keep_what_begins_alike_together():
    questions = [[q] * 20 for q in range(8)]
    batch = [Row([*question, agent], Sampling(max_new_tokens=4)) for agent in range(3) for question in questions]
    parts = team._share(batch, 2)
    assert [len(part) for part in parts] == [12, 12]
    assert [{row.ids[0] for row in part} for part in parts] == [{0, 1, 2, 3}, {4, 5, 6, 7}]
    assert team._share(batch[:1], 2) == [batch[:1], []]


@pytest.fixture()
def handed_on(monkeypatch):
    """How many rows each call of ``finish`` was left with; batches of eight rows get a thread of their own."""
    calls, finish = [], ragged_decoding.RaggedDecoder.finish

    def watched(self, shelves, budget):
        calls.append([len(shelf.active) for shelf in shelves])
        finish(self, shelves, budget)

    monkeypatch.setattr(ragged_decoding.RaggedDecoder, "finish", watched)
    monkeypatch.setattr(team, "ROWS_A_THREAD", 8)
    return calls


@pytest.mark.parametrize("few, guessing", [(64, 0), (5, 0), (5, 4), (0, 4)])
def test_threads_whose_batches_have_become_small_go_on_as_one(models, threads, monkeypatch, handed_on, few, guessing):
    monkeypatch.setattr(team, "FEW_ROWS", few)
    monkeypatch.setattr(ragged_decoding, "GUESSING_ROWS", guessing)

    def ask():
        batch = rows(16, seed=3, top_p=0.9)
        for i, row in enumerate(batch):
            row.sampling = Sampling(0.9, 0.9, 1 + 4 * (i % 5))
        return batch

    threads(1)
    alone, together, told = ask(), ask(), []
    decoder(models("llama"), eos=()).run(alone)
    assert not handed_on
    threads(2)
    decoder(models("llama"), eos=(), on_tokens=told.append).run(together)
    assert [(row.new, row.finish) for row in together] == [(row.new, row.finish) for row in alone]
    assert sum(told) == sum(len(row.new) for row in alone) and torch.get_num_threads() == 2
    assert len(handed_on) == (few > 0)
    if few == 64:
        assert sum(handed_on[0]) == sum(row.sampling.max_new_tokens > 1 for row in alone)
    elif few:
        assert 0 < sum(handed_on[0]) <= 2 * few


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_after_threads_have_joined_is_raised_and_leaves_the_decoders_usable(models, threads, handed_on, error):
    threads(2)
    made, batch = decoder(models("llama"), eos=()), rows(16, seed=3, new=6)

    def interrupt(tokens):
        if handed_on:
            raise error

    made.on_tokens = interrupt
    with pytest.raises(error):
        made.run(batch)
    assert len(handed_on) == 1 and torch.get_num_threads() == 2
    made.on_tokens, again = None, rows(16, seed=3, new=6)
    made.run(again)
    assert all(row.finish == "length" for row in again)
    assert all(row.new == other.new[: len(row.new)] for row, other in zip(batch, again))


def test_an_error_in_one_thread_ends_the_others_and_nobody_goes_on(models, threads, monkeypatch, handed_on):
    made, batch, steps = decoder(models("llama"), eos=()), rows(16, seed=3, new=400), []
    step = ragged_decoding.RaggedDecoder._step

    def broken(self, shelves):
        steps.append(threading.get_ident())
        if self is made._team._decoders[1]:
            raise ValueError("shapes do not match")
        step(self, shelves)

    monkeypatch.setattr(team, "FEW_ROWS", 0)
    monkeypatch.setattr(ragged_decoding.RaggedDecoder, "_step", broken)
    threads(2)
    with pytest.raises(ValueError, match="shapes"):
        made.run(batch)
    assert not handed_on and len(steps) < 400 and torch.get_num_threads() == 2


def test_rows_left_by_threads_that_run_out_of_memory_go_on_later(models, threads, monkeypatch, handed_on):
    threads(1)
    expected = rows(16, seed=3, new=8)
    decoder(models("llama"), eos=()).run(expected)
    forward, failed = ragged.RaggedModel.forward, []

    def small_machine(self, ids, positions, pieces, wanted):
        if handed_on and len(failed) < 2:
            failed.append(len(ids))
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you asked for 9 bytes")
        return forward(self, ids, positions, pieces, wanted)

    made, batch = decoder(models("llama"), eos=()), rows(16, seed=3, new=8)
    monkeypatch.setattr(ragged.RaggedModel, "forward", small_machine)
    threads(2)
    made.run(batch)
    assert len(failed) == 2 and [row.new for row in batch] == [row.new for row in expected]


def _scaled(output):
    output.logits = output.logits * 1.5
    return output
