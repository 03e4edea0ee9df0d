"""Hear only who says something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ..types import Topology
from .uncertainty import votes

if TYPE_CHECKING:
    from ..state import State


class Disagreement(nn.Module):
    """Each receiver hears one peer for each distinct answer that is not its own, the first by name; who gave no answer
    is heard by nobody and hears one peer for each answer. Ends when nobody disagrees any more."""

    def forward(self, state: State, round: int) -> Topology | None:
        order = state.order
        edges: list[tuple[int, int]] = []
        for question in (~state.done).nonzero().flatten().tolist():
            groups = votes(state, question)
            for node in state.nodes_of(question):
                edges += [(min(group, key=lambda v: int(order[v])), node) for group in groups if node not in group]
        if not edges:
            return None
        edge_index = torch.tensor(edges, dtype=torch.long).t().contiguous()
        return Topology(edge_index, torch.ones(edge_index.size(1)))
