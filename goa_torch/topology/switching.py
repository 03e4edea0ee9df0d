"""Rules that take turns ("Do We Need Complex Topology Control?", arXiv 2609.27150)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .. import randomness
from ..types import Topology

if TYPE_CHECKING:
    from ..state import State


class StageSwitching(nn.Module):
    """One rule up to and including round ``until``, another one from then on."""

    def __init__(self, early: nn.Module, late: nn.Module, until: int = 3) -> None:
        super().__init__()
        self.early = early
        self.late = late
        self.until = until

    def forward(self, state: State, round: int) -> Topology:
        return (self.early if round <= self.until else self.late)(state, round)

    def extra_repr(self) -> str:
        return f"until={self.until}"


class RandomSwitching(nn.Module):
    """Each round, each question draws one of the ``rules`` uniformly, from the stream (seed, question, round)."""

    def __init__(self, rules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.rules = nn.ModuleList(rules)

    def drawn(self, state: State, round: int) -> Tensor:
        """[B] which rule each question drew."""
        names = [randomness.stream(state.recorder.seed, question.task, question.id, "topology", "switch", round)
                 for question in state.questions]
        return torch.from_numpy((randomness.uniforms(names, 0) * len(self.rules)).astype("int64"))

    def forward(self, state: State, round: int) -> Topology:
        drawn = self.drawn(state, round)
        parts = []
        for number, rule in enumerate(self.rules):
            topology = rule(state, round)
            present = drawn[state.batch[topology.edge_index[0]]] == number
            parts.append((topology.edge_index[:, present], topology.edge_weight[present]))
        return Topology(torch.cat([e for e, _ in parts], dim=1), torch.cat([w for _, w in parts]))
