"""Policies over weight matrices: shapes, symmetry, masks and distributions."""

from __future__ import annotations

import math

import pytest
import torch

from goa_torch.errors import UserError
from goa_torch.topology.observation import ObservationConfig
from goa_torch.topology.policies import PolicyConfig, WeightPolicy, pairs
from goa_torch.topology.weight_distributions import BetaEdges, GaussianEdges

SEEN = ObservationConfig(planes=("card",), features=("round", "card"))


def policy(architecture: str = "graph", distribution: str = "gaussian", n: int = 4, **more) -> WeightPolicy:
    made = WeightPolicy(PolicyConfig(architecture, distribution, hidden=16, **more), SEEN, n)
    for head in (made.actor.body.head, made.critic.body.head):  # as large as after training
        torch.nn.init.normal_(head.weight, std=0.5, generator=torch.Generator().manual_seed(1))
    return made


def observation(b: int = 2, n: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(b, n, SEEN.width(n), generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return x, torch.ones(b, n, dtype=torch.bool)


def turned(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """The observation of the same agents in another order."""
    n = x.size(1)
    planes = [x[:, order][:, :, p * n : (p + 1) * n][:, :, order] for p in range(SEEN.matrices())]
    return torch.cat([*planes, x[:, order, SEEN.matrices() * n :]], dim=2)


@pytest.mark.parametrize("distribution", ["gaussian", "beta"])
def test_a_graph_policy_turns_with_the_agents(distribution):
    made, (x, here) = policy(distribution=distribution, layers=2), observation()
    order = torch.tensor([2, 0, 3, 1])
    plain, other = made(x, here), made(turned(x, order), here)
    for a, b in ((plain.first, other.first), (plain.second, other.second)):
        assert torch.allclose(a[:, order][:, :, order], b, atol=1e-5)
        assert a.std() > 1e-3
    assert torch.allclose(made.critic(x, here), made.critic(turned(x, order), here), atol=1e-5)


def test_an_mlp_does_not():
    made, (x, here) = policy("mlp"), observation()
    order = torch.tensor([2, 0, 3, 1])
    assert not torch.allclose(made(x, here).first[:, order][:, :, order], made(turned(x, order), here).first, atol=1e-4)


def test_a_graph_policy_works_for_another_number_of_agents_and_an_mlp_says_that_it_does_not():
    x, here = observation(n=7)
    assert policy()(x, here).first.shape == (2, 7, 7)
    with pytest.raises(UserError, match="trained for 4 agents, but 7"):
        policy("mlp")(x, here)


@pytest.mark.parametrize("architecture", ["graph", "mlp"])
def test_padding_changes_neither_weights_nor_value(architecture):
    made, (x, here) = policy(architecture, n=4), observation(n=4)
    here[1, 2:] = False
    noisy = x.clone()
    noisy[1, 2:] = 9.0
    n = 4
    for plane in range(SEEN.matrices()):
        noisy[1, :, plane * n + 2 : (plane + 1) * n] = 9.0 if architecture == "graph" else x[1, :, plane * n + 2 :
                                                                                            (plane + 1) * n]
    assert torch.allclose(made(x, here).first[1, :2, :2], made(noisy, here).first[1, :2, :2], atol=1e-5)
    assert torch.allclose(made.critic(x, here), made.critic(noisy, here), atol=1e-5)


def test_a_graph_of_two_among_four_places_is_weighed_like_a_graph_of_two():
    made, (x, here) = policy(), observation(b=1, n=2)
    wide = torch.zeros(1, 4, SEEN.width(4))
    wide[:, :2, 0:2], wide[:, :2, 4:6], wide[:, :2, 8:] = x[..., 0:2], x[..., 2:4], x[..., 4:]
    padded = torch.tensor([[True, True, False, False]])
    assert torch.allclose(made(x, here).first, made(wide, padded).first[:, :2, :2], atol=1e-5)


@pytest.mark.parametrize("kind", [GaussianEdges, BetaEdges])
def test_samples_by_inverse_cdf_have_the_distribution_s_mean_and_visibility(kind):
    first, second = torch.full((4000, 1, 1), 1.2), torch.full((4000, 1, 1), 1.5)
    made = kind(first, second, torch.ones(4000, 1, 1, dtype=torch.bool))
    lots = (torch.arange(4000, dtype=torch.float64).view(-1, 1, 1) + 0.5) / 4000
    weights = made.weights(made.icdf(lots))
    assert (weights > 0.3).float().mean() == pytest.approx(float(made.visible(0.3)[0]), abs=0.06)
    assert made.icdf(lots).mean() == pytest.approx(float(made.mean[0]), abs=0.01)
    assert (weights > 0).all() and (weights < 1).all()


def test_pairs_that_are_not_there_have_no_density_and_no_entropy():
    here = torch.tensor([[True, True, False], [False, False, False]])
    made = GaussianEdges(torch.zeros(2, 3, 3), torch.ones(2, 3, 3), pairs(here))
    action = torch.zeros(2, 3, 3)
    action[0, 2, 2] = math.nan
    assert made.log_prob(action).tolist() == pytest.approx([-4 * 0.5 * math.log(2 * math.pi), 0])
    assert made.entropy()[1] == 0


def test_an_untrained_policy_weighs_everything_about_alike():
    made, (x, here) = WeightPolicy(PolicyConfig(), ObservationConfig(), 4), observation()
    drawn = made(x[:, :, :4], here)
    weights = drawn.weights(drawn.mean)
    assert (weights - 0.5).abs().max() < 0.05
    assert torch.equal(weights, WeightPolicy(PolicyConfig(), ObservationConfig(), 4)(x[:, :, :4], here).mean.sigmoid())
    other = WeightPolicy(PolicyConfig(), ObservationConfig(), 4, seed=1)(x[:, :, :4], here)
    assert not torch.equal(drawn.first, other.first)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(UserError, match="place"):
        WeightPolicy(PolicyConfig("graph"), ObservationConfig(features=("place",)), 4)
    with pytest.raises(UserError, match="architecture"):
        PolicyConfig("gnn")
    with pytest.raises(UserError, match="columns"):
        policy("mlp")(torch.zeros(1, 4, 5), torch.ones(1, 4, dtype=torch.bool))
