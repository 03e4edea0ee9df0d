"""Whole episodes under a policy, as tensors and as what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..randomness import uniforms
from ..topology.policies import WeightPolicy
from ..types import Question
from .debates import Debates, Episode, Step


@dataclass(slots=True)
class Rollout:
    """B episodes of at most T steps, padded.

    Attributes:
        x: [B, T + 1, N, D] observations, the one after the last step included.
        here: [B, N] which places hold an agent.
        action: [B, T, N, N] what the policy drew (its distribution says which weights that stands for).
        log_prob: [B, T] under the policy that drew it.
        reward: [B, T].
        terminated, truncated: [B, T] how a step ended its episode, if it did.
        valid: [B, T] steps that were taken.
    """

    x: Tensor
    here: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor

    @classmethod
    def empty(cls, b: int, t: int, n: int, width: int) -> Rollout:
        """Room for B episodes of T steps."""
        return cls(torch.zeros(b, t + 1, n, width), torch.ones(b, n, dtype=torch.bool), torch.zeros(b, t, n, n),
                   torch.zeros(b, t), torch.zeros(b, t), *(torch.zeros(b, t, dtype=torch.bool) for _ in range(3)))

    @property
    def done(self) -> Tensor:
        """[B, T] steps after which nothing follows."""
        return self.terminated | self.truncated


@dataclass(slots=True)
class Played:
    """What episodes came to: the rollout, the episodes, and the steps of each."""

    rollout: Rollout
    episodes: list[Episode]
    steps: list[list[Step]] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Means over episodes: ``return`` (undiscounted), ``accuracy`` (of the majority at the end) and its gain over
        the first answers, ``tokens``, ``calls`` and ``depth`` as the debates would cost alone, ``rounds`` of talking
        in which somebody was called, ``called`` (share of the agents called a step), ``called/1``, ``called/2``, ...
        (share of all agents in each round; debates that are over call nobody) and each reward term; and over all
        episodes the calls that were really made and their tokens (``paid_calls``, ``paid_tokens``)."""
        b = max(1, len(self.episodes))
        flat = [step for steps in self.steps for step in steps]
        talked = [step for step in flat if not step.silent]
        facts = {
            "return": sum(step.reward for step in flat) / b,
            "accuracy": sum(e.standing.right for e in self.episodes) / b,
            "gain": sum(e.standing.right - e.first.right for e in self.episodes) / b,
            "tokens": sum(e.usage.tokens for e in self.episodes) / b,
            "calls": sum(len(e.calls) for e in self.episodes) / b,
            "depth": sum(max((c.depth for c in e.calls), default=0) for e in self.episodes) / b,
            "rounds": len(talked) / b,
            "called": sum(step.called for step in flat) / max(1, len(flat)) / self.rollout.x.size(2),
            "paid_calls": float(sum(e.paid.calls for e in self.episodes)),
            "paid_tokens": float(sum(e.paid.tokens for e in self.episodes)),
        }
        shares = {f"called/{k}": share for k, share in enumerate(self.called_by_round(), start=1)}
        names = dict.fromkeys(name for step in flat for name in step.terms)
        terms = {f"reward/{name}": sum(step.terms.get(name, 0.0) for step in flat) / b for name in names}
        return facts | shares | terms

    def called_by_round(self) -> list[float]:
        """Share of all agents that are called in each round of talking; debates that are over call nobody."""
        t, n, b = self.rollout.action.size(1), self.rollout.x.size(2), max(1, len(self.episodes))
        return [sum(steps[k].called for steps in self.steps if k < len(steps)) / (n * b) for k in range(t)]


def roll_out(debates: Debates, policy: WeightPolicy, questions: Sequence[Question], noise: Sequence[int] | None = None,
             seeds: Sequence[int] | None = None) -> Played:
    """Debates ``questions`` from beginning to end, all side by side.

    Args:
        debates: the engine.
        policy: weighs messages.
        questions: one an episode.
        noise: the random stream of each episode's actions; without it the policy is used without chance.
        seeds: of decoding, one an episode; the engine's by default.
    """
    b, n = len(questions), debates.n
    rollout = Rollout.empty(b, debates.config.steps, *debates.shape)
    episodes = debates.begin(questions, seeds)
    played = Played(rollout, episodes, [[] for _ in episodes])
    rollout.x[:, 0] = debates.observe(episodes)
    for t in range(debates.config.steps):
        rows = [row for row, episode in enumerate(episodes) if not episode.over]
        if not rows:
            break
        with torch.no_grad():
            drawn = policy(rollout.x[rows, t], rollout.here[rows])
        if noise is None:
            action = drawn.mean
        else:
            counters = np.arange(n * n).reshape(1, n, n) + t * n * n
            names = np.array([noise[row] for row in rows], dtype=np.uint64)[:, None, None]
            action = drawn.icdf(torch.from_numpy(uniforms(names, counters)))
        rollout.action[rows, t], rollout.log_prob[rows, t] = action, drawn.log_prob(action)
        rollout.valid[rows, t] = True
        for row, step in zip(rows, debates.step([episodes[row] for row in rows], drawn.weights(action))):
            played.steps[row].append(step)
            rollout.reward[row, t] = step.reward
            rollout.terminated[row, t], rollout.truncated[row, t] = step.terminated, step.truncated
        rollout.x[rows, t + 1] = debates.observe([episodes[row] for row in rows])
    return played


def evaluate(debates: Debates, policy: WeightPolicy, questions: Sequence[Question], batch: int = 256
             ) -> dict[str, float]:
    """What a policy comes to without chance: the summary of :class:`Played`, over all ``questions``."""
    chunks = [questions[start : start + batch] for start in range(0, len(questions), batch)]
    parts = [(len(chunk), roll_out(debates, policy, chunk).summary()) for chunk in chunks]
    names = dict.fromkeys(name for _, part in parts for name in part)
    total = sum(size for size, _ in parts)
    means = {name: sum(size * part.get(name, 0.0) for size, part in parts) / max(1, total) for name in names}
    return means | {name: sum(part[name] for _, part in parts) for name in names if name.startswith("paid_")}
