"""Stop-modules: is another round worth its tokens?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from ..state import State


class FixedRounds(nn.Module):
    """Stops after ``rounds`` rounds of talking (0: independent answers only); ``None`` leaves it to the connect-module,
    which ends a run by returning no topology."""

    def __init__(self, rounds: int | None) -> None:
        super().__init__()
        self.rounds = rounds

    def forward(self, state: State, round: int) -> Tensor:
        """[B] bool: questions that are finished before ``round`` (from 1) begins."""
        over = self.rounds is not None and round > self.rounds
        return torch.full((state.num_graphs,), over, dtype=torch.bool)

    def extra_repr(self) -> str:
        return f"rounds={self.rounds}"
