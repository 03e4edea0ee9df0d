"""Cut-offs of recorded runs are the runs themselves: same answers, same cost, no new calls."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from goa_torch.methods import build_method
from goa_torch.methods.trajectory import Trajectory, horizons
from goa_torch.nn.trust import TrustReadout
from goa_torch.randomness import stream, uniforms
from goa_torch.topology.stopping import parse_stop
from goa_torch.types import Reply, Usage
from tests.worlds import echo_pool, questions


def wavering(chat):
    """Replies that depend on the chat and its stream alone; sometimes cut off, sometimes failed, more often alike once
    others are heard; with log-probabilities."""
    draw = float(uniforms([chat.stream], 0)[0])
    if draw < 0.04:
        return None
    answer = "1" if chat.senders and draw < 0.65 else str(int(draw * 3))
    words = f"{stream(chat.text) % 97} so I say {answer}"
    return Reply(words, "length" if draw > 0.95 else "stop", log_prob=-draw * 9,
                 usage=Usage(calls=1, prompt_tokens=len(chat.text), completion_tokens=6))


def run(name, seed=0, n_questions=6, **settings):
    return build_method(name, echo_pool(wavering), **settings)(questions(n_questions), seed=seed)


@pytest.mark.parametrize("name", ["ring_mad", "random_nodup", "small_world", "s2_mad", "mad"])
def test_a_cut_off_is_what_the_method_gives_with_fewer_rounds(name):
    settings = {"n": 5, **({"history": False} if name == "mad" else {})}
    trajectories = [Trajectory.of(r, 3) for r in run(name, 3, rounds=7, **settings)]
    for rounds in range(8):
        for trajectory, result in zip(trajectories, run(name, 3, rounds=max(1, rounds), **settings)):
            cut = trajectory.at(max(0, rounds - 1))
            assert (cut.answer, cut.usage, cut.depth) == (result.answer, result.usage, result.depth)
            assert cut.correct == result.correct


@pytest.mark.parametrize("rule", ["unanimity", "agreement:0.6", "gate:0.5", "stable:1", "stable:2 | entropy:0.3",
                                  "stable:1 & tokens:0.6", "rounds:2", "tokens:0.7"])
def test_a_stopping_rule_ends_a_recorded_run_where_it_ends_a_real_one(rule):
    long = [Trajectory.of(r, 5) for r in run("random_nodup", 5, n=5, rounds=6)]
    real = run("random_nodup", 5, n=5, rounds=6, stop=rule)
    ends = set()
    for trajectory, result in zip(long, real):
        cut = trajectory.stopped(parse_stop(rule, 5))
        assert (cut.answer, cut.usage, cut.depth) == (result.answer, result.usage, result.depth)
        ends.add(cut.rounds)
    assert rule == "rounds:2" or len(ends) > 1  # the rule makes a difference


def test_a_line_of_json_holds_a_trajectory():
    [result] = run("ring_mad", 1, 1, n=4, rounds=4)
    line = json.loads(json.dumps({"trace": result.trace, "calls": [asdict(call) for call in result.calls]}))
    read = Trajectory.recorded(result.question, line["trace"], line["calls"], 1)
    for rounds in range(4):
        assert read.at(rounds) == Trajectory.of(result, 1).at(rounds)
    assert read.rounds == 3 and read.calls == list(result.calls)


def test_other_readouts_can_be_tried_on_the_same_run():
    result = run("armor_mad", 2, 1, rounds=3, gate=1.0)[0]
    trajectory = Trajectory.of(result, 2)
    assert trajectory.at(2, TrustReadout()).answer == result.answer


def test_horizons_tell_accuracy_cost_and_flips_of_the_same_runs():
    asked = [replace(q, gold="1") for q in questions(40)]
    results = build_method("random_nodup", echo_pool(wavering), n=5, rounds=4)(asked)
    trajectories = [Trajectory.of(r) for r in results]
    table = horizons(trajectories)
    assert [h.rounds for h in table] == [0, 1, 2, 3]
    assert table[-1].accuracy == sum(r.correct for r in results) / 40
    assert table[-1].tokens == pytest.approx(sum(r.usage.tokens for r in results) / 40)
    assert [h.calls for h in table] == [5, 10, 15, 20] and [h.depth for h in table] == [1, 2, 3, 4]
    for earlier, later in zip(table, table[1:]):
        assert later.accuracy - earlier.accuracy == pytest.approx(later.gained - later.lost)
    assert all(h.any_right >= h.accuracy for h in table) and table[1].gained > 0
    assert sum(h.lost for h in table) > 0 and table[0].gained == table[0].lost == 0
    assert horizons([]) == []


def test_a_cut_after_the_end_is_the_end_and_before_the_beginning_an_error():
    [result] = run("ring_mad", 0, 1, n=3, rounds=2)
    trajectory = Trajectory.of(result)
    assert trajectory.at(9) == trajectory.at(1)
    with pytest.raises(ValueError, match="rounds"):
        trajectory.at(-1)
