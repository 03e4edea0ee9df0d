"""Edges that weigh the probability that their sender is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .base import LearnedTopology
from .features import NUMBERS, bags, reply_numbers

if TYPE_CHECKING:
    from ...state import State


class Reliability(LearnedTopology):
    r"""The control for all learned topologies: a sender is heard by how likely its reply is right, whoever hears it,

    .. math:: \ell_{ij} = \hat\ell_i, \quad \sigma(\hat\ell_i) \approx p(\text{reply } i \text{ is right}),

    a logistic regression on numbers about the reply and on its agent's card, fitted to right and wrong replies of
    training questions (:meth:`loss`). No gradient of a language model, no reward of a graph.

    Args:
        buckets: of the cards' hashed n-grams.
        k, threshold, weights: see :class:`~goa_torch.topology.learned.base.LearnedTopology`.
    """

    def __init__(self, buckets: int = 512, spread: float = 0.01, **deployed: Any) -> None:
        super().__init__(**deployed)
        self.buckets, self.spread = buckets, spread
        self.card = nn.EmbeddingBag(buckets, 1, mode="mean")
        self.numbers = nn.Linear(len(NUMBERS), 1)
        for weight in (self.card.weight, self.numbers.weight):
            nn.init.normal_(weight, std=spread)

    def settings(self) -> dict[str, Any]:
        return {"buckets": self.buckets, "spread": self.spread}

    def nodes(self, state: State, round: int) -> Tensor:
        """[n] the logit of being right."""
        cards = [str(state.agent_of(node).card) for node in range(state.num_nodes)]
        return self.numbers(reply_numbers(state, round))[:, 0] + self.card(*bags(cards, self.buckets))[:, 0]

    def logits(self, state: State, round: int, edge_index: Tensor) -> Tensor:
        return self.nodes(state, round)[edge_index[0]]

    def loss(self, state: State, round: int, right: Sequence[bool]) -> Tensor:
        """Cross-entropy of whether each node's reply is right."""
        wanted = torch.tensor(right, dtype=torch.float32)
        return nn.functional.binary_cross_entropy_with_logits(self.nodes(state, round), wanted)
