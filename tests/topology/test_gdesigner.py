"""G-Designer: its presets, what they can reach, and that the graph follows question and cards."""

from __future__ import annotations

import pytest
import torch

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.topology.learned.checkpoint import load_topology, save_topology
from goa_torch.topology.learned.gdesigner import GDesigner, hashed
from tests.topology.test_learned import chance, make_state
from tests.worlds import DOMAINS, echo_pool, questions

PRESETS = ("paper", "corrected", "released")


def make(preset="paper", **settings):
    return GDesigner.for_agents(DOMAINS[:4], seed=3, **{"preset": preset, "dim": 64, **settings})


def logits(controller, state, lots=None):
    return controller.read(state, controller.candidates(state), lots)


def dense(controller, state, lots=None):
    """[B, sender, receiver] of probabilities."""
    edge_index = controller.candidates(state)
    n = state.num_nodes // state.num_graphs
    matrix = torch.full((state.num_graphs, n, n), torch.nan)
    matrix[state.batch[edge_index[0]], edge_index[0] % n, edge_index[1] % n] = logits(controller, state, lots).sigmoid()
    return matrix


@pytest.mark.parametrize("preset", PRESETS)
def test_the_listing_of_agents_does_not_matter(preset):
    controller, found = make(preset), []
    for names in (None, list(reversed(DOMAINS[:4]))):
        state = make_state(names=names)
        edge_index = controller.candidates(state)
        found.append({(state.agent_of(s).name, state.agent_of(r).name, int(state.batch[s])): round(value, 4)
                      for (s, r), value in zip(edge_index.t().tolist(), logits(controller, state).tolist())})
    assert found[0] == found[1] and len(set(found[0].values())) > 3


@pytest.mark.parametrize("preset", PRESETS)
def test_a_question_gets_the_same_graph_alone_and_in_a_batch(preset):
    small, large = make_state(n_questions=1), make_state(n_questions=3)
    controller = make(preset)
    assert torch.allclose(logits(controller, small)[:12], logits(controller, large)[:12], atol=1e-5)
    one, many = (logits(controller, state, chance(state))[:12] for state in (small, large))
    assert torch.allclose(one, many, atol=1e-5)


@pytest.mark.parametrize("preset", PRESETS)
def test_another_question_or_another_card_gives_another_graph(preset):
    controller, state = make(preset), make_state(4, 2)
    before = dense(controller, state)
    assert not torch.allclose(before[0].nan_to_num(), before[1].nan_to_num(), atol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n", [1, 2])
def test_few_agents_are_no_trouble(preset, n):
    state, controller = make_state(n=n), make(preset)
    first = controller.begin(state, chance(state))
    assert len(first) >= state.num_graphs and logits(controller, state).numel() == n * (n - 1) * 2


def test_released_logits_are_symmetric_and_never_sure_and_its_decoder_does_not_train():
    controller = make("released")
    p = dense(controller, make_state())
    assert torch.allclose(p.nan_to_num(), p.transpose(1, 2).nan_to_num(), atol=1e-6)
    low, high = torch.tensor([-1.0, 1.0]).sigmoid()
    assert p[~p.isnan()].min() >= low - 1e-6 and p[~p.isnan()].max() <= high + 1e-6
    assert not any(parameter.requires_grad for parameter in controller.decode.parameters())


def test_corrected_logits_are_directed_and_can_reach_any_probability_and_every_parameter_trains():
    controller, state = make("corrected"), make_state()
    p = dense(controller, state)
    assert not torch.allclose(p.nan_to_num(), p.transpose(1, 2).nan_to_num(), atol=1e-3)
    wanted = torch.tensor([0.0, 1.0] * 6).repeat(2)
    optimizer = torch.optim.Adam(controller.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(logits(controller, state), wanted).backward()
        optimizer.step()
    p = logits(controller, state).sigmoid()
    assert p[wanted == 0].max() < 0.05 and p[wanted == 1].min() > 0.95
    assert all(parameter.grad is not None for parameter in controller.parameters())


def test_the_papers_terms_reach_every_parameter_and_pull_towards_the_anchor():
    controller, state = make("paper", nuclear=0.0, kl=0.0), make_state()
    optimizer = torch.optim.Adam(controller.parameters(), lr=0.02)
    losses = []
    for step in range(300):
        optimizer.zero_grad()
        controller.begin(state, chance(state, step))
        losses.append(controller.graph_penalty(state))
        losses[-1].backward()
        optimizer.step()
    assert sum(losses[-20:]) < 0.8 * sum(losses[:20])
    assert all(bool(parameter.grad.any()) for parameter in controller.parameters())
    p = dense(controller, state)[0].nan_to_num()
    chain = torch.diag(torch.ones(3), 1).bool()
    assert p[chain].mean() > p[~chain & ~torch.eye(4, dtype=torch.bool)].mean() + 0.1


def test_the_refined_matrix_has_the_rank_that_was_asked_for():
    controller, state = make("paper", rank=1), make_state(n_questions=1)
    p = dense(controller, state)[0]
    off = p[~torch.eye(4, dtype=torch.bool)]
    assert off.min() >= 0.01 - 1e-6 and off.max() <= 0.99 + 1e-6
    # of a matrix of rank 1, any two rows are proportional where both are seen and not clipped
    ratio = p[0, 2] / p[1, 2], p[0, 3] / p[1, 3]
    assert ratio[0].item() == pytest.approx(ratio[1].item(), rel=1e-3)


def test_variational_draws_are_named_and_deployment_has_none():
    controller, state = make("paper"), make_state()
    one, same, other = (logits(controller, state, chance(state, draw)) for draw in (0, 0, 1))
    assert torch.equal(one, same) and not torch.allclose(one, other)
    assert torch.equal(logits(controller, state), logits(controller, state))


@pytest.mark.parametrize("preset", PRESETS)
def test_it_is_saved_and_applies_to_another_number_of_agents(preset, tmp_path):
    controller, state = make(preset, turns=2), make_state(6, 1)
    save_topology(tmp_path, controller, "gdesigner", DOMAINS[:4])
    again = load_topology(tmp_path)
    assert torch.equal(logits(again, state), logits(controller, state))
    [result] = build_method("gdesigner", echo_pool(n=6), checkpoint=str(tmp_path), threshold=0.3)(questions(1))
    assert 6 <= len(result.calls) <= 12


def test_the_meta_llm_can_embed_and_lengths_must_agree():
    state = make_state()  # echo agents embed in 64 numbers
    ours, theirs = make("corrected"), make("corrected", embedding="meta")
    assert not torch.allclose(logits(ours, state), logits(theirs, state))
    with pytest.raises(UserError, match="set dim = 64"):
        logits(make("corrected", embedding="meta", dim=32), state)


@pytest.mark.parametrize("settings", [{"preset": "best"}, {"anchor": "circle"}, {"embedding": "words"}])
def test_settings_out_of_range_are_one_line(settings):
    with pytest.raises(UserError, match="choose one of"):
        make(**settings)


def test_hashed_texts_are_of_unit_length_and_close_if_alike():
    a, b, c = (hashed(text, 256) for text in ("rev[(47+9)]", "rev[(41+9)]", "the law of contracts"))
    assert a.norm() == pytest.approx(1, abs=1e-5) and a @ b > a @ c
