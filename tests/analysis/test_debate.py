"""Debates are diagnosed from their traces: flips, what the readout lost, and whether belief is a martingale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.analysis.debate import Debate, debate_of, diagnose
from goa_torch.methods import build_method
from goa_torch.methods.trajectory import Trajectory
from goa_torch.randomness import uniforms
from goa_torch.types import Reply
from tests.worlds import echo_pool, questions


def wavering(chat):
    draw = float(uniforms([chat.stream], 0)[0])
    return None if draw < 0.05 else Reply(f"say {int(draw * 4)}", "length" if draw > 0.95 else "stop")


def debates_of(name, n_questions=8, **settings):
    results = build_method(name, echo_pool(wavering), **settings)(questions(n_questions))
    return results, [debate_of(r.question, r.trace, r.correct) for r in results]


@pytest.mark.parametrize("name", ["random_nodup", "mad", "s2_mad", "armor_mad", "dylan", "goa", "moa"])
def test_letters_say_what_the_replies_were(name):
    results, debates = debates_of(name)
    for result, debate in zip(results, debates):
        history = Trajectory.of(result).history
        if debate is None:
            assert len(history) == 1
            continue
        right = [[result.question.is_correct(r.answer) for r in replies] for replies in history]
        assert [[letter == "1" for letter in letters] for letters in debate.rounds] == right
        silent = [[r.answer is None for r in replies] for replies in history]
        assert [[letter == "-" for letter in letters] for letters in debate.rounds] == silent
        assert len(set(debate.agents)) == len(debate.agents) == len(history[0])


@pytest.mark.parametrize("name", ["single", "vote", "self_consistency", "iterate"])
def test_who_hears_nobody_does_not_debate(name):
    assert debates_of(name)[1] == [None] * 8


def test_flips_readout_loss_and_any_right_are_counted_by_hand():
    found = diagnose([Debate("a", ("x.0", "y.0"), ("10", "11", "01"), True),
                      Debate("b", ("x.0", "y.0"), ("-0", "10"), False)])
    assert found.debates == found.questions == 2 and found.agents == 2 and found.rounds == 1.5
    assert found.right == (0.25, 0.75, 0.5)
    assert found.gained == (0.5, 0.0) and found.lost == (0.0, 0.5)
    assert found.any_right_first == 0.5 and found.any_right_last == 1.0 and found.readout_loss == 0.5
    assert found.drift == pytest.approx((0.5 - 0.5 + 0.5) / 3)
    assert diagnose([]) is None


def simulated(step, n=400, agents=8, rounds=4, seed=0):
    """Debates in which each agent is right with a probability that ``step`` makes of the group's belief."""
    rng = np.random.default_rng(seed)
    debates = []
    for number in range(n):
        belief, lines = rng.beta(2, 2), []
        for _ in range(rounds):
            right = rng.random(agents) < belief
            lines.append("".join("1" if r else "0" for r in right))
            belief = step(right.mean())
        debates.append(Debate(f"q{number}", tuple(f"a.{i}" for i in range(agents)), tuple(lines), bool(right[0])))
    return diagnose(debates)


def test_a_martingale_is_told_from_persuasion_and_from_conformity():
    fair = simulated(lambda b: b)
    assert fair.drift_low < 0 < fair.drift_high and fair.slope_low < 0 < fair.slope_high
    better = simulated(lambda b: b + 0.3 * (1 - b))
    assert better.drift_low > 0.05
    conforming = simulated(lambda b: float(np.clip(b + 0.5 * (b - 0.5), 0, 1)))
    assert conforming.drift_low < 0 < conforming.drift_high and conforming.slope_low > 0
    pulled = simulated(lambda b: 0.5)
    assert pulled.slope_high < -0.5


def test_errors_that_go_together_are_correlated():
    rng = np.random.default_rng(1)
    together = [Debate(str(i), ("a.0", "b.0"), (("11", "00")[int(rng.random() < 0.5)],) * 2, True) for i in range(50)]
    assert diagnose(together).error_correlation_first == pytest.approx(1)
    apart = [Debate(str(i), ("a.0", "b.0"), (("10", "01")[i % 2], "11"), True) for i in range(50)]
    assert diagnose(apart).error_correlation_first == pytest.approx(-1)
    assert diagnose(apart).error_correlation_last is None  # nobody is wrong in the end: nothing varies


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.text("10-", min_size=3, max_size=3), min_size=2, max_size=4),
                          st.booleans()), min_size=1, max_size=8))
def test_any_debates_have_a_diagnosis_that_adds_up(rows):
    debates = [Debate(str(q), ("a.0", "a.1", "b.0"), tuple(rounds), correct) for q, rounds, correct in rows]
    found = diagnose(debates, draws=50)
    assert found == diagnose(debates, draws=50)
    for values in (found.right, found.gained, found.lost):
        assert all(0 <= value <= 1 for value in values)
    assert len(found.gained) == len(found.lost) == len(found.right) - 1
    assert -1 <= found.drift <= 1 and 0 <= found.readout_loss <= found.any_right_last <= 1
    same = {len(rounds) for _, rounds, _ in rows}
    if len(same) == 1:  # all went on equally long: what agents gained and lost is how belief moved
        moved = sum(found.gained) - sum(found.lost)
        assert moved == pytest.approx(found.right[-1] - found.right[0]) == pytest.approx(found.drift * (same.pop() - 1))
