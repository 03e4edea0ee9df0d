"""From a matrix of weights to a topology: who is called again, and whom it reads (RUMAD, arXiv 2602.23864)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import UserError
from ..nn.edges import from_dense
from ..types import Topology

if TYPE_CHECKING:
    from ..state import State

#: How loud a message of each tier is: what :class:`goa_torch.nn.tiers.TierConv` calls high, moderate and low.
CRITICAL, REFERENCE, BACKGROUND = 1.0, 0.5, 0.25
WEIGHTS = ("tiers", "raw", "ones")


@dataclass(frozen=True)
class GateConfig:
    """The two thresholds.

    Attributes:
        critical, reference, background: a message whose weight is above them belongs to that tier, at most
            ``background`` it is not seen.
        activation: an agent answers again only if others weigh at least as much, on average, as it does itself;
            otherwise everybody who sees a message does.
        weights: what a visible edge weighs: ``tiers`` (1, .5 or .25 by tier), ``raw`` (the weight itself) or ``ones``.
        most: messages an agent reads at most, those of largest weight (ties: the first places); ``None``, as published,
            for no limit. Who is called is decided before.
    """

    critical: float = 0.40
    reference: float = 0.25
    background: float = 0.10
    activation: bool = True
    weights: str = "tiers"
    most: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.background <= self.reference <= self.critical < 1:
            raise UserError(f"gate: tiers must satisfy 0 <= background <= reference <= critical < 1, not "
                            f"{self.background}, {self.reference}, {self.critical}")
        if self.weights not in WEIGHTS:
            raise UserError(f"gate: weights = {self.weights!r}; choose one of {', '.join(WEIGHTS)}")
        if self.most is not None and (isinstance(self.most, bool) or self.most < 1):
            raise UserError(f"gate: most must be at least 1, or null for no limit, not {self.most!r}")


@dataclass(slots=True)
class Gated:
    """What a gate makes of weights [B, N, N], ``[receiver, sender]``.

    Attributes:
        edges: [B, N, N] weight of each message that is read, 0 for none; the diagonal is 0.
        called: [B, N] who answers again.
        visible: [B] number of weights above the background threshold, whether or not the receiver is called.
    """

    edges: Tensor
    called: Tensor
    visible: Tensor

    @property
    def silent(self) -> Tensor:
        """[B] questions in which nobody is called: a policy without chance would be silent for ever."""
        return ~self.called.any(dim=1)

    @property
    def density(self) -> Tensor:
        """[B] messages that are read over all ordered pairs."""
        n = self.edges.size(1)
        return (self.edges > 0).sum(dim=(1, 2)).double() / max(1, n * (n - 1))

    def topology(self, batch: Tensor) -> Topology:
        """The topology of a batch of graphs; ``batch`` [n] is the graph of each node, ascending."""
        topology = from_dense(self.edges, batch)
        topology.active = self.called[present(batch, *self.called.shape)]
        return topology


def present(batch: Tensor, graphs: int, most: int) -> Tensor:
    """[B, N] which places of a padded batch hold a node."""
    sizes = torch.bincount(batch, minlength=graphs)
    return torch.arange(most) < sizes[:, None]


def speaking(state: State, most: int | None = None) -> Tensor:
    """[B, N] which places of a padded batch hold a node that has something to say."""
    here = present(state.batch, state.num_graphs, most or largest(state))
    said = torch.zeros_like(here)
    said[here] = torch.tensor([not reply.failed for reply in state.replies], dtype=torch.bool)
    return said


def largest(state: State) -> int:
    """N, the number of nodes of the largest graph."""
    return int(torch.bincount(state.batch, minlength=1).max()) if state.num_nodes else 0


def gate(weights: Tensor, here: Tensor, speaks: Tensor, config: GateConfig | None = None) -> Gated:
    r"""Who is called, and what it reads,

    .. math:: \mathrm{called}_i = \Big[ \tfrac{1}{N-1} \textstyle\sum_{j \neq i} w_{ij} \ge w_{ii} \Big]
              \wedge \exists j \neq i : w_{ij} > w_\mathrm{background}.

    Args:
        weights: [B, N, N] in [0, 1], ``[receiver, sender]``, self weights on the diagonal.
        here: [B, N] which places hold a node.
        speaks: [B, N] which nodes have something to say; nobody hears the others.
    """
    config = config or GateConfig()
    n = weights.size(1)
    off = ~torch.eye(n, dtype=torch.bool)
    others = off & here[:, :, None] & here[:, None, :]
    visible = others & (weights > config.background)
    tiers = torch.where(weights > config.critical, CRITICAL,
                        torch.where(weights > config.reference, REFERENCE, BACKGROUND))
    loud = {"tiers": tiers, "raw": weights, "ones": torch.ones_like(weights)}[config.weights]
    audible = visible & speaks[:, None, :]
    called = audible.any(dim=2)
    if config.activation:
        mean = (weights * others).sum(dim=2) / others.sum(dim=2).clamp_min(1)
        called = called & (mean >= weights.diagonal(dim1=1, dim2=2))
    if config.most is not None and config.most < n:
        order = torch.sort(weights.masked_fill(~audible, -1), dim=2, descending=True, stable=True).indices
        chosen = torch.zeros_like(audible).scatter_(2, order[..., : config.most], True)
        audible = audible & chosen
    edges = torch.where(audible & called[:, :, None], loud, torch.zeros_like(weights))
    return Gated(edges, called, visible.sum(dim=(1, 2)))
