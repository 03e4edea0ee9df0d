"""What each receiver hears: PyG aggregation that ranks neighbours instead of adding them up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing

from ..types import Topology
from .edges import merge_duplicates

#: For each receiver, its senders and their weights, loudest first.
Inbox = list[list[tuple[int, float]]]


class RankedMessagePassing(MessagePassing):
    r"""Message passing whose messages are node ids and whose aggregation ranks them.

    .. math:: \mathrm{inbox}(j) = \mathrm{sort}_{w_{ij} \downarrow} \{ (i, w_{ij}) : i \in \mathcal{N}(j), w_{ij} > 0 \}

    Ids travel through :meth:`propagate`; what a receiver does with its inbox is the layer's :meth:`update`. Duplicate
    edges are one edge of the summed weight, an edge of weight 0 is no edge, ties are broken by ``order``.
    """

    def __init__(self) -> None:
        super().__init__(aggr=None, flow="source_to_target")

    def inbox(self, topology: Topology, order: Tensor, num_receivers: int | None = None) -> Inbox:
        """The inbox of each of ``num_receivers`` nodes (by default as many as there are senders).

        Args:
            topology: edges from senders to receivers; bipartite where ``num_receivers`` is given.
            order: [n] rank of each sender, smaller first among equal weights.
        """
        n = order.numel()
        receivers = n if num_receivers is None else num_receivers
        merged = merge_duplicates(topology, max(n, receivers))
        audible = merged.edge_weight.detach() > 0
        edge_index, weight = merged.edge_index[:, audible], merged.edge_weight.detach()[audible].double()
        ids = torch.stack([torch.arange(n), order]).t().double()  # [n, 2]; exact up to 2**53 nodes
        return self.propagate(edge_index, size=(n, receivers), ids=(ids, None), edge_weight=weight)

    def message(self, ids_j, edge_weight):
        return torch.cat([ids_j, edge_weight.view(-1, 1)], dim=1)  # [E, 3]: sender, its order, weight

    def aggregate(self, inputs, index, dim_size):
        inboxes: Inbox = [[] for _ in range(dim_size)]
        rows = zip(index.tolist(), inputs.tolist())
        for receiver, (sender, _, weight) in sorted(rows, key=lambda row: (row[0], -row[1][2], row[1][1])):
            inboxes[receiver].append((int(sender), weight))
        return inboxes
