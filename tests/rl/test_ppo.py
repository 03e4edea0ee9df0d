"""PPO: advantages by hand, losses that stay finite, and a bandit that must be learned."""

from __future__ import annotations

import math

import pytest
import torch

from goa_torch.errors import UserError
from goa_torch.randomness import stream, uniforms
from goa_torch.rl.ppo import PPO, PPOConfig
from goa_torch.rl.rollout import Rollout, evaluate, roll_out
from goa_torch.topology.observation import ObservationConfig
from goa_torch.topology.policies import PolicyConfig, WeightPolicy
from tests.rl.world import debates
from tests.worlds import questions


def learner(n: int = 3, architecture: str = "mlp", distribution: str = "gaussian", **config) -> PPO:
    seen = ObservationConfig(features=("card",) if architecture == "graph" else ())
    policy = WeightPolicy(PolicyConfig(architecture, distribution, hidden=32), seen, n)
    return PPO(policy, PPOConfig(**config))


def rollout(ppo: PPO, b: int, t: int = 1, seed: int = 0, x: torch.Tensor | None = None) -> Rollout:
    """Episodes whose actions the policy draws and whose rewards are still to be filled in."""
    n, draw = ppo.policy.agents, torch.Generator().manual_seed(seed)
    made = Rollout.empty(b, t, n, ppo.policy.observation.width(n))
    made.x[:] = torch.rand(made.x.shape, generator=draw) if x is None else x
    for step in range(t):
        with torch.no_grad():
            drawn = ppo.policy(made.x[:, step], made.here)
        lots = uniforms([[[stream(seed, step)]]], torch.arange(b * n * n).view(b, n, n).numpy())
        made.action[:, step] = drawn.icdf(torch.from_numpy(lots))
        made.log_prob[:, step] = drawn.log_prob(made.action[:, step])
    made.valid[:] = True
    made.terminated[:, -1] = True
    return made


def with_values(ppo: PPO, values: list[float]) -> Rollout:
    """One episode whose states are worth ``values``."""
    made = rollout(ppo, 1, len(values) - 1)
    ppo.policy.critic.forward = lambda x, here: torch.tensor(values).view(-1, 1)  # type: ignore[method-assign]
    return made


def test_advantages_are_those_worked_out_by_hand_when_the_episode_ends():
    ppo = learner(discount=0.9, trace=0.5)
    made = with_values(ppo, [1.0, 2.0, 3.0, 99.0])
    made.reward[0] = torch.tensor([1.0, 0.0, 5.0])
    advantage, target = ppo.advantages(made)
    last = 5.0 - 3.0
    middle = 0.0 + 0.9 * 3.0 - 2.0 + 0.45 * last
    first = 1.0 + 0.9 * 2.0 - 1.0 + 0.45 * middle
    assert advantage[0].tolist() == pytest.approx([first, middle, last])
    assert target[0].tolist() == pytest.approx([first + 1, middle + 2, last + 3])


def test_the_value_after_a_truncated_step_counts():
    ppo = learner(discount=0.9, trace=0.5)
    made = with_values(ppo, [1.0, 2.0, 10.0])
    made.reward[0] = torch.tensor([1.0, 0.0])
    made.terminated[:], made.truncated[0, 1] = False, True
    advantage, _ = ppo.advantages(made)
    last = 0.9 * 10.0 - 2.0
    assert advantage[0].tolist() == pytest.approx([1.0 + 0.9 * 2.0 - 1.0 + 0.45 * last, last])


def test_steps_that_were_not_taken_do_not_count():
    ppo = learner()
    made = with_values(ppo, [1.0, 2.0, 3.0, 4.0])
    made.reward[0], made.valid[0, 1:] = torch.tensor([1.0, 50.0, 50.0]), False
    made.terminated[0] = torch.tensor([True, False, True])
    advantage, _ = ppo.advantages(made)
    assert advantage[0, 0] == pytest.approx(0.0)


@pytest.mark.parametrize("distribution", ["gaussian", "beta"])
@pytest.mark.parametrize("architecture", ["mlp", "graph"])
def test_losses_are_finite_whatever_comes(architecture, distribution):
    ppo = learner(architecture=architecture, distribution=distribution, entropy=0.01, minibatch=None, epochs=2)
    alone = rollout(ppo, 1)
    constant = rollout(ppo, 4)
    constant.reward[:] = 1.0
    nobody = rollout(ppo, 2)
    nobody.here[:] = False
    for made in (alone, constant, nobody):
        measured = ppo.update(made)
        assert all(math.isfinite(value) for value in measured.values()), measured
    assert all(bool(parameter.isfinite().all()) for parameter in ppo.policy.parameters())


