"""Are gradients there, and are they right?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ...errors import UserError
from ...topology.learned.base import LearnedTopology
from ...types import Question
from .estimators import EstimatorConfig, estimate
from .world import DebateWorld


class GradientAudit:
    """Fails when a trainable tensor is missing from the optimiser, gets a gradient that is not finite, or none (or only
    zeros) in its first steps.

    Args:
        module: what is trained.
        optimizer: what trains it.
        patience: steps after which every tensor must have had a gradient other than zero.
    """

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer, patience: int = 8) -> None:
        self.module, self.patience, self.steps = module, patience, 0
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        missing = [name for name, p in module.named_parameters() if p.requires_grad and id(p) not in held]
        if missing:
            raise UserError(f"gradient audit: {', '.join(missing)} would never be trained: not in the optimiser; give "
                            "it all parameters that require a gradient")
        self.silent = {name for name, p in module.named_parameters() if p.requires_grad}

    def observe(self) -> None:
        """Looks at the gradients of one step, before the optimiser takes them."""
        self.steps += 1
        for name, p in self.module.named_parameters():
            if not p.requires_grad or p.grad is None:
                continue
            if not bool(p.grad.isfinite().all()):
                raise UserError(f"gradient audit: {name} has a gradient that is not finite in step {self.steps}; take "
                                "a lower learning rate, or float32 agents")
            if bool(p.grad.any()):
                self.silent.discard(name)
        if self.steps >= self.patience and self.silent:
            raise UserError(f"gradient audit: {', '.join(sorted(self.silent))} had no gradient (or only zeros) in "
                            f"{self.steps} steps; it has no influence on the loss, so freeze or remove it")


@dataclass(slots=True)
class Quality:
    """An estimator's gradient against that of exact enumeration.

    Attributes:
        bias: length of the difference of their means, relative to the exact gradient's length.
        deviation: root of the summed variance of one estimate, relative likewise.
        error: standard error of the mean that ``bias`` rests on, relative likewise: a smaller bias is none.
        cosine: of the mean estimate and the exact gradient.
        calls, tokens, seconds: of one estimate; tokens count those a gradient flows through once more.
    """

    bias: float
    deviation: float
    error: float
    cosine: float
    calls: float
    tokens: float
    seconds: float


def flat_gradient(module: nn.Module) -> torch.Tensor:
    """All gradients as one vector; zeros where there is none."""
    parts = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in module.parameters()
             if p.requires_grad]
    return torch.cat(parts).double()


def quality(config: EstimatorConfig, world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question],
            samples: int = 64, seed: int = 0, exact: torch.Tensor | None = None) -> Quality:
    """Estimates the gradient ``samples`` times and compares with exact enumeration (one round, few edges).

    Args:
        exact: the exact gradient, if it is known already (:func:`exact_gradient`).
    """
    exact = exact_gradient(world, controller, questions) if exact is None else exact
    found, calls, tokens, seconds = [], 0, 0, 0.0
    for sample in range(samples):
        controller.zero_grad(set_to_none=True)
        made = estimate(config, world, controller, questions, seed, sample)
        found.append(flat_gradient(controller))
        calls, seconds = calls + made.usage.calls, seconds + made.seconds
        tokens += made.usage.tokens + made.backward
    gradients = torch.stack(found)
    mean, length = gradients.mean(0), float(exact.norm())
    spread = float(gradients.var(0, unbiased=samples > 1).sum().sqrt())
    return Quality(float((mean - exact).norm()) / length, spread / length, spread / samples**0.5 / length,
                   float(torch.nn.functional.cosine_similarity(mean, exact, dim=0)), calls / samples,
                   tokens / samples, seconds / samples)


def exact_gradient(world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question]) -> torch.Tensor:
    """The gradient over all edge sets, as one vector."""
    controller.zero_grad(set_to_none=True)
    estimate(EstimatorConfig("exact"), world, controller, questions)
    return flat_gradient(controller)
