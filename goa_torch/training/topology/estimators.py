r"""Estimators of the gradient of a debate's worth, :math:`\nabla_\theta \mathbb{E}[V]`: interchangeable, each with
its bias, its variance and its cost.

============ ============================ =============================================================
name         edges                        gradient
============ ============================ =============================================================
``pathwise`` soft, drawn by nobody        :math:`\nabla_\theta V` through the agents' likelihood
``score``    on or off (or ``noisy``)     :math:`(V - b) \nabla_\theta \log p_\theta(\text{edges})` (REINFORCE)
``gumbel``   on or off, straight-through  :math:`\nabla_\theta V` as if edges were relaxed (biased)
``hybrid``   soft                         pathwise, plus :math:`(V - b) \nabla_\theta \log p(\text{replies} \mid w)`
``es``       soft                         :math:`(V_{\theta + \sigma e} - V_{\theta - \sigma e}) e / 2 \sigma`
``exact``    on or off                    all :math:`2^E` edge sets (one round, few edges): the reference
``fit``      as deployed                  none: the controller's own loss on right and wrong replies
============ ============================ =============================================================
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ... import randomness
from ...errors import UserError
from ...topology.learned.base import LearnedTopology
from ...topology.learned.turns import is_staged
from ...types import Question, Topology, Usage
from .chance import Mode, draw_edges, lots
from .world import DebateWorld, Play

if TYPE_CHECKING:
    from ...state import State

ESTIMATORS = ("pathwise", "score", "gumbel", "hybrid", "es", "exact", "fit")
BASELINES = ("none", "leave_one_out", "group")
MOST_EXACT = 12


@dataclass(frozen=True)
class EstimatorConfig:
    """Which estimator.

    Attributes:
        name: see the table above.
        draws: debates of each question a step (pairs, for ``es``); a baseline needs two.
        baseline: what ``score`` and ``hybrid`` subtract: ``none`` (as published), ``leave_one_out`` (the mean of the
            question's other draws: unbiased) or ``group`` (their mean and deviation, Graph-GRPO: biased).
        edges: of ``score``: ``hard``, or ``noisy``: soft edges with Gaussian noise on the logits.
        sigma: of that noise (0.5 by default), and of the perturbations of ``es`` (0.05).
        temperature: of ``gumbel``.
    """

    name: str = "pathwise"
    draws: int = 1
    baseline: str = "leave_one_out"
    edges: str = "hard"
    sigma: float | None = None
    temperature: float = 0.5

    def __post_init__(self) -> None:
        for name, allowed in (("name", ESTIMATORS), ("baseline", BASELINES), ("edges", ("hard", "noisy"))):
            if getattr(self, name) not in allowed:
                raise UserError(f"estimator: {name} = {getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        if self.sigma is None:
            object.__setattr__(self, "sigma", 0.05 if self.name == "es" else 0.5)
        if self.draws < 1 or not self.sigma > 0 or not self.temperature > 0:
            raise UserError("estimator: draws must be at least 1, sigma and temperature larger than 0")
        if self.draws < 2 and self.baseline != "none" and self.name in ("score", "hybrid"):
            raise UserError(f"estimator: {self.name} with baseline = {self.baseline!r} compares draws; give draws = 2 "
                            "or more, or baseline = 'none'")


@dataclass(slots=True)
class Estimate:
    """One step's worth: the mean ``value`` of its debates and what they cost; gradients lie in the parameters.
    ``backward`` counts tokens a gradient flowed through, in addition to ``usage``; ``seconds`` are the whole step's."""

    value: float
    usage: Usage
    paid: Usage
    backward: int
    seconds: float


def estimate(config: EstimatorConfig, world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question],
             seed: int = 0, step: int = 0, decoding: int = 0) -> Estimate:
    """Adds the estimated gradient of *minus* the mean value to ``controller``'s parameters.

    Args:
        seed: of drawn edges and perturbations; ``step`` makes each step's own.
        decoding: seed of the agents' replies. Draws of ``hybrid``, whose gradient is that of replies too, have
            consecutive ones; all others compare edges over the same first answers.
    """
    started = time.perf_counter()
    check_estimator(config, world, controller)
    if config.name == "es":
        plays = _evolve(config, world, controller, questions, seed, step, decoding)
    elif config.name == "exact":
        plays = _enumerate(world, controller, questions, decoding)
    elif config.name == "fit":
        plays = _fit(config, world, controller, questions, decoding)
    else:
        name, staged = randomness.stream(seed, "step", step), is_staged(controller)
        mode: Mode = {"score": config.edges, "gumbel": "gumbel"}.get(config.name, "soft")  # type: ignore[assignment]
        plays, penalties = [], []
        for draw in range(config.draws):
            heard = decoding + draw if config.name == "hybrid" else decoding
            if staged:
                def begin(state: State, draw: int = draw) -> list[int]:
                    first = controller.begin(state, lambda *what: lots(state, what[0], name, what[1], draw, what[2]))
                    penalties.append(controller.graph_penalty(state))
                    return first

                plays.append(world.play(controller, questions, heard, begin=begin))
                continue
            plays.append(world.play(
                lambda state, round, draw=draw: draw_edges(controller, state, round, mode, name, draw, config.sigma,
                                                           config.temperature),
                questions, heard, said=config.name == "hybrid"))
        _backward(surrogate(config, plays) + sum(penalties) / config.draws, controller)
    value = torch.stack([play.value.detach() for play in plays]).mean()
    return Estimate(float(value), sum((p.usage for p in plays), Usage()), sum((p.paid for p in plays), Usage()),
                    sum(p.backward for p in plays), time.perf_counter() - started)