def test_a_minibatch_of_one_is_finite():
    ppo = learner(minibatch=1)
    made = rollout(ppo, 3)
    made.reward[:, 0] = torch.tensor([0.0, 1.0, 2.0])
    assert all(math.isfinite(value) for value in ppo.update(made).values())


def test_a_rollout_without_steps_is_refused():
    ppo = learner()
    made = rollout(ppo, 1)
    made.valid[:] = False
    with pytest.raises(ValueError, match="without a step"):
        ppo.update(made)


@pytest.mark.parametrize("architecture", ["mlp", "graph"])
def test_it_learns_which_edges_to_switch_on(architecture):
    ppo = learner(4, architecture, lr=1e-2, minibatch=None, epochs=4, value=0.5, budget=0.0)
    wanted = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0]], dtype=torch.bool)
    others = ~torch.eye(4, dtype=torch.bool)
    x = torch.rand(1, 1, 4, ppo.policy.observation.width(4), generator=torch.Generator().manual_seed(3)) * 2 - 1

    def agreement(weights: torch.Tensor) -> torch.Tensor:
        return (((weights > 0.5) == wanted) & others).sum(dim=(-2, -1)) / 12

    for update in range(150):
        made = rollout(ppo, 64, seed=update, x=x)
        made.reward[:, 0] = agreement(ppo.policy.distribution.weights(None, made.action[:, 0]))
        ppo.update(made)
        drawn = ppo.policy(x[0], made.here[:1])
        if float(agreement(drawn.weights(drawn.mean))) == 1:
            break
    assert float(agreement(drawn.weights(drawn.mean))) == 1 and update < 149


def test_the_budget_alone_makes_messages_rare():
    ppo = learner(4, lr=1e-2, budget=1.0, edges=3, minibatch=None)
    before = None
    for update in range(60):
        made = rollout(ppo, 8, seed=update)
        before = float(ppo.over_budget(ppo.policy(made.x[:, 0], made.here)).detach()) if before is None else before
        ppo.update(made)
    assert before == pytest.approx(12 * 0.986 - 3, abs=0.2)  # a standard normal logit is above that of .10 mostly
    assert float(ppo.over_budget(ppo.policy(made.x[:, 0], made.here)).detach()) < 1.5


def test_the_same_rollout_and_seed_give_the_same_weights():
    trained = []
    for _ in range(2):
        ppo = learner(minibatch=2, epochs=2)
        made = rollout(ppo, 5)
        made.reward[:, 0] = torch.arange(5.0)
        ppo.update(made)
        trained.append(torch.cat([p.detach().flatten() for p in ppo.policy.parameters()]))
    assert torch.equal(*trained)


def test_episodes_are_the_same_alone_and_side_by_side():
    engine = debates(rounds=4)
    policy = WeightPolicy(PolicyConfig(hidden=8), engine.config.observation, 6)
    asked, noise = questions(4), [11, 12, 13, 14]
    together = roll_out(engine, policy, asked, noise).rollout
    for row in range(4):
        alone = roll_out(debates(rounds=4), policy, [asked[row]], [noise[row]]).rollout
        assert torch.allclose(together.action[row], alone.action[0], atol=1e-6)
        assert torch.allclose(together.reward[row], alone.reward[0])
        assert torch.equal(together.x[row], alone.x[0])
    assert not torch.equal(together.action[0, 0], together.action[1, 0])


def test_what_a_policy_comes_to_is_counted_over_all_questions():
    engine = debates(rounds=3)
    policy = WeightPolicy(PolicyConfig(hidden=8), engine.config.observation, 6)
    one, parts = evaluate(engine, policy, questions(5)), evaluate(debates(rounds=3), policy, questions(5), batch=2)
    for name in ("paid_calls", "paid_tokens"):
        assert one[name] == parts.pop(name) and one.pop(name) > 0
    assert one == pytest.approx(parts)
    assert one["calls"] == pytest.approx(6 + 6 * (one["called/1"] + one["called/2"]))
    assert one["return"] == pytest.approx(
        sum(value for name, value in one.items() if name.startswith("reward/")))


@pytest.mark.parametrize("settings", [{"lr": 0}, {"discount": 1.1}, {"epochs": 0}, {"minibatch": 0},
                                      {"edges": -1}, {"budget": -0.1}, {"threshold": 0.0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(UserError, match="ppo"):
        PPOConfig(**settings)
