"""Learned topologies: equivariance, pruning, other agents, files."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.calls import Recorder
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.nn.agent_conv import first_answers
from goa_torch.nn.edges import to_dense
from goa_torch.nn.selection import Everyone
from goa_torch.topology.learned import CONTROLLERS, controller_class
from goa_torch.topology.learned.base import strongest
from goa_torch.topology.learned.checkpoint import load_topology, save_topology
from goa_torch.training.topology.chance import draw_edges, lots
from tests.worlds import DOMAINS, echo_pool, questions

PAIRWISE = ("edge_logits", "edge_gnn", "reliability")
STAGED = ("gptswarm", "agentprune", "agentdropout", "gdesigner")
TRANSFER = ("edge_gnn", "reliability")


def make_state(n=4, n_questions=2, names=None):
    pool = echo_pool(lambda chat: f"reply to {chat.text[:40]} by {len(chat.text) % 7}", n=n, names=names)
    asked = questions(n_questions)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    state.history.append(list(state.replies))
    return state


def make(name, n=4, **settings):
    return controller_class(name).for_agents(DOMAINS[:n], seed=3, **settings)


@pytest.mark.parametrize("name", PAIRWISE)
def test_every_receiver_hears_k_others(name):
    state = make_state()
    for k, degree in ((1, 1), (2, 2), (9, 3), (None, 3)):
        dense = to_dense(make(name, k=k)(state, 1), state.batch)
        assert (dense > 0).sum(2).tolist() == [[degree] * 4] * 2
        assert dense.diagonal(dim1=1, dim2=2).abs().sum() == 0


@pytest.mark.parametrize("name", PAIRWISE)
def test_the_listing_of_agents_does_not_matter(name):
    states = [make_state(names=names) for names in (None, list(reversed(DOMAINS[:4])))]
    edges = []
    for state in states:
        topology = make(name)(state, 1)
        edges.append({(state.agent_of(s).name, state.agent_of(r).name, int(state.batch[s]))
                      for s, r in topology.edge_index.t().tolist()})
    assert edges[0] == edges[1]


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_question_gets_the_same_graph_alone_and_in_a_batch(name):
    small, large = make_state(n_questions=1), make_state(n_questions=3)
    controller = make(name)
    logits = [controller.logits(state, 1, controller.candidates(state))[:12] for state in (small, large)]
    assert torch.allclose(*logits, atol=1e-6)


@pytest.mark.parametrize("name", PAIRWISE)
def test_one_agent_alone_has_no_edges(name):
    state = make_state(n=1)
    assert make(name, n=1)(state, 1).num_edges == 0


@pytest.mark.parametrize("name", PAIRWISE)
def test_finished_questions_and_agents_left_out_have_no_edges(name):
    state = make_state()
    state.done[0], state.kept[5] = True, False
    edge_index = make(name)(state, 1).edge_index
    assert edge_index.min() >= 4 and not bool((edge_index == 5).any())


def test_the_strongest_edges_are_those_of_largest_score_ties_first():
    score, receiver = torch.tensor([1.0, 3.0, 2.0, 2.0, 0.0]), torch.tensor([1, 0, 0, 0, 1])
    assert strongest(score, receiver, 1).tolist() == [True, True, False, False, False]
    assert strongest(score, receiver, 2).tolist() == [True, True, True, False, True]
    assert strongest(score[:0], receiver[:0], 2).tolist() == []


def test_a_threshold_lets_an_agent_hear_nobody():
    state, controller = make_state(), make("edge_logits", threshold=0.5)
    with torch.no_grad():
        controller.logit.fill_(-1.0)
        controller.logit[0, 1, 2] = 1.0
    topology = controller(state, 1)
    assert topology.edge_index.tolist() == [[2, 6], [1, 5]]


@pytest.mark.parametrize("policy", ["top_k", "bernoulli"])
@pytest.mark.parametrize("mode", ["soft", "hard", "gumbel", "noisy"])
def test_draws_are_named_and_have_the_degree_of_their_policy(policy, mode):
    state, controller = make_state(5, 3), make("edge_gnn", n=5, policy=policy)
    one, same, other = (draw_edges(controller, state, 1, mode, seed, 0) for seed in (0, 0, 1))
    assert torch.equal(one.edge_index, same.edge_index) and torch.equal(one.edge_weight, same.edge_weight)
    if mode != "soft":
        assert one.edge_index.shape != other.edge_index.shape or not (
            torch.equal(one.edge_index, other.edge_index) and torch.allclose(one.edge_weight, other.edge_weight))
    dense = to_dense(one, state.batch)
    if policy == "top_k" and mode in ("hard", "gumbel"):
        assert torch.equal((dense.detach() > 0.5).sum(2), torch.full((3, 5), 2))
    if policy == "top_k" and mode in ("soft", "noisy"):
        assert torch.allclose(dense.sum(2), torch.full((3, 5), 2.0), atol=1e-5)
    if mode in ("hard", "noisy"):
        assert one.log_prob.shape == (3,) and one.log_prob.requires_grad


def test_the_probability_of_a_draw_without_replacement_is_right():
    """Frequencies of each receiver's ordered pair against Plackett-Luce, and the score has mean 0."""
    state, controller = make_state(4, 1), make("edge_logits")
    with torch.no_grad():
        controller.logit.copy_(torch.linspace(-1, 1, 16).view(1, 4, 4))
    total, count = torch.zeros_like(controller.logit), 3000
    for draw in range(count):
        topology = draw_edges(controller, state, 1, "hard", 0, draw)
        controller.zero_grad()
        topology.log_prob.sum().backward()
        total += controller.logit.grad
    assert (total / count).abs().max() < 4 * 0.7 / count**0.5


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_saved_topology_is_the_same_topology(name, tmp_path):
    state, controller = make_state(), make(name)
    with torch.no_grad():
        for parameter in controller.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    save_topology(tmp_path, controller, name, DOMAINS[:4], how="by hand")
    again = load_topology(tmp_path, k=2)
    assert torch.equal(again(state, 1).edge_index, controller(state, 1).edge_index)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), controller.parameters(), strict=True))
    results = build_method("learned", echo_pool(n=4), checkpoint=str(tmp_path))(questions(2))
    assert len(results) == 2 and all(len(r.calls) == 16 for r in results)


