"""What recorded debates come to at every horizon is what shorter runs give, and nothing is asked again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from goa_torch.bench import run_experiment
from goa_torch.bench.horizons import Outcomes, equivalence, read_horizons
from goa_torch.errors import UserError

from . import world

DEBATES = [{"name": "random_nodup", "n": None, "rounds": 4, "label": "random"},
           {"name": "ring_mad", "n": None, "rounds": 4, "label": "ring"}]


def run(write, tmp_path, methods, name="run"):
    path = write(methods=methods, seeds=[0, 1], questions=5)
    return run_experiment(path, out=tmp_path / name, pools={"tiny": world.make_pool()}, quiet=True)


def test_every_horizon_is_what_a_shorter_run_gives(write, tmp_path):
    long = read_horizons(run(write, tmp_path, DEBATES), {})["letters"]
    assert len(long.questions) == 5 and [len(at) for at in long.at.values()] == [4, 4]
    for rounds in (1, 2, 3):
        short = [method | {"rounds": rounds} for method in DEBATES]
        short = read_horizons(run(write, tmp_path, short, f"run{rounds}"), {})["letters"]
        for label in ("random", "ring"):
            for measure in ("correct", "tokens", "calls", "depth"):
                assert np.array_equal(getattr(long.at[label][rounds - 1], measure),
                                      getattr(short.at[label][-1], measure))


def test_a_stopping_rule_is_a_cut_of_the_same_runs(write, tmp_path):
    rules = {"all": None, "three": "rounds:2", "one": "unanimity"}
    found = read_horizons(run(write, tmp_path, DEBATES), rules)["letters"]
    stopped = read_horizons(run(write, tmp_path, [m | {"stop": "unanimity"} for m in DEBATES], "stop"), {})["letters"]
    for label, under in found.under.items():
        assert np.array_equal(under["all"].correct, found.at[label][-1].correct)
        assert np.array_equal(under["three"].tokens, found.at[label][2].tokens)
        assert np.array_equal(under["one"].tokens, stopped.at[label][-1].tokens)
        assert set(under["one"].rounds.flat) <= {0, 1, 2, 3} and (under["three"].rounds == 2).all()


def test_of_a_run_that_goes_on_only_what_is_complete_counts(write, tmp_path):
    folder = run(write, tmp_path, DEBATES)
    file = folder / "results.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [line for line in lines if (line["question"], line["method"], line["seed"]) != ("q1", "ring", 1)]
    file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert [q.id for q in read_horizons(folder, {})["letters"].questions] == ["q0", "q2", "q3", "q4"]
    file.write_text("")
    with pytest.raises(UserError, match="no question has been answered"):
        read_horizons(folder)


def test_runs_that_end_otherwise_are_refused(write, tmp_path):
    with pytest.raises(UserError, match="no run folder|not a run folder"):
        read_horizons(tmp_path)
    folder = run(write, tmp_path, DEBATES)
    file = folder / "results.jsonl"
    lines = [json.loads(line) | {"answer": "Z"} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(UserError, match="majority of its last replies"):
        read_horizons(folder)


def outcomes(correct):
    return Outcomes(*[np.asarray(correct, dtype=float)] * 5)


def test_equal_outcomes_are_equivalent_and_different_ones_are_not():
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, (4000, 2))
    other = np.where(rng.random(one.shape) < 0.02, 1 - one, one)  # two in a hundred fell otherwise
    same = equivalence(outcomes(one), outcomes(other), 0.02, 1000)
    assert same.p < 0.05 and same.low <= same.difference <= same.high and 0 < same.within < 0.02
    worse = np.where(rng.random(one.shape) < 0.1, 0, one)
    found = equivalence(outcomes(worse), outcomes(one), 0.02, 1000)
    assert found.p > 0.5 and found.difference < -0.02 and found.within > 0.02
    few = equivalence(outcomes(one[:40]), outcomes(one[:40, ::-1]), 0.02, 1000)
    assert few.p > 0.05  # equal in the mean, but too few to say so


def test_the_same_runs_are_no_evidence_of_equivalence():
    one = np.random.default_rng(1).integers(0, 2, (30, 2))
    found = equivalence(outcomes(one), outcomes(one), 0.02, 500)
    assert found.p is None and found.difference == found.within == 0


def test_some_of_the_questions():
    some = outcomes([[0, 1], [1, 1], [0, 0]]).of([1])
    assert some.correct.tolist() == [[1, 1]] and some.interval(200)[0] == 1
