"""Guessed tokens: what is guessed, and that guessing changes how many forward passes it takes and nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_decoding import rows
from tiny import save_tiny

from goa_torch.agents import lookup, ragged, ragged_decoding
from goa_torch.agents.decoding import Decoder, Row
from goa_torch.agents.kv import Layout, PrefixStore, RowCache
from goa_torch.agents.loading import Recipe, load
from goa_torch.agents.lookup import GUESSES, FewRows, Lookup
from goa_torch.types import Sampling

LAYOUT = Layout(((1, 2, torch.float32, torch.device("cpu")),) * 2)
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=40)

# ---------------------------------------------------------------------- what is guessed


def expected_guess(text: list[int], count: int) -> list[int]:
    """The definition, by searching from the right."""
    start = len(text) - 1
    for length in lookup.LENGTHS:
        places = [i for i in range(length, len(text)) if text[i - length : i] == text[-length:]]
        if length <= len(text) and places:
            start = places[-1]
            break
    text, known = list(text), len(text)
    for i in range(count):
        text.append(text[start + i])
    return text[known:]


@given(TEXTS, st.integers(0, 6))
def test_a_guess_is_what_followed_the_latest_earlier_occurrence(text, count):
    assert Lookup(text).guess(count) == expected_guess(text, count)


@given(TEXTS, st.integers(0, 40), st.integers(1, 4))
def test_a_text_told_in_parts_is_the_same_text(text, cut, count):
    parts = Lookup(text[:cut])
    parts.extend(text[cut:])
    assert parts.tokens == text and parts.guess(count) == Lookup(text).guess(count)


@given(st.lists(st.integers(), min_size=1, max_size=8, unique=True), st.integers(1, 20))
def test_a_text_that_repeats_itself_is_guessed_for_ever(period, count):
    text = period * 2
    assert Lookup(text).guess(count) == (period * (count // len(period) + 1))[:count]


# ---------------------------------------------------------------------- what becomes of guesses


class Counter:
    """A "model" of ten tokens that counts round: each token is followed by the next. ``at`` maps a position to the
    token that comes after it instead, ``None`` for numbers that are not finite."""

    def __init__(self, at=None):
        self.at, self.passes = at or {}, []

    def forward(self, ids, positions, pieces, wanted):
        self.passes.append(ids.tolist())
        logits = torch.zeros(len(ids), 10)
        for number, (token, position) in enumerate(zip(ids.tolist(), positions.tolist())):
            follows = self.at.get(position, (token + 1) % 10)
            logits[number, slice(None) if follows is None else follows] = torch.nan if follows is None else 50.0
        return logits


def few(*batch: Row) -> FewRows:
    """Rows that counted twice in their prompt and have drawn the next 0."""
    shelf = RowCache(LAYOUT, len(batch), 64)
    shelf.end = 20
    for row in batch:
        row.new = [0]
        shelf.place(20, None, 0)
    return FewRows(LAYOUT, [(shelf, place, row) for place, row in enumerate(batch)])


def counting(new: int, **options) -> Row:
    return Row([*range(10), *range(10)], Sampling(0.0, 1.0, new), **options)


def test_right_guesses_make_a_pass_worth_several_tokens():
    row, model = counting(9), Counter()
    going = few(row)
    assert [going.step(model, ()) for _ in range(2)] == [4, 4]
    assert model.passes == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert row.new == list(range(9)) and row.finish == "length" and not going.rows


@pytest.mark.parametrize("new, eos, drawn, finish", [
    (7, (), [4, 2], "length"), (99, (6,), [4, 2], "stop"), (99, (1,), [1], "stop"), (2, (), [1], "length")])
def test_a_reply_ends_inside_what_was_guessed(new, eos, drawn, finish):
    row, model = counting(new), Counter()
    going, counts = few(row), []
    while going.rows:
        counts.append(going.step(model, eos))
    assert counts == drawn and row.new == list(range(1 + sum(drawn))) and row.finish == finish


def test_a_stop_string_is_told_what_is_drawn_and_no_guess():
    told = []
    row = counting(99, watch=lambda token: told.append(token) or told[-2:] == [5, 6])
    going = few(row)
    while going.rows:
        going.step(Counter(), ())
    assert told == [1, 2, 3, 4, 5, 6] == row.new[1:] and row.finish == "stop"


def test_the_first_token_that_was_not_guessed_is_kept_and_ends_the_pass():
    row, model = counting(30), Counter({21: 7})  # 0, 1 is followed by 7, once
    going = few(row)
    assert going.step(model, ()) == 2 and row.new == [0, 1, 7]
    assert going.step(model, ()) == 4 and row.new == [0, 1, 7, 8, 9, 0, 1]
    assert model.passes == [[0, 1, 2, 3], [7, 8, 9, 0]]


def test_numbers_that_are_not_finite_fail_a_row_where_it_stands_alone():
    short, broken = counting(3), counting(30)
    going, model = few(broken, short), Counter({22: None})
    assert going.step(model, ()) == 5  # one has all it may have after two, the third draw of the other fails
    assert broken.finish == "error" and broken.new == [0, 1, 2] and "not finite" in broken.error
    assert short.finish == "length" and short.new == [0, 1, 2] and not going.rows


def test_guessing_ends_where_nothing_comes_of_it():
    steps = torch.randint(10, (300,), generator=torch.Generator().manual_seed(0)).tolist()
    row, model = counting(250), Counter({20 + i: token for i, token in enumerate(steps)})
    going = few(row)
    while going.rows:
        going.step(model, ())
    assert row.new == [0, *steps[:249]]
    assert [len(ids) for ids in model.passes[: lookup.TRIES]] == [1 + GUESSES] * lookup.TRIES
    assert {len(ids) for ids in model.passes[lookup.TRIES :]} == {1}


# ---------------------------------------------------------------------- whole batches


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """One whose next token depends on little but the last one, so that replies repeat themselves at temperature 0."""
    held = load(Recipe(str(save_tiny(tmp_path_factory.mktemp("llama"))), dtype="float32", device="cpu"))
    with torch.no_grad():
        for layer in held.module.model.layers:
            layer.self_attn.o_proj.weight *= 0.1
            layer.mlp.down_proj.weight *= 0.1
    return held


class Batch:
    """Runs rows with guesses, or without; counts forward passes."""

    def __init__(self, model, monkeypatch):
        monkeypatch.setattr(ragged, "PARAMETERS", 0)
        self.decoder, self.monkeypatch, self.passes = Decoder(model, (), 10_000, PrefixStore(0)), monkeypatch, 0
        forward = ragged.RaggedModel.forward

        def watched(model, ids, positions, pieces, wanted):
            self.passes += 1
            self.before(pieces)
            return forward(model, ids, positions, pieces, wanted)

        monkeypatch.setattr(ragged.RaggedModel, "forward", watched)

    def before(self, pieces):
        """Called before each forward pass."""

    def run(self, batch, guessing, eos=(), told=None):
        self.monkeypatch.setattr(ragged_decoding, "GUESSING_ROWS", guessing)
        self.decoder._team.ends, self.decoder.on_tokens, self.passes = frozenset(eos), told, 0
        self.decoder._team._decoders.clear()
        self.decoder.run(batch)
        return [row.new for row in batch]


@pytest.fixture()
def batch(model, monkeypatch):
    return Batch(model.module, monkeypatch)


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("eos", [(), range(2, 30)])
def test_a_reply_is_what_it_is_without_guesses(batch, monkeypatch, temperature, eos):
    monkeypatch.setattr(lookup, "TRIES", 10_000)

    def ask():
        return [row for seed in (1, 2) for row in rows(4, seed=seed, temperature=temperature, new=80)]

    plain, guessed, told = ask(), ask(), []
    batch.run(plain, 0, eos)
    passes = batch.passes
    batch.run(guessed, 8, eos, told.append)
    assert [(row.new, row.finish) for row in guessed] == [(row.new, row.finish) for row in plain]
    assert [row.log_prob for row in guessed] == pytest.approx([row.log_prob for row in plain], abs=1e-3)
    assert sum(told) == sum(len(row.new) for row in plain)
    assert batch.passes <= passes and (temperature or eos or batch.passes < passes)


def test_rows_of_any_length_guess_together_once_the_others_are_done(batch):
    def ask():
        asked = [*rows(12, seed=3, temperature=0.0), *rows(2, seed=4, shared=200, temperature=0.0)]
        for i, row in enumerate(asked):
            row.sampling = Sampling(0.0, 1.0, 3 + 9 * (i % 7))
        return asked

    pieces = []
    batch.before = lambda now: pieces.append([piece.stops for piece in now])
    expected = batch.run(ask(), 0)
    assert all(stops is None for now in pieces for stops in now)
    pieces.clear()
    assert batch.run(ask(), 5) == expected
    together = [len(now[0]) for now in pieces if now[0] is not None]
    assert 1 < together[0] <= 5 and together == sorted(together, reverse=True)


def test_an_interruption_among_guesses_leaves_what_was_drawn(batch):
    expected = batch.run(rows(4, temperature=0.0, new=30), 0)
    told, asked = [], rows(4, temperature=0.0, new=30)

    def interrupt(tokens):
        told.append(tokens)
        if sum(told) > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.run(asked, 8, told=interrupt)
    assert sum(told) == sum(len(row.new) for row in asked)
    assert all(row.new == reply[: len(row.new)] for row, reply in zip(asked, expected))


def test_rows_that_run_out_of_memory_among_guesses_go_on_later(batch):
    expected = batch.run(rows(4, temperature=0.9, new=30), 0)
    guesses = []

    def small_machine(pieces):
        if pieces[0].stops is not None:
            guesses.append(len(pieces[0].stops))
            if len(guesses) == 3:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you asked for 9 bytes")

    batch.before = small_machine
    assert batch.run(rows(4, temperature=0.9, new=30), 8) == expected
    assert guesses[:3] == [4, 4, 4] and 1 <= guesses[3] < 4


def test_one_token_is_prompt_enough(batch):
    expected = batch.run([Row([5], Sampling(0.0, 1.0, 40))], 0)
    assert batch.run([Row([5], Sampling(0.0, 1.0, 40))], 1) == expected
