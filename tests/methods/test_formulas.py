"""The formula that `goa methods` shows is what a question costs when nobody agrees with anybody."""

from __future__ import annotations

import re

import pytest

from goa_torch.methods import build_method, calls_formula, method_names
from tests.worlds import Spy, echo_pool, questions


def rounds(settings):
    return {"T": settings["rounds"]}


def layers(settings):
    return {"T": settings["layers"]}


#: For each method: further settings to try beside its defaults, and k and T by its settings.
CASES = {
    "single": ([], None), "routed_single": ([], None), "iterate": ([{"calls": 4}], lambda s: {"T": s["calls"]}),
    "vote": ([{"samples": 3}], lambda s: {"T": s["samples"]}), "self_consistency": ([{"n": 4}], None),
    "moa": ([{"layers": 2}], layers), "goa": ([{"k": 2}, {"k": 5}], lambda s: {"k": s["k"] or 3}),
    **{name: ([{"n": 5, "rounds": 4}, {"n": None, "rounds": 3}], rounds) for name in (
        "mad", "sparse_mad", "ring_mad", "small_world", "random_nodup", "stage_switching", "random_switching",
        "uncertainty_guided", "random_fixed", "debunc", "reconcile", "s2_mad", "armor_mad", "rumad", "learned")},
    "refine": ([{"rounds": 4}], lambda s: {"T": s["rounds"] + 1}), "self_moa": ([{"n": 3, "layers": 2}], layers),
    "handoff": ([{"turns": 3}], lambda s: {"T": s["turns"]}), "macnet": ([{"n": 4}], None),
    "dylan": ([{"layers": 5, "keep": 3}], layers),
    "groupdebate": ([{"groups": 3, "stages": 3}], lambda s: {"T": s["stages"] * s["rounds"]}),
    "vote_tokens": ([{"most": 3, "tokens": 10**9}], None), "colmad": ([{"rounds": 3}], rounds),
    "gdesigner": ([{"preset": "corrected", "turns": 2}], lambda s: {"T": s["turns"]}),
    "agentdropout": ([{"turns": 3}], lambda s: {"T": s["turns"]}), "gptswarm": ([{"spread": 2.0}], None),
    "agentprune": ([{"turns": 3}], lambda s: {"T": s["turns"]}),
}
#: Methods whose controller or learned topology decides who is called: their formula is a bound and no more.
DECIDED = {"rumad", "learned", "agentprune", "agentdropout", "gdesigner"}


def evaluated(formula, values):
    python = re.sub(r"(?<=[\w)]) +(?=[\w(])", " * ", formula.removeprefix("<= "))
    assert re.fullmatch(r"[\w\s()+*-]+", python), formula
    return eval(python, {"__builtins__": {}}, values)


def spoken(name, settings):
    """The most calls of a question, and how many agents took part, in a world where everybody disagrees."""
    spy = Spy()
    with spy.watching():
        results = build_method(name, echo_pool(spy.reply), **settings)(questions(2))
    calls = max(result.usage.calls for result in results)
    members = results[0].trace["agents"]
    return calls, len(set(members)) if name in ("vote", "vote_tokens") else len(members)


def test_every_method_has_a_formula_that_is_tried_here():
    assert set(method_names()) == set(CASES)
    assert all(calls_formula(name) for name in method_names())


@pytest.mark.parametrize("name, settings", [(name, s) for name, (more, _) in CASES.items() for s in ({}, *more)])
def test_a_question_costs_what_the_formula_says(name, settings):
    if name == "vote_tokens":
        settings = {"tokens": 10**9, **settings}
    config = build_method(name, echo_pool(), **settings).config
    calls, agents = spoken(name, settings)
    numbers = CASES[name][1](config) if CASES[name][1] else {}
    most = evaluated(calls_formula(name), {**config, "n": agents, **numbers})
    assert calls <= most
    assert calls == most or name in DECIDED, f"{calls} calls, {calls_formula(name)} = {most}"
