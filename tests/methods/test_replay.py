"""A run replayed without an edge is the run that never had it, and asks only what is new."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.replay import WithoutEdges, replay_without
from goa_torch.methods.trajectory import Trajectory
from goa_torch.randomness import uniforms
from goa_torch.types import Reply, Usage
from tests.worlds import Spy, echo_pool, questions


def hearing(chat):
    """Replies that depend on all that is read, so that a change anywhere shows downstream; some fail or are cut."""
    draw = float(uniforms([chat.stream + sum(map(ord, chat.text))], 0)[0])
    if draw < 0.03:
        return None
    return Reply(f"{draw:.5f} so {int(draw * 4)}", "length" if draw > 0.97 else "stop", log_prob=-3 * draw,
                 usage=Usage(1, len(chat.text), 5))


def said(result):
    return [[(r["node"], r["text"]) for r in stage.get("replies", ())] for stage in result.trace["stages"]]


def scratch(method, edges, round, n_questions, seed):
    """The same without any recording."""
    other = build_method(method.name, echo_pool(hearing), **method.config)
    other.connect = WithoutEdges(other.connect, edges, round)
    return other(questions(n_questions), seed=seed)


CASES = [("random_nodup", {"n": 5, "rounds": 5}), ("sparse_mad", {"graph": "ring", "rounds": 4}),
         ("mad", {"n": 4, "rounds": 4}), ("s2_mad", {}), ("goa", {}), ("goa", {"readout": "mean"}), ("moa", {}),
         ("uncertainty_guided", {"n": 5, "rounds": 4, "source": "tokens"}),
         ("random_nodup", {"n": 5, "rounds": 5, "stop": "stable:1"}),
         ("macnet", {}), ("groupdebate", {}), ("reconcile", {})]


@pytest.mark.parametrize("name, settings", CASES)
@pytest.mark.parametrize("round", [1, 2])
def test_a_replay_is_the_run_that_never_had_the_edge(name, settings, round):
    method = build_method(name, echo_pool(hearing), **settings)
    recorded = method(questions(4), seed=3)
    edges = [(0, 1), (2, 0)]
    for replayed, fresh in zip(replay_without(method, recorded, edges, round, seed=3), scratch(
            method, edges, round, 4, 3)):
        assert replayed.answer == fresh.answer and replayed.reply.text == fresh.reply.text
        assert said(replayed) == said(fresh)
        assert [(c.purpose, c.agent, c.round, c.depth) for c in replayed.calls] == [
            (c.purpose, c.agent, c.round, c.depth) for c in fresh.calls]


def test_only_what_changed_is_asked_again():
    asked = []

    def counting(chat):
        asked.append(chat.stream)
        return f"{len(chat.text)} {chat.stream % 7} so {chat.stream % 3}"

    method = build_method("sparse_mad", echo_pool(counting), graph="ring", rounds=5)
    [recorded] = method(questions(1))
    asked.clear()
    assert replay_without(method, [recorded], [])[0].answer == recorded.answer and asked == []
    [replayed] = replay_without(method, [recorded], [(0, 1)], round=4)
    assert len(asked) == 1 == replayed.paid.calls  # the receiver, in the last round
    assert replayed.usage.calls == recorded.usage.calls
    before = [call for call in replayed.calls if call.round < 4]
    assert all(call.shared for call in before)
    assert [call.usage for call in before] == [call.usage for call in recorded.calls if call.round < 4]
    asked.clear()
    [replayed] = replay_without(method, [recorded], [(0, 1)], round=3)
    assert 1 + 2 <= len(asked) <= 1 + 3  # then its neighbours, and itself, whose own reply is in its prompt


def test_a_line_of_results_is_enough():
    method = build_method("random_nodup", echo_pool(hearing), n=5, rounds=4)
    [recorded] = method(questions(1), seed=2)
    line = json.loads(json.dumps({"trace": recorded.trace, "calls": [asdict(call) for call in recorded.calls]}))
    run = Trajectory.recorded(recorded.question, line["trace"], line["calls"], 2)
    one, two = replay_without(method, [run], [(0, 1)])[0], replay_without(method, [recorded], [(0, 1)], seed=2)[0]
    assert said(one) == said(two) and one.paid == two.paid


def test_the_method_is_left_as_it_was():
    method = build_method("ring_mad", echo_pool(hearing), n=4, rounds=3)
    recorded = method(questions(2))
    connect = method.connect
    replay_without(method, recorded, [(0, 1)])
    assert method.connect is connect and [r.answer for r in method(questions(2))] == [r.answer for r in recorded]


def test_a_removed_edge_is_not_heard():
    spy = Spy()
    with spy.watching():
        method = build_method("sparse_mad", echo_pool(spy.reply), graph="ring", rounds=3)
        recorded = method(questions(1))
        spy.asked.clear()
        [replayed] = replay_without(method, recorded, [(0, 1)])
    stages = [stage for stage in replayed.trace["stages"] if stage["stage"] == "pass"]
    assert all([0, 1] not in [edge[:2] for edge in stage["edges"]] for stage in stages)
    assert all([1, 0] in [edge[:2] for edge in stage["edges"]] for stage in stages)


@pytest.mark.parametrize("name, more, words", [
    ("vote", {}, "no edge to remove"), ("ring_mad", {"round": 0}, "at least 1, not 0"),
    ("ring_mad", {"edges": [(0, 9)]}, r"edge \(0, 9\) names a node that is not there; nodes are 0 to 7"),
])
def test_what_cannot_be_removed_is_said(name, more, words):
    method = build_method(name, echo_pool(hearing))
    with pytest.raises(UserError, match=words):
        replay_without(method, method(questions(1)), **{"edges": [(0, 1)], **more})


def test_runs_of_several_seeds_are_not_mixed():
    method = build_method("ring_mad", echo_pool(hearing), n=3, rounds=2)
    runs = [Trajectory.of(method(questions(1), seed=s)[0], s) for s in (0, 1)]
    with pytest.raises(UserError, match="several seeds"):
        replay_without(method, runs, [(0, 1)])
    assert replay_without(method, [], [(0, 1)]) == []
