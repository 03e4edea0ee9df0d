"""Edges of a batch of graphs: building, cleaning, and the one conversion between edges and matrices."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_dense_adj

from ..types import Topology


def complete_edges(batch: Tensor, self_loops: bool = False) -> Tensor:
    """Every ordered pair of nodes of the same graph, [2, E], sorted by sender and receiver.

    Args:
        batch: [n] graph of each node, ascending.
        self_loops: whether a node is its own neighbour.
    """
    sizes = torch.bincount(batch) if batch.numel() else batch.new_zeros(0)
    starts = (sizes.cumsum(0) - sizes)[batch]  # [n] first node of the sender's graph
    degree = sizes[batch]  # [n]
    sender = torch.repeat_interleave(torch.arange(batch.numel(), device=batch.device), degree)
    first = torch.repeat_interleave(degree.cumsum(0) - degree, degree)  # [E] where the sender's edges begin
    offset = torch.arange(sender.numel(), device=batch.device) - first
    edge_index = torch.stack([sender, starts[sender] + offset])
    return edge_index if self_loops else edge_index[:, edge_index[0] != edge_index[1]]


def plain(edge_index: Tensor) -> Topology:
    """``edge_index`` with weight 1 on every edge: plain concatenation."""
    return Topology(edge_index, torch.ones(edge_index.size(1)))


def merge_duplicates(topology: Topology, num_nodes: int) -> Topology:
    """Duplicate edges become one whose weight is their sum, as in the adjacency matrix; order is by sender, receiver.

    Differentiable in ``edge_weight``.
    """
    edge_index, edge_weight = coalesce(topology.edge_index, topology.edge_weight, num_nodes, reduce="sum")
    return Topology(edge_index, edge_weight, topology.active, topology.log_prob)


def to_dense(topology: Topology, batch: Tensor, num_graphs: int | None = None) -> Tensor:
    """W [B, N, N] with ``W[b, receiver, sender]``, N the size of the largest graph; missing edges are 0. B is
    ``num_graphs``, by default the last graph that has a node.

    PyG's ``to_dense_adj`` gives [sender, receiver]: this is the only place where it is turned round.
    """
    if batch.numel() == 0:
        return topology.edge_weight.new_zeros(num_graphs or 0, 0, 0)
    return to_dense_adj(topology.edge_index, batch, topology.edge_weight, batch_size=num_graphs).transpose(1, 2)


def from_dense(weights: Tensor, batch: Tensor) -> Topology:
    """The inverse of :func:`to_dense`; zeros are no edges.

    Args:
        weights: [B, N, N], ``weights[b, receiver, sender]``.
        batch: [n] graph of each node, ascending.
    """
    edge_index = complete_edges(batch, self_loops=True)
    sizes = torch.bincount(batch, minlength=weights.size(0))
    start = sizes.cumsum(0) - sizes
    graph = batch[edge_index[0]]
    sender, receiver = edge_index - start[graph]
    edge_weight = weights[graph, receiver, sender]
    present = edge_weight != 0
    return Topology(edge_index[:, present], edge_weight[present])


def check_topology(topology: Topology, batch: Tensor) -> None:
    """Raises ``ValueError`` unless the topology is one of this batch: ids, shapes, finite weights >= 0, no edge that
    joins two graphs."""
    edge_index, edge_weight, n = topology.edge_index, topology.edge_weight, batch.numel()
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or edge_index.dtype != torch.long:
        raise ValueError(f"edge_index must be long [2, E], not {edge_index.dtype} {list(edge_index.shape)}")
    if edge_weight.shape != edge_index.shape[1:]:
        raise ValueError(f"edge_weight {list(edge_weight.shape)} does not match edge_index {list(edge_index.shape)}: "
                         "give one weight for each edge")
    strange = edge_index[(edge_index < 0) | (edge_index >= n)]
    if strange.numel():
        raise ValueError(f"edge_index names node {int(strange[0])}, but the batch has nodes 0 to {n - 1}")
    weight = edge_weight.detach()
    if not bool(((weight >= 0) & weight.isfinite()).all()):
        raise ValueError("edge_weight must be a finite number >= 0 everywhere")
    if edge_index.numel() and not torch.equal(batch[edge_index[0]], batch[edge_index[1]]):
        raise ValueError("an edge joins two questions; every edge must stay within its graph")