def check_estimator(config: EstimatorConfig, world: DebateWorld, controller: LearnedTopology) -> None:
    """Raises :class:`UserError` unless the estimator goes with what debates are worth and with what is trained."""
    kind = type(controller).__name__
    if config.name in ("pathwise", "gumbel") and world.supervision.value != "likelihood":
        raise UserError(f"estimator: {config.name} differentiates a likelihood, and a reward has no gradient; take "
                        "score, hybrid or es, or supervise by likelihood")
    if config.name == "fit" and not hasattr(controller, "loss"):
        raise UserError(f"estimator: fit needs a controller with a loss of its own, such as reliability, not {kind}")
    if config.name == "exact" and (controller.policy != "bernoulli" or world.rounds != 2):
        raise UserError("estimator: exact enumerates the edges of one round, each on or off; give rounds = 2 and "
                        "policy = 'bernoulli'")
    if is_staged(controller) and (config.name != "score" or world.supervision.value != "reward"):
        raise UserError(f"estimator: in {kind} agents speak once each, in turn, over edges that are on or off: it is "
                        "trained by score and reward, as published")


def surrogate(config: EstimatorConfig, plays: Sequence[Play]) -> Tensor:
    """A loss whose gradient is the estimate of that of minus the mean value."""
    values = torch.stack([play.value for play in plays])  # [draws, B]
    if config.name in ("pathwise", "gumbel"):
        return -values.mean()
    gain = advantage(values.detach(), config.baseline)
    if config.name == "score":
        return -(gain * torch.stack([play.log_prob for play in plays])).mean()
    through = values.mean() if values.requires_grad else values.new_zeros(())
    return -through - (gain * torch.stack([play.said for play in plays])).mean()


def advantage(values: Tensor, baseline: str) -> Tensor:
    """Values [draws, B] less their baseline."""
    draws = values.shape[0]
    if baseline == "none":
        return values
    if baseline == "leave_one_out":
        return values - (values.sum(0) - values) / (draws - 1)
    return (values - values.mean(0)) / (values.std(0, unbiased=False) + 1e-6)


