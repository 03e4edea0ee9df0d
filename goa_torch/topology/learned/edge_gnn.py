"""Edges from a graph network that reads question, replies and cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import TransformerConv

from .base import LearnedTopology
from .features import NUMBERS, bags, reply_numbers

if TYPE_CHECKING:
    from ...state import State


class EdgeGNN(LearnedTopology):
    r"""Attention over the complete graph of a question's agents, then a directed bilinear form,

    .. math:: h = \mathrm{GNN}(x), \quad \ell_{ij} = \frac{(Q h_j) \cdot (K h_i)}{\sqrt d} + r(h_i) + b,

    for sender i and receiver j. A node's features x are numbers about its reply and hashed character n-grams of its
    reply, its card and the question: so the graph depends on what is asked and what is said, a permutation of the
    agents permutes it, and it applies to other agents and any number of them. Copies of an agent with equal replies
    cannot be told apart, and need not be.

    Layers are PyG's :class:`~torch_geometric.nn.TransformerConv` (arXiv 2009.03509), with residual connections.

    Args:
        hidden: width.
        layers: of attention.
        buckets: of hashed n-grams.
        k, threshold, weights: see :class:`~goa_torch.topology.learned.base.LearnedTopology`.
    """

    def __init__(self, hidden: int = 32, layers: int = 2, buckets: int = 4096, **deployed: Any) -> None:
        super().__init__(**deployed)
        self.hidden, self.buckets = hidden, buckets
        self.words = nn.EmbeddingBag(buckets, hidden, mode="mean")
        self.roles = nn.Linear(3 * hidden, hidden)
        self.numbers = nn.Linear(len(NUMBERS), hidden)
        self.convs = nn.ModuleList(TransformerConv(hidden, hidden // 4, heads=4) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.receive = nn.Linear(hidden, hidden, bias=False)
        self.send = nn.Linear(hidden, hidden, bias=False)
        self.rank = nn.Linear(hidden, 1)

    def settings(self) -> dict[str, Any]:
        return {"hidden": self.hidden, "layers": len(self.convs), "buckets": self.buckets}

    def nodes(self, state: State, round: int, edge_index: Tensor) -> Tensor:
        """[n, hidden] what the network makes of each node."""
        texts = [[reply.text or "" for reply in state.replies],
                 [str(state.agent_of(node).card) for node in range(state.num_nodes)]]
        said, card = (self.words(*bags(listed, self.buckets)) for listed in texts)
        asked = self.words(*bags([question.text for question in state.questions], self.buckets))[state.batch]
        h = self.roles(torch.cat([said, card, asked], dim=1)) + self.numbers(reply_numbers(state, round))
        for conv, norm in zip(self.convs, self.norms):
            h = h + conv(norm(h), edge_index).relu()
        return h

    def logits(self, state: State, round: int, edge_index: Tensor) -> Tensor:
        h = self.nodes(state, round, edge_index)
        sender, receiver = edge_index
        matched = (self.receive(h)[receiver] * self.send(h)[sender]).sum(1) / self.hidden**0.5
        return matched + self.rank(h)[sender, 0]
