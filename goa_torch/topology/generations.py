"""Graphs whose nodes speak in turn, compiled into synchronous rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..types import Topology
from .graphs import generations

if TYPE_CHECKING:
    from ..state import State


class Generations(nn.Module):
    """A directed acyclic graph, one topological generation a round: in round g the nodes of generation g hear all of
    their predecessors, which have spoken in earlier rounds. Ends after the last generation.

    Args:
        graph: a connect-module that gives the same directed acyclic graph in every round.
    """

    def __init__(self, graph: nn.Module) -> None:
        super().__init__()
        self.graph = graph

    def levels(self, state: State) -> Tensor:
        """[n] generation of each node; those of generation 0 answer on their own."""
        return generations(self.graph(state, 1).edge_index, state.num_nodes)

    def sinks(self, state: State) -> Tensor:
        """[n] bool: nodes that nobody reads."""
        heard = torch.zeros(state.num_nodes, dtype=torch.bool)
        heard[self.graph(state, 1).edge_index[0]] = True
        return ~heard

    def forward(self, state: State, round: int) -> Topology | None:
        topology = self.graph(state, 1)
        level = generations(topology.edge_index, state.num_nodes)
        if level.numel() == 0 or round > int(level.max()):
            return None
        now = level[topology.edge_index[1]] == round
        return Topology(topology.edge_index[:, now], topology.edge_weight[now])
