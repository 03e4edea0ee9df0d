"""Gradients of topologies: estimators against exact enumeration on a graph of three agents, and the audit."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.base import Agent
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.topology.learned import controller_class
from goa_torch.training.topology.audit import GradientAudit, exact_gradient, flat_gradient, quality
from goa_torch.training.topology.estimators import EstimatorConfig, advantage, estimate
from goa_torch.training.topology.world import DebateWorld, Supervision
from goa_torch.types import Card, Sampling
from tests.agents.tiny import save_tiny
from tests.worlds import PROMPTS, questions

NAMES = ("ann", "bob", "cat")


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    models = [HFModel(save_tiny(folder / f"m{i}", seed=i), dtype="float32", name=f"m{i}") for i in range(2)]
    agents = [Agent(name, models[i % 2], Card(name)) for i, name in enumerate(NAMES)]
    return Pool(agents, PromptSet(PROMPTS / "relay"), sampling=Sampling(0.7, max_new_tokens=6), name="three")


def make(name="edge_logits", **settings):
    controller = controller_class(name).for_agents(NAMES, seed=1, **{"k": 2, "policy": "bernoulli", **settings})
    if name == "edge_logits":
        with torch.no_grad():
            controller.logit.copy_(torch.linspace(-1, 1, 9).view(1, 3, 3))
    return controller


@pytest.fixture(scope="module")
def world(pool):
    return DebateWorld(pool, rounds=2, supervision=Supervision(over="mean"))


@pytest.fixture(scope="module")
def exact(world):
    return exact_gradient(world, make(), questions(2))


def test_exact_enumeration_is_the_slope_of_the_expected_value(world, exact):
    controller, step = make(), 0.1

    def expected():
        return estimate(EstimatorConfig("exact"), world, controller, questions(2)).value

    for row, column in ((0, 1), (2, 0)):
        with torch.no_grad():
            controller.logit[0, row, column] += step
            up = expected()
            controller.logit[0, row, column] -= 2 * step
            down = expected()
            controller.logit[0, row, column] += step
        assert -float(exact.view(3, 3)[row, column]) == pytest.approx((up - down) / (2 * step), rel=0.02, abs=1e-4)


@pytest.mark.parametrize("settings", [{"draws": 1, "baseline": "none"}, {"draws": 4, "baseline": "leave_one_out"}])
def test_the_score_function_is_unbiased(world, exact, settings):
    found = quality(EstimatorConfig("score", **settings), world, make(), questions(2), samples=100, exact=exact)
    assert found.bias < 4 * found.error


def test_a_leave_one_out_baseline_lowers_the_variance(world, exact):
    plain, better = (quality(EstimatorConfig("score", draws=4, baseline=baseline), world, make(), questions(2),
                             samples=30, exact=exact) for baseline in ("none", "leave_one_out"))
    assert better.deviation < 0.7 * plain.deviation and better.calls == plain.calls > 0


def test_pathwise_is_the_slope_of_the_value_over_soft_edges_and_has_no_variance(world):
    controller, step = make(), 2e-2
    config = EstimatorConfig("pathwise")
    made = [quality(config, world, controller, questions(2), samples=1, seed=seed) for seed in (0, 1)]
    assert made[0].cosine == pytest.approx(made[1].cosine, abs=1e-6)
    controller.zero_grad()
    estimate(config, world, controller, questions(2))
    gradient = flat_gradient(controller).view(3, 3)
    worth = []
    with torch.no_grad():
        for sign in (1, -1):
            controller.logit[0, 0, 1] += sign * step
            controller.logit.requires_grad_(True)
            with torch.enable_grad():
                worth.append(estimate(config, world, controller, questions(2)).value)
            controller.logit[0, 0, 1] -= sign * step
    assert -float(gradient[0, 1]) == pytest.approx((worth[0] - worth[1]) / (2 * step), rel=0.05, abs=1e-5)


def test_evolution_strategies_agree_with_pathwise_in_the_mean(pool):
    world = DebateWorld(pool.with_sampling(temperature=0.0), rounds=2, supervision=Supervision(over="mean"))
    controller = make()
    estimate(EstimatorConfig("pathwise"), world, controller, questions(1))
    pathwise = flat_gradient(controller)
    config = EstimatorConfig("es", draws=60, sigma=0.2)
    controller.zero_grad()
    before = controller.logit.detach().clone()
    estimate(config, world, controller, questions(1))
    total = flat_gradient(controller)
    assert torch.allclose(controller.logit, before, atol=1e-6)  # perturbations are taken back
    assert torch.nn.functional.cosine_similarity(total, pathwise, dim=0) > 0.7


@pytest.mark.parametrize("name", ["edge_logits", "edge_gnn", "reliability"])
@pytest.mark.parametrize("config", [
    EstimatorConfig("pathwise"), EstimatorConfig("gumbel"), EstimatorConfig("es"),
    EstimatorConfig("score", draws=2), EstimatorConfig("score", draws=2, baseline="group"),
    EstimatorConfig("score", draws=2, edges="noisy"), EstimatorConfig("hybrid", draws=2)], ids=lambda c: c.name)
def test_every_estimator_trains_every_controller(pool, name, config):
    controller = make(name)
    made = estimate(config, DebateWorld(pool, rounds=3), controller, questions(2))
    assert made.usage.tokens > 0 and made.usage.calls > 0 and flat_gradient(controller).abs().sum() > 0
    assert (made.backward > 0) == (config.name in ("pathwise", "gumbel", "hybrid"))


@pytest.mark.parametrize("config", [EstimatorConfig("score", draws=2), EstimatorConfig("hybrid", draws=2),
                                    EstimatorConfig("es")], ids=lambda c: c.name)
def test_rewards_work_without_a_likelihood(pool, config):
    world = DebateWorld(pool, rounds=2, supervision=Supervision("reward"))
    made = estimate(config, world, make(), questions(2))
    assert 0 <= made.value <= 1


def test_a_reward_has_no_path(pool):
    world = DebateWorld(pool, rounds=2, supervision=Supervision("reward"))
    with pytest.raises(UserError, match="a reward has no gradient"):
        estimate(EstimatorConfig("pathwise"), world, make(), questions(2))


def test_the_same_seed_gives_the_same_gradient_whatever_ran_before(pool):
    found = []
    for _ in range(2):
        controller = make()
        estimate(EstimatorConfig("score", draws=2), DebateWorld(pool, 3), controller, questions(2), seed=5, step=3)
        found.append(flat_gradient(controller))
    assert torch.equal(*found)


def test_baselines_are_what_they_say():
    values = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])
    assert advantage(values, "leave_one_out")[:, 0].tolist() == [-3.0, 0.0, 3.0]
    assert advantage(values, "none") is values
    assert advantage(values, "group")[:, 1].tolist() == [0, 0, 0]


# --------------------------------------------------------------------------- the audit


def trained(module, names=None):
    chosen = [p for name, p in module.named_parameters() if names is None or name in names]
    return GradientAudit(module, torch.optim.SGD(chosen, lr=0.1), patience=2)


def test_a_tensor_that_the_optimiser_does_not_hold_fails_the_audit():
    with pytest.raises(UserError, match="bias"):
        trained(torch.nn.Linear(2, 1), ["weight"])


@pytest.mark.parametrize("gradient, says", [(None, "no gradient"), (0.0, "only zeros"), (float("nan"), "not finite")])
def test_gradients_that_are_missing_zero_or_no_number_fail_the_audit(gradient, says):
    module = torch.nn.Linear(2, 1)
    audit = trained(module)
    with pytest.raises(UserError, match=says):
        for _ in range(2):
            module.weight.grad = torch.ones_like(module.weight)
            module.bias.grad = None if gradient is None else torch.full_like(module.bias, gradient)
            audit.observe()


def test_good_gradients_pass():
    module = torch.nn.Linear(2, 1)
    audit = trained(module)
    for _ in range(3):
        module(torch.ones(1, 2)).sum().backward()
        audit.observe()
