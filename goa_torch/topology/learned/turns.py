"""Learned graphs in which agents speak in turn: drawn once for a run, then compiled into synchronous rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ...nn.edges import plain
from ...types import Topology
from ..graphs import generations
from .base import LearnedTopology, strongest

if TYPE_CHECKING:
    from ...state import State

#: ``(edge_index, round, purpose) -> [E]`` numbers in (0, 1), one for each pair (first, second) in ``edge_index``.
Lots = Callable[[Tensor, int, str], Tensor]
_NOTES, _PENALTY = "staged graph", "staged penalty"


class Turns(LearnedTopology):
    """A directed acyclic graph for each of ``turns`` rounds (*spatial* edges, within a round), and, with two ``kinds``
    of edges, *temporal* ones from the round before. Edges are on or off. While it is trained they are tried in drawn
    order and put in with their probability; one that would close a cycle is left out. Deployed are edges of p >
    ``threshold``, likelier ones first, at most k of each kind for a receiver.

    Whoever has no predecessor in the first round answers on its own; a temporal message is its sender's latest reply.
    """

    #: Rounds of the whole graph; kinds of edges: 1 spatial, 2 temporal ones too.
    turns, kinds = 1, 1

    def read(self, state: State, edge_index: Tensor, lots: Lots | None) -> Any:
        """What :meth:`scores`, :meth:`allowed` and :meth:`present` need to know about a run; ``lots`` in training."""
        raise TypeError(f"{type(self).__name__} does not say how edges are scored: override read() and scores()")

    def scores(self, about: Any, kind: int, turn: int) -> Tensor:
        """[E] the logit of each edge."""
        raise TypeError(f"{type(self).__name__} does not say how edges are scored: override read() and scores()")

    def allowed(self, about: Any, kind: int, turn: int) -> Tensor | None:
        """[E] which edges there may be; ``None`` for all."""
        return None

    def present(self, about: Any, turn: int) -> Tensor | None:
        """[n] who takes part in a round; ``None`` for all."""
        return None

    def graph_penalty(self, state: State) -> Tensor:
        """What training adds to its loss for the graphs of a batch; 0 unless a method has such a term."""
        return state.notes.get(_PENALTY, torch.zeros(()))

    # ------------------------------------------------------------------ a run

    def begin(self, state: State, lots: Lots | None = None) -> list[int]:
        """Decides on the graph of a run, drawn with ``lots`` or as deployed, and gives the nodes that answer first."""
        edge_index = self.candidates(state)
        about, graph = self.read(state, edge_index, lots), state.batch[edge_index[0]]
        stages: list[Tensor] = []
        log_prob = torch.zeros(state.num_graphs)
        first = torch.ones(state.num_nodes, dtype=torch.bool)
        for turn in range(1, self.turns + 1):
            on, told = self._chosen(about, 0, turn, edge_index, graph, lots)
            log_prob = log_prob.index_add(0, graph, told)
            spatial = edge_index[:, on]
            level = generations(spatial, state.num_nodes)
            temporal = edge_index[:, :0]
            if turn > 1 and self.kinds > 1:
                on, told = self._chosen(about, 1, turn, edge_index, graph, lots)
                log_prob = log_prob.index_add(0, graph, told)
                temporal = edge_index[:, on]
            heard = torch.cat([spatial, temporal], dim=1).unique(dim=1)
            if turn == 1:
                here = self.present(about, 1)
                first = level == 0 if here is None else (level == 0) & here
            last = int(level.max()) if level.numel() else 0
            stages += [heard[:, level[heard[1]] == now] for now in range(1 if turn == 1 else 0, last + 1)]
        state.notes[_NOTES] = (stages, log_prob)
        return first.nonzero().flatten().tolist()

    def _chosen(self, about: Any, kind: int, turn: int, edge_index: Tensor, graph: Tensor, lots: Lots | None
                ) -> tuple[Tensor, Tensor]:
        """[E] bool, which edges there are, and [E] the log-probability of what was decided about each."""
        logit = self.scores(about, kind, turn)
        allowed = self.allowed(about, kind, turn)
        allowed = torch.ones_like(logit, dtype=torch.bool) if allowed is None else allowed
        if lots is None:
            order, on = -logit.detach(), (logit.detach().sigmoid() > self.threshold) & allowed
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

    def _penalise(self, state: State, loss: Tensor) -> None:
        """Leaves a run's loss for :meth:`graph_penalty`."""
        state.notes[_PENALTY] = loss


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
    return isinstance(controller, Turns)
