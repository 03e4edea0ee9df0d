"""Published topologies in which agents speak in turn, over one table of logits for all questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .edge_logits import EdgeLogits
from .turns import Lots, Turns

if TYPE_CHECKING:
    from ...state import State


class Swarm(Turns, EdgeLogits):
    r"""GPTSwarm's graph (Zhuge et al. 2024, arXiv 2402.16823): one logit for each possible edge,
    :math:`p_{ij} = \sigma(\theta_{ij})`, .5 at first. Edges are tried in drawn order and put in with their probability;
    one that would close a cycle is left out. Agents then speak once, in topological order. Deployed: edges of p >
    ``threshold``, likelier ones first, at most k of them for each receiver.

    Args:
        names: of the agents, one for each instance.
        spread: of the first logits; 0, as published.
        threshold: least probability of a deployed edge; ``k``: in-degree, unlimited as published.
    """

    def __init__(self, names: Sequence[str], spread: float = 0.0, threshold: float = 0.5, k: int | None = None,
                 weights: str = "ones", policy: str = "bernoulli") -> None:
        EdgeLogits.__init__(self, names, spread, self.kinds, k=k, threshold=threshold, policy="bernoulli")

    def settings(self) -> dict[str, Any]:
        return {"spread": self.spread}

    def table(self, kind: int, turn: int) -> int:
        """Which of the tables of logits the edges of a kind have in a round."""
        return kind

    def read(self, state: State, edge_index: Tensor, lots: Lots | None) -> tuple[Tensor, Tensor, Tensor]:
        row = self.nodes(state)
        return row[edge_index[1]], row[edge_index[0]], row  # [receiver, sender] of each edge, and all nodes

    def scores(self, about: tuple[Tensor, Tensor, Tensor], kind: int, turn: int) -> Tensor:
        return self.logit[self.table(kind, turn), about[0], about[1]]


class Pruned(Swarm):
    r"""AgentPrune's graph (Zhang et al. 2024, arXiv 2410.02506): logits of spatial edges (within a round, acyclic) and
    of temporal ones (from the round before), trained together; now and then the least likely of those that are left
    are pruned for good,

    .. math:: \max_\theta \mathbb{E}[u(G)] - \lambda (\|\sigma(\theta^S)\|_* + \|\sigma(\theta^T)\|_*).

    Readings (?): the nuclear norm stands in the paper and not in its code: ``nuclear`` = 0 leaves it out; a temporal
    message is its sender's latest reply; deployed are edges that are left with p > ``threshold``.

    Args:
        names: of the agents, one for each instance.
        turns: rounds.
        prune_every: steps between two prunings; ``prune`` is the share of edges left that each takes, ``prunings``
            how many there are.
        nuclear: weight of the nuclear norms.
    """

    kinds = 2

    def __init__(self, names: Sequence[str], spread: float = 0.0, turns: int = 2, prune: float = 0.25,
                 prune_every: int = 5, prunings: int = 2, nuclear: float = 0.0, **deployed: Any) -> None:
        super().__init__(names, spread, **deployed)
        self.turns, self.prune, self.prune_every = turns, prune, prune_every
        self.prunings, self.nuclear = prunings, nuclear
        left = torch.ones_like(self.logit, dtype=torch.bool)
        self.register_buffer("left", left & ~torch.eye(left.size(1), dtype=torch.bool))

    def settings(self) -> dict[str, Any]:
        return {"spread": self.spread, "turns": self.turns, "prune": self.prune, "prune_every": self.prune_every,
                "prunings": self.prunings, "nuclear": self.nuclear}

    def allowed(self, about: tuple[Tensor, Tensor, Tensor], kind: int, turn: int) -> Tensor:
        return self.left[self.table(kind, turn), about[0], about[1]]

    def after_step(self, step: int) -> None:
        """Prunes: of each kind of edge the least likely ``prune`` of those left."""
        if self.prune_every and step % self.prune_every == 0 and step // self.prune_every <= self.prunings:
            self.left &= ~least_likely(self.logit.detach(), self.left, self.prune)

    def penalty(self) -> Tensor:
        if not self.nuclear:
            return torch.zeros(())
        p = self.logit.sigmoid() * self.left
        return self.nuclear * sum(torch.linalg.matrix_norm(p[kind], "nuc") for kind in range(self.kinds))


def least_likely(logit: Tensor, left: Tensor, share: float) -> Tensor:
    """[tables, N, N] bool: of each table the ``share`` of the edges ``left`` that have the smallest logits; ties go to
    the first."""
    lowest = torch.zeros_like(left)
    for table in range(left.size(0)):
        there = left[table].nonzero()
        order = torch.sort(logit[table, there[:, 0], there[:, 1]], stable=True).indices
        gone = there[order[: int(share * len(there))]]
        lowest[table, gone[:, 0], gone[:, 1]] = True
    return lowest
