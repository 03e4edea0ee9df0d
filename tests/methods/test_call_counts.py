"""What each method costs: calls by purpose, and the sequential depth."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from goa_torch.methods import build_method
from tests.worlds import echo_pool, questions, say_by_purpose


def sure(chat):
    """As a well-behaved model of the released prompts: JSON with a confidence."""
    if "Reply with one JSON object" in chat.text:
        return json.dumps({"reasoning": "because", "answer": "x", "confidence_level": "0.9"})
    return say_by_purpose(chat)


@pytest.mark.parametrize("name, settings, calls, depth", [
    ("single", {}, {"answer": 1}, 1),
    ("routed_single", {}, {"select": 1, "answer": 1}, 2),
    ("iterate", {}, {"answer": 1, "pass": 10}, 11),
    ("vote", {}, {"answer": 6}, 1),
    ("vote", {"k": 3, "samples": 3}, {"select": 1, "answer": 9}, 2),
    ("self_consistency", {}, {"answer": 6}, 1),
    ("moa", {}, {"answer": 6, "pass": 12, "readout": 1}, 4),
    ("goa", {}, {"select": 1, "answer": 3, "score": 3, "pass": 4}, 5),
    ("goa", {"readout": "mean"}, {"select": 1, "answer": 3, "score": 3, "pass": 4, "readout": 1}, 6),
    ("goa", {"k": 2}, {"select": 1, "answer": 2, "score": 2, "pass": 2}, 5),
    ("goa", {"k": 5}, {"select": 1, "answer": 5, "score": 5, "pass": 8}, 5),
    ("goa", {"k": 1}, {"select": 1, "answer": 1}, 2),
    ("goa", {"flow": "source_to_target"}, {"select": 1, "answer": 3, "score": 3, "pass": 2}, 4),
    ("goa", {"flow": "reversed"}, {"select": 1, "answer": 3, "score": 3, "pass": 4}, 5),
    ("goa", {"mode": "released"}, {"select": 1, "answer": 3, "score": 3, "pass": 3}, 5),
    ("goa", {"mode": "released", "readout": "mean"},
     {"select": 1, "answer": 3, "score": 3, "pass": 4, "readout": 1}, 7),
    ("goa", {"k": -1}, {"select": 2, "answer": 2, "score": 2, "pass": 2}, 6),
    ("mad", {}, {"answer": 3, "pass": 3}, 2),
    ("mad", {"n": None, "rounds": 3, "history": False}, {"answer": 6, "pass": 12}, 3),
    ("sparse_mad", {}, {"answer": 6, "pass": 18}, 4),
    ("ring_mad", {}, {"answer": 8, "pass": 104}, 14),
    ("small_world", {}, {"answer": 8, "pass": 104}, 14),
    ("random_nodup", {}, {"answer": 8, "pass": 104}, 14),
    ("random_fixed", {"rounds": 3}, {"answer": 8, "pass": 16}, 3),
    ("random_nodup", {"stop": "rounds:2"}, {"answer": 8, "pass": 16}, 3),
    ("stage_switching", {}, {"answer": 8, "pass": 104}, 14),
    ("random_switching", {}, {"answer": 8, "pass": 104}, 14),
    ("uncertainty_guided", {}, {"answer": 8, "pass": 104}, 14),
    ("refine", {}, {"answer": 1, "pass": 4}, 5),
    ("self_moa", {}, {"answer": 6, "readout": 1}, 2),
    ("handoff", {}, {"select": 5, "answer": 1, "pass": 4}, 10),
    ("macnet", {}, {"answer": 1, "pass": 10}, 11),
    ("macnet", {"graph": "star"}, {"answer": 1, "pass": 10, "readout": 1}, 4),
    ("macnet", {"graph": "mesh"}, {"answer": 1, "pass": 20}, 11),
    ("dylan", {}, {"answer": 6}, 1),  # everybody agrees
    ("s2_mad", {}, {"answer": 6}, 1),  # nobody disagrees
    ("armor_mad", {}, {"answer": 6}, 1),
    ("reconcile", {}, {"answer": 6}, 1),
    ("groupdebate", {}, {"answer": 6, "pass": 20}, 5),
    ("colmad", {}, {"answer": 2, "pass": 2, "readout": 1}, 3),
])
def test_calls_and_depth_are_those_of_the_method(name, settings, calls, depth):
    results = build_method(name, echo_pool(sure), **settings)(questions(3))
    for result in results:
        assert Counter(call.purpose for call in result.calls) == calls
        assert result.depth == depth
        assert result.usage.calls == sum(calls.values())


@pytest.mark.parametrize("readout, calls", [("max", 10), ("mean", 12)])
def test_the_released_code_needs_ten_and_twelve_calls(readout, calls):
    [result] = build_method("goa", echo_pool(sure), mode="released", readout=readout)(questions(1))
    assert len(result.calls) == calls


@pytest.mark.parametrize("readout, calls", [("max", 11), ("mean", 12)])
def test_the_paper_needs_eleven_and_twelve_calls(readout, calls):
    [result] = build_method("goa", echo_pool(sure), readout=readout)(questions(1))
    assert len(result.calls) == calls