@pytest.mark.parametrize("name", PAIRWISE)
def test_where_the_method_allows_it_applies_to_another_number_of_agents(name, tmp_path):
    save_topology(tmp_path, make(name), name, DOMAINS[:4])
    if name in TRANSFER:
        [result] = build_method("learned", echo_pool(n=6), checkpoint=str(tmp_path), rounds=2)(questions(1))
        assert len(result.calls) == 12
    else:
        with pytest.raises(UserError, match="train them for this pool"):
            build_method("learned", echo_pool(n=6), checkpoint=str(tmp_path))


def test_a_folder_without_a_topology_is_one_line(tmp_path):
    with pytest.raises(UserError, match="goa train makes one"):
        build_method("learned", echo_pool(), checkpoint=str(tmp_path))
    save_topology(tmp_path, make("edge_logits"), "edge_logits", DOMAINS[:4])
    (tmp_path / "topology.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="not the weights of this topology"):
        build_method("learned", echo_pool(n=4), checkpoint=str(tmp_path))


@pytest.mark.parametrize("settings", [{"k": 0}, {"threshold": 2}, {"weights": "loud"}, {"policy": "greedy"}])
def test_settings_out_of_range_are_one_line(settings):
    with pytest.raises(UserError):
        make("edge_gnn", **settings)


# --------------------------------------------------------------------------- agents that speak in turn


def test_every_controller_is_of_one_kind():
    assert set(PAIRWISE) | set(STAGED) == set(CONTROLLERS)


def chance(state, draw=0):
    return lambda edges, turn, what: lots(state, edges, 0, turn, draw, what)


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("draw", range(4))
def test_drawn_graphs_are_acyclic_and_everybody_speaks_after_those_it_hears(name, draw):
    state, controller = make_state(5, 3), make(name, n=5, **({} if name == "gdesigner" else {"spread": 1.0}))
    once = controller.turns == 1
    spoken, stage = set(controller.begin(state, chance(state, draw))), 0
    while (topology := controller(state, stage + 1)) is not None and (once or stage == 0):
        stage += 1
        assert not once or set(topology.edge_index[0].tolist()) <= spoken
        spoken |= set(topology.edge_index[1].tolist())
    assert not once or spoken == set(range(15))


def test_the_log_probability_of_a_swarm_is_that_of_its_decisions():
    """Over all draws of two agents (edges of a pair exclude each other), the expected score is 0."""
    state, controller = make_state(2, 1), make("gptswarm", n=2)
    with torch.no_grad():
        controller.logit.copy_(torch.tensor([[[0.0, 0.7], [-0.4, 0.0]]]))
    total, count = torch.zeros_like(controller.logit), 2000
    for draw in range(count):
        controller.begin(state, chance(state, draw))
        controller.zero_grad()
        controller.draw_log_prob(state).sum().backward()
        total += controller.logit.grad
    assert (total / count).abs().max() < 4 * 0.5 / count**0.5


def test_a_swarm_calls_every_agent_once_and_keeps_likely_edges(tmp_path):
    controller = make("gptswarm")
    with torch.no_grad():
        controller.logit[0, 1, 0], controller.logit[0, 2, 1], controller.logit[0, 0, 2] = 3.0, 2.0, 1.0  # a cycle
    save_topology(tmp_path, controller, "gptswarm", DOMAINS[:4])
    [result] = build_method("gptswarm", echo_pool(n=4), checkpoint=str(tmp_path))(questions(1))
    assert len(result.calls) == 4 and result.depth == 3
    heard = [edge for stage in result.trace["stages"] for edge in stage.get("edges", []) if stage["stage"] == "pass"]
    assert sorted(edge[:2] for edge in heard) == [[0, 1], [1, 2]]
    for settings in ({"checkpoint": str(tmp_path)}, {"controller": "gdesigner"}):
        with pytest.raises(UserError, match="speak in turn"):
            build_method("learned", echo_pool(n=4), **settings)


def test_pruning_takes_a_quarter_of_what_is_left_and_lasts(tmp_path):
    controller = make("agentprune", spread=1.0)
    for step in range(1, 21):
        controller.after_step(step)
    assert controller.left.sum((1, 2)).tolist() == [7, 7]  # 12, 9, 7
    save_topology(tmp_path, controller, "agentprune", DOMAINS[:4])
    assert torch.equal(load_topology(tmp_path).left, controller.left)
    lost = controller.logit[~controller.left & ~torch.eye(4, dtype=torch.bool)]
    assert lost.max() <= controller.logit[controller.left].max()
    assert len(build_method("agentprune", echo_pool(n=4), checkpoint=str(tmp_path))(questions(1))[0].calls) <= 8


def test_the_nuclear_norm_is_a_penalty_only_if_wanted():
    assert make("agentprune").penalty() == 0
    controller = make("agentprune", nuclear=0.1)
    controller.penalty().backward()
    assert controller.logit.grad.abs().sum() > 0
