"""AgentDropout: who leaves a round, what is dropped when, and what that does to a run."""

from __future__ import annotations

import pytest
import torch

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.topology.learned.agentdropout import Dropout
from goa_torch.topology.learned.checkpoint import load_topology, save_topology
from tests.topology.test_learned import chance, make_state
from tests.worlds import DOMAINS, echo_pool, questions

NAMES = DOMAINS[:4]


def make(**settings):
    return Dropout.for_agents(NAMES, seed=3, **{"turns": 3, "node_steps": 2, "prune_every": 2, **settings})


def quiet_node(controller, node, turn):
    """Makes a node the least connected one of a round."""
    with torch.no_grad():
        controller.logit[turn - 1, node] = controller.logit[turn - 1, :, node] = -2.0


def trained():
    controller = make()
    for turn, node in ((1, 3), (2, 0), (3, 1)):
        quiet_node(controller, node, turn)
    for step in (1, 2):
        controller.after_step(step)
    return controller


def test_the_least_connected_node_leaves_each_round_with_its_edges():
    controller = trained()
    assert controller.here.tolist() == [[True] * 3 + [False], [False] + [True] * 3, [True, False, True, True]]
    spatial, into_2, into_3 = controller.left[:3], controller.left[3], controller.left[4]
    assert spatial.sum((1, 2)).tolist() == [6, 6, 6]  # three agents each
    assert not into_2[0].any() and not into_2[:, 3].any() and into_2.sum() == 7  # 0 not there, 3 said nothing
    assert not into_3[1].any() and not into_3[:, 0].any() and into_3.sum() == 7
    assert not controller.logit.any()  # edges start anew at p = .5


def test_edges_are_pruned_after_nodes_and_not_before():
    controller = trained()
    before = controller.left.sum((1, 2)).tolist()
    controller.after_step(3)
    assert controller.left.sum((1, 2)).tolist() == before
    controller.after_step(4)
    once = controller.left.sum((1, 2)).tolist()
    controller.after_step(6)
    assert once == [n - n // 4 for n in before]
    twice = controller.left.sum((1, 2)).tolist()
    assert twice == [n - n // 4 for n in once]
    for step in range(7, 20):
        controller.after_step(step)
    assert controller.left.sum((1, 2)).tolist() == twice


def test_norms_count_only_once_nodes_have_been_dropped():
    controller = make()
    assert controller.dropping_nodes and controller.penalty() == 0
    controller = trained()
    loss = controller.penalty()
    loss.backward()
    assert loss > 0 and controller.logit.grad[controller.left].abs().min() > 0
    assert not controller.logit.grad[~controller.left].any()


def test_without_nodes_to_drop_there_is_one_stage():
    controller = make(drop=0)
    assert not controller.dropping_nodes and controller.penalty() > 0
    controller.after_step(2)
    assert bool(controller.here.all()) and int(controller.left[0].sum()) == 9


@pytest.mark.parametrize("drop", [4, -1])
def test_somebody_stays_in_every_round(drop):
    with pytest.raises(UserError, match="somebody must stay"):
        make(drop=drop)


def test_a_node_that_left_a_round_is_not_called_in_it_and_not_heard_after():
    controller, state = trained(), make_state(4, 2)
    with torch.no_grad():
        controller.logit.fill_(3.0)  # every edge that is left
    assert sorted(controller.begin(state)) and not set(controller.begin(state)) & {3, 7}
    stages = []
    while (topology := controller(state, len(stages) + 1)) is not None:
        stages.append(topology.edge_index)
    first = [edge for edges in stages[:2] for edge in edges.t().tolist()]  # rounds of three agents: two generations
    assert not any(3 in edge or 7 in edge for edge in first)
    assert not (stages[2] % 4 == 3)[0].any()  # nothing of it is heard in the second round's first stage


def test_calls_are_those_of_agents_that_are_there_and_hear_somebody(tmp_path):
    controller = trained()
    with torch.no_grad():
        controller.logit.fill_(3.0)
    save_topology(tmp_path, controller, "agentdropout", NAMES)
    [result] = build_method("agentdropout", echo_pool(n=4), checkpoint=str(tmp_path))(questions(1))
    rounds = [(call.purpose, call.agent) for call in result.calls]
    assert len(rounds) == 9  # three rounds of three agents
    assert sorted({agent for _, agent in rounds}) == sorted(NAMES)
    again = load_topology(tmp_path)
    assert torch.equal(again.left, controller.left) and torch.equal(again.here, controller.here)
    assert not again.dropping_nodes
    with pytest.raises(UserError, match="the method it was trained for"):
        build_method("gdesigner", echo_pool(n=4), checkpoint=str(tmp_path))
    with pytest.raises(UserError, match="train them for this pool"):
        build_method("agentdropout", echo_pool(n=6), checkpoint=str(tmp_path))


def test_the_expected_score_of_what_is_drawn_is_zero():
    controller, state = trained(), make_state(4, 1)
    with torch.no_grad():
        controller.logit.copy_(torch.linspace(-1, 1, controller.logit.numel()).view_as(controller.logit))
    total, count = torch.zeros_like(controller.logit), 400
    for draw in range(count):
        controller.begin(state, chance(state, draw))
        controller.zero_grad()
        controller.draw_log_prob(state).sum().backward()
        total += controller.logit.grad
    assert (total / count).abs().max() < 4.5 * 0.5 / count**0.5
