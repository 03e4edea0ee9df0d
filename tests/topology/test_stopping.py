"""Stopping rules: when each ends a question, and how they are written as settings."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.topology.stopping import (
    Agreement,
    AllOf,
    AnyOf,
    FixedRounds,
    MajorityStable,
    UncertaintyGate,
    parse_stop,
)
from goa_torch.topology.uncertainty import answer_entropy, stated_confidence, uncertainty
from goa_torch.types import Reply, Usage
from tests.topology.test_random_peers import graphs


def said(answers):
    return [Reply(f"I say {a}", answer=a) for a in answers]


def state_of(*rounds):
    """One question whose agents answered as ``rounds`` tell, round by round."""
    state = graphs([len(rounds[-1])], replies=said(rounds[-1]))
    state.history = [said(answers) for answers in rounds]
    return state


def stops(rule, *rounds):
    return bool(rule(state_of(*rounds), len(rounds))[0])


def test_unanimity_needs_everybody_and_abstention_is_no_agreement():
    assert stops(Agreement(), ["a", "a", "a"])
    assert not stops(Agreement(), ["a", "a", "b"])
    assert not stops(Agreement(), ["a", "a", None])
    assert not stops(Agreement(), [None, None])


def test_shares_are_of_all_agents():
    assert stops(Agreement(2 / 3), ["a", "a", "b"]) and not stops(Agreement(2 / 3, strict=True), ["a", "a", "b"])
    assert not stops(Agreement(2 / 3), ["a", None, None])
    assert stops(Agreement(0.67), ["a"] * 5 + ["b"])


def test_a_gate_looks_only_before_the_first_round():
    assert stops(Agreement(0.6, gate=True), ["a", "a", "b"])
    assert not stops(Agreement(0.6, gate=True), ["a", "b", "c"], ["a", "a", "a"])


def test_the_majority_is_stable_when_it_has_not_changed_for_so_many_rounds():
    a, b = ["a", "a", "b"], ["b", "a", "b"]
    assert not stops(MajorityStable(1), a)
    assert stops(MajorityStable(1), a, a) and not stops(MajorityStable(2), a, a)
    assert stops(MajorityStable(2), b, a, a, a)
    assert not stops(MajorityStable(2), a, b, a, a) and stops(MajorityStable(1), a, b, a, a)
    assert not stops(MajorityStable(1), [None] * 3, [None] * 3)


def test_entropy_is_that_of_the_answers_of_all_agents():
    assert answer_entropy(state_of(["a"] * 4))[0] == 0
    assert answer_entropy(state_of(["a", "b", "c", "d"]))[0] == pytest.approx(1)
    assert answer_entropy(state_of(["a", "a", "b", "b"]))[0] == pytest.approx(0.5)
    assert answer_entropy(state_of([None] * 4))[0] == pytest.approx(1)
    assert answer_entropy(state_of(["a"])) == 0 and answer_entropy(state_of([None])) == 1
    assert stops(UncertaintyGate(0.5), ["a", "a", "b", "b"]) and not stops(UncertaintyGate(0.4), ["a", "a", "b", "b"])


def test_token_uncertainty_is_nats_per_token_and_unknown_is_never_finished():
    sure = Reply("a", answer="a", log_prob=-1.0, usage=Usage(calls=1, completion_tokens=10))
    unsure = Reply("a", answer="a", log_prob=-9.0, usage=Usage(calls=1, completion_tokens=10))
    state = graphs([2], replies=[sure, unsure])
    assert uncertainty(state, "tokens").tolist() == pytest.approx([0.1, 0.9])
    assert bool(UncertaintyGate(0.5, "tokens")(state, 1)[0]) and not bool(UncertaintyGate(0.4, "tokens")(state, 1)[0])
    assert uncertainty(graphs([1]), "tokens").tolist() == [math.inf]
    assert not bool(UncertaintyGate(1e6, "tokens")(graphs([2], replies=[sure, Reply("a")]), 1)[0])


def test_agreement_and_stated_confidence_are_uncertainties_too():
    assert uncertainty(state_of(["a", "a", "b", None])).tolist() == [0.5, 0.5, 0.75, 1]
    state = graphs([3], replies=[Reply("Confidence: 0.8\nx"), Reply("confidence is 60%"), Reply("no idea")])
    assert uncertainty(state, "stated").tolist() == pytest.approx([0.2, 0.4, 1])


@pytest.mark.parametrize("text, level", [
    ("Confidence: 0.8", 0.8), ("**Confidence**: 80 %", 0.8), ("confidence_level\": \"0.7\"", 0.7),
    ("My confidence is 8/10.", 0.8), ("Confidence: 1", 1), ("Confidence: 80", None), ("I am confident", None),
    ("Confidence: 0.2 ... Confidence: 0.9", 0.9), ("", None), (None, None), ("Confidence: 3/0", None),
    ("confidence of .5", 0.5),
])
def test_stated_confidence_is_read_or_unknown(text, level):
    assert stated_confidence(text) == level


@given(st.text(max_size=300))
def test_reading_a_confidence_never_fails(text):
    level = stated_confidence("confidence " + text)
    assert level is None or 0 <= level <= 1


def test_rules_combine():
    yes, no = FixedRounds(0), FixedRounds(9)
    state = state_of(["a"])
    assert bool(AnyOf(yes, no)(state, 1)) and not bool(AllOf(yes, no)(state, 1)) and bool(AllOf(yes, yes)(state, 1))


@pytest.mark.parametrize("rule, rounds, ends", [
    (None, 2, 3), ("unanimity", 5, 2), ("gate:0.9", 5, 6), ("stable:1", 5, 3), ("stable:1 & entropy:0", 5, 3),
    ("rounds:1", 5, 2), ("stable:2 | rounds:4", 9, 4), ("agreement:0.3", 5, 1), ("entropy: 0.95", 5, 1),
])
def test_a_rule_as_text_ends_where_it_says(rule, rounds, ends):
    module = parse_stop(rule, rounds)
    history = [["a", "b", "b"]] + [["a", "a", "a"]] * 9
    assert next(r for r in range(1, 10) if stops(module, *history[:r])) == ends


@pytest.mark.parametrize("rule, words", [
    ("unanimous", "Did you mean 'unanimity'"), ("stable:0", "between 1"), ("stable:1.5", "whole"),
    ("entropy:2", "0 and 1"), ("entropy:x", "number"), ("", "unknown rule"), ("stable:2 |", "unknown rule"),
    (3, "must be text"),
    ("agreement:nan", "number"),
])
def test_wrong_rules_are_one_line(rule, words):
    with pytest.raises(UserError) as error:
        parse_stop(rule, 3)
    assert words in str(error.value) and "\n" not in str(error.value)


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_an_error_of_the_user(text):
    try:
        assert parse_stop(text, 3)(state_of(["a", "b"]), 1).shape == (1,)
    except UserError as error:
        assert "\n" not in str(error).replace(text, "").replace(repr(text), "")


def test_finished_questions_are_left_alone_and_empty_graphs_do_not_stop_anybody():
    state = graphs([0, 2], replies=said(["a", "a"]))
    state.history = [state.replies]
    assert Agreement()(state, 1).tolist() == [False, True]
    state.done = torch.tensor([False, True])
    assert Agreement()(state, 1).tolist() == [False, False]
