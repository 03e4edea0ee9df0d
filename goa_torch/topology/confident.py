"""Everybody hears everybody, surer agents more loudly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn

from ..types import Topology
from .fixed import Complete
from .uncertainty import Source, uncertainty

if TYPE_CHECKING:
    from ..state import State

#: Nobody is surer than this, in the units of the source: 1/u stays finite.
LEAST = 1e-3


def confidence_levels(unsure: Sequence[float]) -> list[int]:
    r"""Confidence of each of n agents as a whole number from 1 to 10 that is 5 in the mean, from their uncertainties
    (DebUnc, arXiv 2407.06426, as in its code, which has n = 3),

    .. math:: s_i = \mathrm{round} \left( \mathrm{clip} \left( \frac{1 / u_i}{\sum_j 1 / u_j} (5 n - 1) + \frac1n,
              1, 10 \right) \right) .

    Where nobody's uncertainty is known (infinite), all are 5.
    """
    sure = [1 / max(u, LEAST) for u in unsure]
    total = math.fsum(sure)
    if total == 0:
        return [5] * len(sure)
    n = len(sure)
    return [round(min(10.0, max(1.0, one / total * (5 * n - 1) + 1 / n))) for one in sure]


class Confident(nn.Module):
    """The complete graph, weighted by the senders' confidence in their latest reply.

    Args:
        source: where uncertainty comes from (:func:`goa_torch.topology.uncertainty.uncertainty`).
        scale: ``levels``: whole numbers from 1 to 10 (:func:`confidence_levels`); ``mean``: 1/u, divided by its mean
            over what the receiver hears.
    """

    def __init__(self, source: Source = "tokens", scale: Literal["levels", "mean"] = "levels") -> None:
        super().__init__()
        self.everybody = Complete()
        self.source = source
        self.scale = scale

    def forward(self, state: State, round: int) -> Topology:
        sender, receiver = self.everybody(state, round).edge_index
        unsure = uncertainty(state, self.source)
        if self.scale == "levels":
            level = torch.zeros(state.num_nodes)
            for question in range(state.num_graphs):
                nodes = state.nodes_of(question)
                level[nodes] = torch.tensor(confidence_levels(unsure[nodes].tolist()), dtype=level.dtype)
            weight = level[sender]
        else:
            sure = 1 / unsure.clamp_min(LEAST)[sender]
            total = sure.new_zeros(state.num_nodes).index_add(0, receiver, sure)[receiver]
            count = torch.bincount(receiver, minlength=state.num_nodes)[receiver]
            weight = torch.where(total > 0, sure * count / total.clamp_min(1e-300), torch.ones_like(sure)).float()
        return Topology(torch.stack([sender, receiver]), weight)

    def extra_repr(self) -> str:
        return f"source={self.source!r}, scale={self.scale!r}"