def _backward(loss: Tensor, controller: LearnedTopology) -> None:
    loss = loss + controller.penalty()
    if loss.requires_grad:  # not if nothing was drawn or heard in this batch; the audit sees if that lasts
        loss.backward()


def _evolve(config: EstimatorConfig, world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question],
            seed: int, step: int, decoding: int) -> list[Play]:
    """Antithetic evolution strategies (Salimans et al. 2017, arXiv 1703.03864) over all parameters at once."""
    parameters = [p for p in controller.parameters() if p.requires_grad]
    plays = []

    def soft(state, round):
        return draw_edges(controller, state, round, "soft", 0, 0)

    for pair in range(config.draws):
        count = sum(p.numel() for p in parameters)
        u = randomness.uniforms([randomness.stream(seed, "es", step, pair)], np.arange(count))
        noise = torch.special.ndtri(torch.from_numpy(u).clamp(1e-12, 1 - 1e-12)).float()
        pieces = [part.view_as(p) for part, p in zip(noise.split([p.numel() for p in parameters]), parameters)]
        worth = []
        with torch.no_grad():
            for sign in (1, -1):
                for p, piece in zip(parameters, pieces):
                    p.add_(sign * config.sigma * piece)
                play = world.play(soft, questions, decoding + pair)
                worth.append(float(play.value.mean() - controller.penalty()))
                plays.append(play)
                for p, piece in zip(parameters, pieces):
                    p.sub_(sign * config.sigma * piece)
        slope = (worth[0] - worth[1]) / (2 * config.sigma * config.draws)
        for p, piece in zip(parameters, pieces):
            p.grad = -slope * piece if p.grad is None else p.grad - slope * piece
    return plays


def _fit(config: EstimatorConfig, world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question],
         decoding: int) -> list[Play]:
    losses: list[Tensor] = []

    def watch(state: State, round: int) -> None:
        right = [state.question_of(node).is_correct(reply.answer) for node, reply in enumerate(state.replies)]
        losses.append(controller.loss(state, round, right))

    plays = [world.play(controller, questions, decoding + draw, vote=True, watch=watch)
             for draw in range(config.draws)]
    _backward(torch.stack(losses).mean(), controller)
    return plays


def _enumerate(world: DebateWorld, controller: LearnedTopology, questions: Sequence[Question], decoding: int
               ) -> list[Play]:
    """All edge sets of each question's graph, weighted by their probability; every question has the same agents."""
    plays, probabilities = [], []
    edges = None
    for number in itertools.count():
        chosen: dict[str, Tensor] = {}

        def connect(state, round, number=number, chosen=chosen):
            edge_index = controller.candidates(state)
            logit = controller.logits(state, round, edge_index)
            graph = state.batch[edge_index[0]]
            each = torch.bincount(graph, minlength=state.num_graphs)
            if int(each.min()) != int(each.max()) or int(each.max()) > MOST_EXACT:
                raise UserError(f"estimator: exact needs the same edges in every question, {MOST_EXACT} at most")
            place = torch.arange(edge_index.size(1)) - (each.cumsum(0) - each)[graph]
            on = (number >> place) % 2 == 1
            log_prob = torch.nn.functional.logsigmoid(torch.where(on, logit, -logit))
            chosen["log_prob"] = log_prob.new_zeros(state.num_graphs).index_add(0, graph, log_prob)
            chosen["edges"] = each.max()
            return Topology(edge_index[:, on], torch.ones(int(on.sum())))

        play = world.play(connect, questions, decoding)
        edges = int(chosen["edges"]) if edges is None else edges
        plays.append(play)
        probabilities.append(chosen["log_prob"].exp())
        if number + 1 == 1 << edges:
            break
    worth = [play.value.detach() for play in plays]
    _backward(-sum((p * value).mean() for p, value in zip(probabilities, worth)), controller)
    for play, p, value in zip(plays, probabilities, worth):  # so that their mean is the expected value
        play.value = len(plays) * p.detach() * value
    return plays
