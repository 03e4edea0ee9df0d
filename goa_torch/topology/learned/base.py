"""What learned topologies have in common: a logit for every edge there could be, and how a graph is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.utils import softmax

from ...errors import UserError
from ...nn.edges import complete_edges
from ...types import Topology

if TYPE_CHECKING:
    from ...state import State

WEIGHTS, POLICIES = ("ones", "soft"), ("top_k", "bernoulli")


class LearnedTopology(nn.Module):
    r"""A connect-module that gives every possible edge a logit :math:`\ell_{ij}`.

    Deployed, every receiver hears the ``k`` senders of largest logit (ties go by name), and each of them costs its
    tokens. While it is trained, edges are drawn, or all of them are heard as loudly as they are likely:

    - policy ``top_k`` trains what is deployed: every receiver draws k senders without replacement with odds
      :math:`e^{\ell_{ij}}` (Plackett-Luce), or all weigh :math:`w_{ij} = k \, \mathrm{softmax}_i(\ell_{ij})`;
    - policy ``bernoulli``, that of the published methods: each edge is on with probability :math:`\sigma(\ell_{ij})` or
      weighs :math:`w_{ij} = 2 \sigma(\ell_{ij})`, which is 1, plain concatenation, at logit 0. How loud an edge is then
      says little about which ones are best, if only k may stay.

    Args:
        k: in-degree when deployed; ``None`` for no limit.
        threshold: least probability :math:`\sigma(\ell_{ij})` of an edge that is kept when deployed.
        weights: of deployed edges: ``ones``, or ``soft`` (w as in training).
        policy: ``top_k``, or ``bernoulli`` (which it is without a k).
    """

    def __init__(self, k: int | None = 2, threshold: float = 0.0, weights: str = "ones", policy: str = "top_k"
                 ) -> None:
        super().__init__()
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise UserError(f"{type(self).__name__}: k must be a whole number of at least 1, or None, not {k!r}")
        if not 0 <= threshold <= 1:
            raise UserError(f"{type(self).__name__}: threshold is a probability, not {threshold!r}")
        if weights not in WEIGHTS:
            raise UserError(f"{type(self).__name__}: weights = {weights!r}; choose one of {', '.join(WEIGHTS)}")
        if policy not in POLICIES:
            raise UserError(f"{type(self).__name__}: policy = {policy!r}; choose one of {', '.join(POLICIES)}")
        self.k, self.threshold, self.weights = k, threshold, weights
        self.policy = "bernoulli" if k is None else policy

    @classmethod
    def for_agents(cls, names: Sequence[str], seed: int = 0, **settings: Any) -> LearnedTopology:
        """An untrained one for a pool of agents ``names``; ``seed`` names its first weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(**settings)

    def settings(self) -> dict[str, Any]:
        """What :meth:`for_agents` needs beside names to make this module, how it is deployed left out; JSON-able."""
        return {}

    def deployment(self) -> dict[str, Any]:
        """How this module is deployed: the rest of what :meth:`for_agents` takes; JSON-able."""
        return {"k": self.k, "threshold": self.threshold, "weights": self.weights, "policy": self.policy}

    def candidates(self, state: State) -> Tensor:
        """Edges there could be, [2, E]: between different nodes of a question that goes on, both taking part."""
        edge_index = complete_edges(state.batch)
        sender, receiver = edge_index
        there = state.kept[sender] & state.kept[receiver] & ~state.done[state.batch[sender]]
        return edge_index[:, there]

    def logits(self, state: State, round: int, edge_index: Tensor) -> Tensor:
        """[E] the logit of each edge."""
        raise TypeError(f"{type(self).__name__} does not say how edges are scored: override logits()")

    def after_step(self, step: int) -> None:
        """Told after each step of training; for schedules."""

    def penalty(self) -> Tensor:
        """What training adds to its loss; 0 unless a method has such a term."""
        return torch.zeros(())

    @torch.no_grad()
    def forward(self, state: State, round: int) -> Topology:
        edge_index = self.candidates(state)
        logit = self.logits(state, round, edge_index)
        keep = logit.sigmoid() >= self.threshold
        keep[keep.clone()] = strongest(logit[keep], edge_index[1, keep], self.k)
        weight = self.loudness(logit, edge_index[1])[keep] if self.weights == "soft" else torch.ones(int(keep.sum()))
        return Topology(edge_index[:, keep], weight)

    def loudness(self, logit: Tensor, receiver: Tensor) -> Tensor:
        """[E] the weights of soft edges."""
        return 2 * logit.sigmoid() if self.policy == "bernoulli" else self.k * softmax(logit, receiver)

    def extra_repr(self) -> str:
        return f"k={self.k}, threshold={self.threshold:g}, weights={self.weights!r}, policy={self.policy!r}"


def strongest(score: Tensor, receiver: Tensor, k: int | None) -> Tensor:
    """[E] bool: the ``k`` edges of largest score at each receiver; ties go to the edge listed first."""
    if k is None or not score.numel():
        return torch.ones_like(score, dtype=torch.bool)
    order = torch.sort(-score, stable=True).indices
    order = order[torch.sort(receiver[order], stable=True).indices]  # by receiver, then by falling score
    sorted_receiver = receiver[order]
    count = torch.bincount(sorted_receiver)
    first = (count.cumsum(0) - count)[sorted_receiver]
    keep = torch.empty_like(score, dtype=torch.bool)
    keep[order] = torch.arange(score.numel(), device=score.device) - first < k
    return keep


def logit_of(probability: float) -> float:
    """The logarithm of the odds."""
    return math.log(probability / (1 - probability))
