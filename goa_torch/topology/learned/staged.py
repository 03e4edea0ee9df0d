"""Published topologies in which agents speak in turn: directed acyclic graphs of edges that are on or off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ...nn.edges import plain
from ...types import Topology
from ..graphs import generations
from .base import strongest
from .edge_logits import EdgeLogits

if TYPE_CHECKING:
    from ...state import State

#: ``(edge_index, round, purpose) -> [E]`` numbers in (0, 1).
Lots = Callable[[Tensor, int, str], Tensor]
_NOTES = "staged graph"


class Swarm(EdgeLogits):
    r"""GPTSwarm's graph (Zhuge et al. 2024, arXiv 2402.16823): one logit for each possible edge,
    :math:`p_{ij} = \sigma(\theta_{ij})`, .5 at first. Edges are tried in drawn order and put in with their probability;
    one that would close a cycle is left out. Agents then speak once, in topological order. Deployed: edges of p >
    ``threshold``, likelier ones first, at most k of them for each receiver.

    Args:
        names: of the agents, one for each instance.
        spread: of the first logits; 0, as published.
        threshold: least probability of a deployed edge; ``k``: in-degree, unlimited as published.
    """

    #: Rounds of the whole graph; kinds of edges, whose logits are ``logit[kind]``.
    turns, kinds = 1, 1

    def __init__(self, names: Sequence[str], spread: float = 0.0, threshold: float = 0.5, k: int | None = None,
                 weights: str = "ones", policy: str = "bernoulli") -> None:
        super().__init__(names, spread, self.kinds, k=k, threshold=threshold, weights="ones", policy="bernoulli")

    def settings(self) -> dict[str, Any]:
        return {"spread": self.spread}

    def allowed(self, kind: int, edge_index: Tensor, row: Tensor) -> Tensor:
        """[E] which edges there may be."""
        return torch.ones(edge_index.size(1), dtype=torch.bool)

    # ------------------------------------------------------------------ a run

    def begin(self, state: State, lots: Lots | None = None) -> list[int]:
        """Decides on the graph of a run, drawn with ``lots`` or as deployed, and gives the nodes that answer first."""
        edge_index = self.candidates(state)
        row, graph = self.nodes(state), state.batch[edge_index[0]]
        stages: list[Tensor] = []
        log_prob = self.logit.new_zeros(state.num_graphs)
        first: list[int] = []
        for turn in range(1, self.turns + 1):
            on, told = self._chosen(0, turn, edge_index, row, graph, lots)
            log_prob = log_prob.index_add(0, graph, told)
            spatial = edge_index[:, on]
            level = generations(spatial, state.num_nodes)
            temporal = edge_index[:, :0]
            if turn > 1 and self.kinds > 1:
                on, told = self._chosen(1, turn, edge_index, row, graph, lots)
                log_prob = log_prob.index_add(0, graph, told)
                temporal = edge_index[:, on]
            heard = torch.cat([spatial, temporal], dim=1).unique(dim=1)
            if turn == 1:
                first = (level == 0).nonzero().flatten().tolist()
            last = int(level.max()) if level.numel() else 0
            stages += [heard[:, level[heard[1]] == now] for now in range(1 if turn == 1 else 0, last + 1)]
        state.notes[_NOTES] = (stages, log_prob)
        return first

    def _chosen(self, kind: int, turn: int, edge_index: Tensor, row: Tensor, graph: Tensor, lots: Lots | None
                ) -> tuple[Tensor, Tensor]:
        """[E] bool, which edges there are, and [E] the log-probability of what was decided about each."""
        logit = self.logit[kind, row[edge_index[1]], row[edge_index[0]]]
        allowed = self.allowed(kind, edge_index, row)
        if lots is None:
            order, on = -logit.detach(), logit.detach().sigmoid() > self.threshold
            on[on.clone()] = strongest(logit.detach()[on], edge_index[1, on], self.k)
        else:
            order = lots(edge_index, turn, f"order {kind}")
            on = lots(edge_index, turn, f"edges {kind}") < logit.detach().sigmoid()
        tried = allowed.clone()
        if kind == 0:  # what is heard of the last round cannot close a cycle
            tried &= _acyclic(edge_index, graph, order, on & allowed)
        decided = torch.nn.functional.logsigmoid(torch.where(on, logit, -logit))
        return on & tried, torch.where(tried, decided, torch.zeros_like(decided))

    def forward(self, state: State, round: int) -> Topology | None:
        if _NOTES not in state.notes:
            with torch.no_grad():
                self.begin(state)
        stages, log_prob = state.notes[_NOTES]
        if round > len(stages):
            return None
        edge_index = stages[round - 1]
        topology = plain(edge_index[:, ~state.done[state.batch[edge_index[0]]]])
        topology.log_prob = log_prob if round == 1 else torch.zeros_like(log_prob)
        return topology

    def draw_log_prob(self, state: State) -> Tensor:
        """[B] log-probability of the graph that :meth:`begin` drew."""
        return state.notes[_NOTES][1]


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

    def allowed(self, kind: int, edge_index: Tensor, row: Tensor) -> Tensor:
        return self.left[kind, row[edge_index[1]], row[edge_index[0]]]

    def after_step(self, step: int) -> None:
        """Prunes: of each kind of edge the least likely ``prune`` of those left."""
        if self.prune_every and step % self.prune_every == 0 and step // self.prune_every <= self.prunings:
            for kind in range(self.kinds):
                there = self.left[kind].nonzero()
                scores = self.logit.detach()[kind, there[:, 0], there[:, 1]]
                lowest = torch.sort(scores, stable=True).indices[: int(self.prune * len(there))]
                self.left[kind, there[lowest, 0], there[lowest, 1]] = False

    def penalty(self) -> Tensor:
        if not self.nuclear:
            return torch.zeros(())
        p = self.logit.sigmoid() * self.left
        return self.nuclear * sum(torch.linalg.matrix_norm(p[kind], "nuc") for kind in range(self.kinds))


def _acyclic(edge_index: Tensor, graph: Tensor, order: Tensor, on: Tensor) -> Tensor:
    """[E] which edges may be decided on when those that are ``on`` are put in by rising ``order``: not those that would
    close a cycle with the ones before."""
    sender, receiver = edge_index.numpy()
    may = np.ones(edge_index.size(1), dtype=bool)
    wanted = on.numpy()
    rank = np.argsort(order.numpy(), kind="stable")
    reaches: dict[int, dict[int, set[int]]] = {}
    for edge in rank.tolist():
        reach = reaches.setdefault(int(graph[edge]), {})
        start, end = int(sender[edge]), int(receiver[edge])
        if start in reach.get(end, ()):  # the receiver reaches the sender already
            may[edge] = False
        elif wanted[edge]:
            beyond = {end} | reach.get(end, set())
            for node in [start, *(node for node, ends in reach.items() if start in ends)]:
                reach.setdefault(node, set()).update(beyond)
    return torch.from_numpy(may)


def is_staged(controller: nn.Module) -> bool:
    """Whether agents speak in turn, over a graph that is decided once for each run."""
    return isinstance(controller, Swarm)
