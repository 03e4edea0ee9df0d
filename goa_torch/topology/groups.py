"""Agents in groups that talk among themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from ..nn.edges import complete_edges, plain
from ..nn.summaries import GROUPS
from .positions import Positions

if TYPE_CHECKING:
    from ..state import State
    from ..types import Topology


class Groups(nn.Module):
    """Stages of ``per_stage`` rounds. Within a stage everybody hears everybody of its own group; in the first round of
    every later stage, everybody hears the other groups instead.

    Neighbouring positions share a group; positions follow the listing of the agents.

    Args:
        count: number of groups, of sizes that differ by at most one.
        per_stage: rounds of a stage; the independent answers are the first round of the first.
    """

    def __init__(self, count: int, per_stage: int) -> None:
        super().__init__()
        self.count = count
        self.per_stage = per_stage

    def group(self, state: State) -> Tensor:
        """[n] group of each node within its question, 0 .. count - 1."""
        places = Positions.by_listing(state)
        return places.position * self.count // places.size.clamp_min(1)

    def crosses(self, round: int) -> bool:
        """Whether groups hear each other in ``round``."""
        return round % self.per_stage == 0

    def forward(self, state: State, round: int) -> Topology:
        group = self.group(state)
        state.notes[GROUPS] = group if self.crosses(round) else None
        edge_index = complete_edges(state.batch)
        same = group[edge_index[0]] == group[edge_index[1]]
        return plain(edge_index[:, ~same if self.crosses(round) else same])

    def extra_repr(self) -> str:
        return f"count={self.count}, per_stage={self.per_stage}"

