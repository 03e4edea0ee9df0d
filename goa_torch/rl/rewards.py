"""What a round of a debate is worth, term by term (RUMAD, arXiv 2602.23864)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UserError, unknown
from ..nn.readout import elect
from ..topology.uncertainty import votes

if TYPE_CHECKING:
    from ..state import State

MEASURES = ("majority", "agents")


@dataclass(frozen=True)
class RewardConfig:
    """How much each term counts; the defaults are the published weights. What the terms measure is not published (?).

    Attributes:
        accuracy: 1 if the majority of the answers given is right (``measure: agents``: share of all agents that are).
        consensus: largest share of all agents that hold one answer.
        progress: gain in consensus over the round before.
        efficiency: share of the agents that were not called.
        improvement: gain in accuracy over the round before.
        sparsity: what is taken off for the messages read, as a share of all ordered pairs.
        tokens: what is taken off for every 1,000 tokens of the round (not in the paper).
        final_accuracy: 1 if the majority at the end is right.
        final_consensus: consensus at the end.
        final_efficiency: share of the possible calls after round 0 that were not made.
        final_improvement: 1, 0 or -1: whether the majority at the end is right, less whether it was at the start.
        measure: whose accuracy ``accuracy`` and ``improvement`` mean: the ``majority``'s, which is read out in the
            end, or that of the ``agents``.
        absorb: a round in which nobody is called ends the episode; whether its reward holds that of all rounds that
            would have followed, silent too. Otherwise silence would forgo the rewards of the rounds it saves.
        discount: of those rounds; the gamma of the training.
    """

    accuracy: float = 1.0
    consensus: float = 0.3
    progress: float = 0.1
    efficiency: float = 0.2
    improvement: float = 1.0
    sparsity: float = 0.1
    tokens: float = 0.0
    final_accuracy: float = 2.0
    final_consensus: float = 0.5
    final_efficiency: float = 0.3
    final_improvement: float = 0.2
    measure: str = "majority"
    absorb: bool = True
    discount: float = 0.99

    def __post_init__(self) -> None:
        if not 0 <= self.discount <= 1:
            raise UserError(f"reward: discount must lie in [0, 1], not {self.discount}")
        if self.measure not in MEASURES:
            raise unknown("measure", self.measure, MEASURES, "reward")

    def of(self, standing: Standing) -> float:
        """The accuracy that round terms mean."""
        return float(standing.right) if self.measure == "majority" else standing.accuracy


@dataclass(frozen=True, slots=True)
class Standing:
    """How a question stands: ``accuracy`` and ``consensus`` as shares of all agents, and whether the majority (of the
    answers given, ties drawn as in the vote readout) is right."""

    accuracy: float
    consensus: float
    right: bool


def standings(state: State) -> list[Standing]:
    """The standing of each question. Who abstains (unparsed, unfinished, failed) is wrong and agrees with nobody."""
    found = []
    for number, question in enumerate(state.questions):
        nodes = state.nodes_of(number)
        groups = votes(state, number, nodes)
        right = sum(len(group) for group in groups if question.is_correct(state.replies[group[0]].answer))
        won = elect(state, number, [(node, 1.0) for node in nodes])
        n = max(1, len(nodes))
        found.append(Standing(right / n, max(map(len, groups), default=0) / n,
                              bool(won) and question.is_correct(state.replies[won[0]].answer)))
    return found


def round_terms(config: RewardConfig, before: Standing, after: Standing, called: float, density: float, tokens: int
                ) -> dict[str, float]:
    """The terms of one round; their sum is its reward.

    Args:
        before, after: the standings around it.
        called: share of the agents that were called.
        density: messages read over all ordered pairs.
        tokens: prompt and completion tokens of the round.
    """
    return {
        "accuracy": config.accuracy * config.of(after),
        "consensus": config.consensus * after.consensus,
        "progress": config.progress * (after.consensus - before.consensus),
        "efficiency": config.efficiency * (1 - called),
        "improvement": config.improvement * (config.of(after) - config.of(before)),
        "sparsity": -config.sparsity * density,
        "tokens": -config.tokens * tokens / 1000,
    }


def final_terms(config: RewardConfig, first: Standing, last: Standing, called: float) -> dict[str, float]:
    """The terms at the end.

    Args:
        first, last: the standings after round 0 and at the end.
        called: calls after round 0 over all that were possible.
    """
    return {
        "final_accuracy": config.final_accuracy * last.right,
        "final_consensus": config.final_consensus * last.consensus,
        "final_efficiency": config.final_efficiency * (1 - called),
        "final_improvement": config.final_improvement * (float(last.right) - float(first.right)),
    }


def silent_rest(config: RewardConfig, last: Standing, rounds: int) -> float:
    """The discounted reward of ``rounds`` more rounds in which nobody is called, seen from the round before."""
    each = sum(round_terms(config, last, last, 0.0, 0.0, 0).values())
    return sum(config.discount**k * each for k in range(1, rounds + 1))
