"""Graph-of-Agents' connect-module: replies score each other, scores become directed weighted edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch_geometric.utils import degree, scatter

from ..nn.edges import complete_edges
from ..types import Topology

if TYPE_CHECKING:
    from ..nn.readout import TieBreak
    from ..state import State

Flow = Literal["both", "reversed", "source_to_target", "target_to_source"]
_DIRECTIONS: dict[str, tuple[str, ...]] = {
    "both": ("down", "up"), "reversed": ("up", "down"), "source_to_target": ("down",), "target_to_source": ("up",),
}


def share(weight: Tensor, receiver: Tensor, num_nodes: int) -> Tensor:
    r"""Each edge's part of what its receiver hears,

    .. math:: A_{ij} = w_{ij} / \sum_{i'} w_{i'j},

    or an equal part where a receiver's weights add up to 0 (or to less than the least normal number, whose inverse
    overflows). Differentiable, finite everywhere.

    Args:
        weight: [E] >= 0.
        receiver: [E] receiving node of each edge.
        num_nodes: n.
    """
    total = scatter(weight, receiver, dim=0, dim_size=num_nodes, reduce="sum")[receiver]
    count = degree(receiver, num_nodes, dtype=weight.dtype)[receiver]
    silent = total < torch.finfo(total.dtype).tiny
    return torch.where(silent, 1 / count.clamp_min(1), weight / torch.where(silent, torch.ones_like(total), total))


def relevance_topology(relevance: Tensor, batch: Tensor, kept: Tensor, order: Tensor, direction: str = "down",
                       ones: bool = False) -> Topology:
    r"""Edges from relevance. Nodes of a question are ranked by relevance S, high first; every pair of survivors is
    joined, from the higher to the lower (``down``: source to target) or back (``up``), with weight

    .. math:: w_{ij} = |\mathcal{N}(j)| \, A_{ij}, \quad A_{ij} = S_i / \sum_{i' \in \mathcal{N}(j)} S_{i'}

    for sender i and receiver j (Graph-of-Agents, arXiv 2604.17148). A is the paper's weight; times the number of
    neighbours, equal relevance gives weight 1, plain concatenation.

    Args:
        relevance: [n] S >= 0; differentiable.
        batch: [n] question of each node, ascending.
        kept: [n] bool, survivors.
        order: [n] breaks ties, smaller first.
        direction: ``down`` or ``up``.
        ones: weight 1 on every edge (the paper's ablation).
    """
    edge_index = complete_edges(batch)
    edge_index = edge_index[:, kept[edge_index[0]] & kept[edge_index[1]]]
    first, second = edge_index
    s_first, s_second = relevance.detach()[first], relevance.detach()[second]
    above = (s_first > s_second) | ((s_first == s_second) & (order[first] < order[second]))
    edge_index = edge_index[:, above if direction == "down" else ~above]
    sender, receiver = edge_index
    if ones:
        return Topology(edge_index, torch.ones_like(relevance[sender]))
    weight = share(relevance[sender], receiver, batch.numel())
    return Topology(edge_index, weight * degree(receiver, batch.numel(), dtype=weight.dtype)[receiver])


class Relevance(nn.Module):
    """Round by round, the edges of :func:`relevance_topology`; no parameters.

    Args:
        scoring: called once, before the first round, to fill ``state.relevance`` and ``state.kept``.
        flow: ``both`` is the paper's source to target, then target to source; ``reversed`` swaps them; the other two
            leave one out.
        ones: all weights 1.
        one_by_one: the released code's way back: sources are visited one after the other and read replies that
            already changed. Each visit is a round.
        only_top: with ``one_by_one``, only the top source is refined (the released max readout).
        tie_break: what goes before names among equally relevant nodes, as in
            :class:`~goa_torch.nn.readout.MaxReadout`.
    """

    def __init__(self, scoring: nn.Module, flow: Flow = "both", ones: bool = False, one_by_one: bool = False,
                 only_top: bool = False, tie_break: TieBreak | None = None) -> None:
        super().__init__()
        self.scoring = scoring
        self.flow = flow
        self.ones = ones
        self.one_by_one = one_by_one
        self.only_top = only_top
        self.tie_break = tie_break

    @property
    def directions(self) -> tuple[str, ...]:
        return _DIRECTIONS[self.flow]

    def visits(self, state: State) -> int:
        """How many rounds one pass up takes: 1, or with ``one_by_one`` one for each source there can be."""
        if not self.one_by_one:
            return 1
        return 1 if self.only_top else max(1, len(state.pool) - 1)  # not of this batch: rounds name random streams

    def schedule(self, state: State) -> list[tuple[str, int]]:
        """Direction and visit of each round."""
        return [(d, v) for d in self.directions for v in range(self.visits(state) if d == "up" else 1)]

    def forward(self, state: State, round: int) -> Topology | None:
        """The edges of ``round`` (from 1), or ``None`` when the pass is over."""
        if state.relevance is None:
            self.scoring(state)
        schedule = self.schedule(state)
        if round > len(schedule):
            return None
        direction, visit = schedule[round - 1]
        topology = relevance_topology(state.relevance, state.batch, state.kept, self.order(state), direction, self.ones)
        if direction == "up" and self.one_by_one:
            topology = self._visit(state, topology, visit)
        return topology

    def order(self, state: State) -> Tensor:
        """[n] what breaks ties of relevance: ``tie_break``, then names."""
        order = state.order
        if self.tie_break is None:
            return order
        ranked = sorted(range(state.num_nodes), key=lambda v: (self.tie_break(state, v), int(order[v])))
        order = order.clone()
        order[torch.tensor(ranked, dtype=torch.long)] = torch.arange(state.num_nodes)
        return order

    def _visit(self, state: State, topology: Topology, visit: int) -> Topology:
        """Only the edges into the ``visit``-th source of each question, by node order (or into its top source)."""
        receiver = topology.edge_index[1]
        received = degree(receiver, state.num_nodes, dtype=torch.long)
        order = state.order
        wanted = torch.zeros(state.num_nodes, dtype=torch.bool)
        for question in range(state.num_graphs):
            sources = [v for v in state.nodes_of(question) if received[v] > 0]
            if self.only_top:  # the top source hears everybody else
                sources = sorted(sources, key=lambda v: -int(received[v]))[:1]
            else:
                sources.sort(key=lambda v: int(order[v]))
            if visit < len(sources):
                wanted[sources[visit]] = True
        present = wanted[receiver]
        return Topology(topology.edge_index[:, present], topology.edge_weight[present])

    def extra_repr(self) -> str:
        return f"flow={self.flow!r}, ones={self.ones}, one_by_one={self.one_by_one}"
