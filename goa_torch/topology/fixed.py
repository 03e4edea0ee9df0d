"""Connect-modules without parameters whose edges do not depend on what is said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ..nn.edges import complete_edges, plain
from ..types import Topology

if TYPE_CHECKING:
    from ..state import State


class Complete(nn.Module):
    """Everybody hears everybody of the same question, all weights 1.

    Args:
        self_loops: whether an agent's own reply is among the messages it hears (Mixture-of-Agents).
    """

    def __init__(self, self_loops: bool = False) -> None:
        super().__init__()
        self.self_loops = self_loops

    def forward(self, state: State, round: int) -> Topology:
        edge_index = complete_edges(state.batch, self.self_loops)
        return plain(edge_index[:, state.kept[edge_index[0]] & state.kept[edge_index[1]]])

    def extra_repr(self) -> str:
        return f"self_loops={self.self_loops}"


class SelfLoops(nn.Module):
    """Everybody hears only itself: an agent that rereads its own reply."""

    def forward(self, state: State, round: int) -> Topology:
        nodes = torch.arange(state.num_nodes)
        return plain(torch.stack([nodes, nodes]))
