"""Proximal policy optimisation over weight matrices (Schulman et al. 2017, arXiv 1707.06347), from torchrl's parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torch import Tensor, nn
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value.functional import generalized_advantage_estimate

from ..errors import UserError
from ..randomness import stream, uniforms
from ..topology.policies import WeightPolicy
from ..topology.weight_distributions import EdgeDistribution
from .rollout import Rollout


@dataclass(frozen=True)
class PPOConfig:
    """How a policy learns; the defaults are the published ones (RUMAD, arXiv 2602.23864).

    Attributes:
        lr: of Adam.
        discount: gamma. The rewards of silence are discounted with it too.
        trace: lambda of the generalised advantage estimate.
        clip: how far a probability ratio may go from 1.
        value: weight of the critic's loss (smooth L1).
        entropy: weight of an entropy bonus; none is published.
        budget: weight of the messages beyond ``edges``, in expectation over the policy.
        edges: B, visible messages a round (self weights not counted (?)) that cost nothing; published: 12 and 18 of 30.
        threshold: weight above which a message is visible; the gate's ``background``.
        epochs: passes over a rollout.
        minibatch: steps an update sees at once; ``None`` for all.
        normalize: advantages to mean 0 and deviation 1 over a rollout.
        max_norm: of the gradient.
    """

    lr: float = 1e-4
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    value: float = 0.01
    entropy: float = 0.0
    budget: float = 0.01
    edges: float = 12.0
    threshold: float = 0.10
    epochs: int = 1
    minibatch: int | None = 10
    normalize: bool = True
    max_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("lr", "clip", "max_norm"):
            if not getattr(self, name) > 0:
                raise UserError(f"ppo: {name} must be more than 0, not {getattr(self, name)}")
        for name in ("discount", "trace"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"ppo: {name} must lie in [0, 1], not {getattr(self, name)}")
        for name in ("value", "entropy", "budget", "edges"):
            if not getattr(self, name) >= 0:
                raise UserError(f"ppo: {name} must be at least 0, not {getattr(self, name)}")
        if not 0 < self.threshold < 1:
            raise UserError(f"ppo: threshold must lie between 0 and 1, not {self.threshold}")
        if self.epochs < 1 or (self.minibatch is not None and self.minibatch < 1):
            raise UserError("ppo: epochs and minibatch must be at least 1")


class PPO:
    r"""Improves a policy on rollouts.

    .. math:: L = L_\mathrm{clip} + c_v L_\mathrm{critic} - c_e H
              + c_b \max\Big(0, \textstyle\sum_{i \neq j} P(w_{ij} > w_\mathrm{background}) - B\Big).

    The last term is the budget: the number of visible messages has no gradient, its expectation under the policy has.

    Args:
        policy: see :class:`goa_torch.topology.policies.WeightPolicy`.
        config: see :class:`PPOConfig`.
        seed: of the order of minibatches.
    """

    def __init__(self, policy: WeightPolicy, config: PPOConfig | None = None, seed: int = 0) -> None:
        self.policy, self.config, self.seed = policy, config or PPOConfig(), seed
        self.updates = 0
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=self.config.lr)
        self._actor = _Parameters(policy)
        actor = ProbabilisticTensorDictSequential(
            TensorDictModule(self._actor, in_keys=["x", "here"], out_keys=["first", "second", "pairs"]),
            ProbabilisticTensorDictModule(in_keys=["first", "second", "pairs"], out_keys=["action"],
                                          distribution_class=policy.distribution, return_log_prob=True))
        critic = TensorDictModule(policy.critic, in_keys=["x", "here"], out_keys=["state_value"])
        self.loss = ClipPPOLoss(actor, critic, clip_epsilon=self.config.clip, entropy_bonus=self.config.entropy > 0,
                                entropy_coeff=self.config.entropy, critic_coeff=self.config.value, functional=False)

    def advantages(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        r"""Advantages and value targets, [B, T] each (Schulman et al. 2016, arXiv 1506.02438). The value after a
        truncated step counts, that after a terminated one does not:

        .. math:: \delta_t = r_t + \gamma (1 - \mathrm{terminated}_t) V_{t+1} - V_t, \quad
                  A_t = \delta_t + \gamma \lambda (1 - \mathrm{done}_t) A_{t+1}.
        """
        b, t = rollout.reward.shape
        with torch.no_grad():
            here = rollout.here[:, None].expand(b, t + 1, -1).flatten(0, 1)
            value = self.policy.critic(rollout.x.flatten(0, 1), here).view(b, t + 1, 1)
        # Steps after the end are cut off, so that what stands there does not flow back.
        done = (rollout.done | ~rollout.valid)[..., None]
        terminated = (rollout.terminated | ~rollout.valid)[..., None]
        advantage, target = generalized_advantage_estimate(
            self.config.discount, self.config.trace, value[:, :-1], value[:, 1:], rollout.reward[..., None], done,
            terminated)
        return advantage[..., 0], target[..., 0]

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learns from one rollout; means of what was measured on the way. Steps that were not taken do not count."""
        if not bool(rollout.valid.any()):
            raise ValueError("a rollout without a step: there is nothing to learn from")
        advantage, target = self.advantages(rollout)
        rows = rollout.valid
        chosen = advantage[rows]
        if self.config.normalize and chosen.numel() > 1:
            chosen = (chosen - chosen.mean()) / chosen.std().clamp_min(1e-6)
        batch = TensorDict({
            "x": rollout.x[:, :-1][rows], "action": rollout.action[rows], "advantage": chosen[:, None],
            "here": rollout.here[:, None].expand(*rows.shape, -1)[rows], "value_target": target[rows][:, None],
            self.loss.tensor_keys.sample_log_prob: rollout.log_prob[rows],
        }, batch_size=[int(rows.sum())])
        measured: list[dict[str, float]] = []
        for part in self._minibatches(batch):
            measured.append(self._improve(batch[part]))
        self.updates += 1
        return {name: sum(one[name] for one in measured) / len(measured) for name in measured[0]}

    def _minibatches(self, batch: TensorDict) -> Iterator[Tensor]:
        size = self.config.minibatch or len(batch)
        for epoch in range(self.config.epochs):
            name = stream("minibatches", self.seed, self.updates, epoch)
            order = torch.from_numpy(np.argsort(uniforms([name], np.arange(len(batch))), kind="stable"))
            yield from order.split(size)

    def _improve(self, batch: TensorDict) -> dict[str, float]:
        out = self.loss(batch)
        over = self.over_budget(self._actor.drawn)
        losses = {name: value for name, value in out.items() if name.startswith("loss_")}
        total = sum(losses.values()) + self.config.budget * over
        self.optimizer.zero_grad()
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), self.config.max_norm)
        self.optimizer.step()
        kept = ("kl_approx", "clip_fraction", "entropy", "explained_variance")
        shown = losses | {name: out[name] for name in kept if name in out.keys()}
        return {name: float(value.detach().mean()) for name, value in shown.items()} | {
            "loss": float(total.detach()), "over_budget": float(over.detach()), "grad_norm": float(norm)}

    def over_budget(self, drawn: EdgeDistribution) -> Tensor:
        """Expected visible messages beyond the budget, averaged over the batch."""
        others = drawn.pairs & ~torch.eye(drawn.pairs.size(1), dtype=torch.bool)
        count = drawn.visible(self.config.threshold).masked_fill(~others, 0.0).sum(dim=(-2, -1))
        return (count - self.config.edges).clamp_min(0).mean()


class _Parameters(nn.Module):
    """The parameters of a policy's distribution, as torchrl wants them.

    Attributes:
        drawn: the distribution of the latest pass: what the loss is made of, the budget is made of too.
    """

    drawn: EdgeDistribution

    def __init__(self, policy: WeightPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, x: Tensor, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.drawn = self.policy(x, here)
        return self.drawn.first, self.drawn.second, self.drawn.pairs
