"""Agent graphs as a sparse matrix, from and to PyG, NetworkX, SciPy and recorded traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ..errors import UserError

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


@dataclass(frozen=True, slots=True, eq=False)
class AgentGraph:
    """Who hears whom, and how loudly.

    Attributes:
        weights: [n, n] CSR, ``weights[receiver, sender]`` > 0; what is not stored is no edge. The diagonal holds the
            weight that agents give to their own reply.
        names: of the agents; empty for numbers.
    """

    weights: sparse.csr_array
    names: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.weights.shape[0]

    @property
    def num_edges(self) -> int:
        """Directed edges between different agents."""
        return self.weights.nnz - int(np.count_nonzero(self.weights.diagonal()))

    @property
    def symmetric(self) -> bool:
        """Whether every edge has a reverse of the same weight."""
        difference = abs(self.weights - self.weights.T)
        return difference.nnz == 0 or difference.max() <= 1e-12 * self.weights.max()

    def without_loops(self) -> sparse.csr_array:
        """The weights between different agents."""
        weights = self.weights.tolil() if self.n == 0 else self.weights.copy()
        if self.n:
            weights.setdiag(0)
        weights = sparse.csr_array(weights)
        weights.eliminate_zeros()
        return weights

    def adjacency(self) -> sparse.csr_array:
        """Ones where there are edges between different agents."""
        weights = self.without_loops()
        return sparse.csr_array((np.ones(weights.nnz), weights.indices, weights.indptr), weights.shape)

    def undirected(self) -> AgentGraph:
        r"""The undirected graph with weights :math:`(W + W^\top) / 2`, loops left out."""
        weights = self.without_loops()
        return AgentGraph(sparse.csr_array((weights + weights.T) / 2), self.names)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """``edge_index`` [2, E] (senders, receivers) and ``edge_weight`` [E], loops included."""
        entries = self.weights.tocoo()
        return np.stack([entries.col, entries.row]).astype(np.int64), entries.data

    def to_pyg(self) -> Data:
        """PyG's ``Data`` with ``edge_index``, ``edge_weight`` (float32) and ``num_nodes``."""
        import torch
        from torch_geometric.data import Data

        edge_index, edge_weight = self.edges()
        return Data(edge_index=torch.from_numpy(edge_index), edge_weight=torch.from_numpy(edge_weight).float(),
                    num_nodes=self.n)

    def to_networkx(self) -> networkx.DiGraph:
        """A ``DiGraph`` of edges from senders to receivers with attribute ``weight``; nodes are numbers with
        attribute ``name``."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.n))
        edge_index, edge_weight = self.edges()
        graph.add_weighted_edges_from(zip(*edge_index.tolist(), edge_weight.tolist()))
        nx.set_node_attributes(graph, dict(enumerate(self.names)), "name")
        return graph

    def __repr__(self) -> str:
        return f"AgentGraph(n={self.n}, num_edges={self.num_edges})"


def as_graph(source: Any, num_nodes: int | None = None, names: Sequence[str] = ()) -> AgentGraph:
    """An :class:`AgentGraph` from whatever holds one.

    Args:
        source: a graph already; anything with ``edge_index`` (PyG ``Data``, :class:`goa_torch.types.Topology`); a pair
            ``(edge_index, edge_weight)``, the weight ``None`` for ones; a NetworkX graph (edges from sender to
            receiver, attribute ``weight``); a matrix ``W[receiver, sender]``: SciPy sparse, NumPy or a dense tensor.
            Of two edges between the same agents the weights add; weight 0 is no edge.
        num_nodes: number of agents, where isolated ones would be missed.
        names: of the agents.

    Raises:
        UserError: for weights that are negative or not finite, a matrix that is not square, and ends out of range.
    """
    if isinstance(source, AgentGraph):
        return source
    if hasattr(source, "edge_index"):
        nodes = num_nodes if num_nodes is not None else getattr(source, "num_nodes", None)
        return _from_edges(source.edge_index, getattr(source, "edge_weight", None), nodes, names)
    if isinstance(source, tuple):
        return _from_edges(source[0], source[1] if len(source) > 1 else None, num_nodes, names)
    if hasattr(source, "adjacency") and hasattr(source, "nodes"):
        return _from_networkx(source, names)
    if sparse.issparse(source):
        return _checked(sparse.csr_array(source, dtype=np.float64), names)
    try:
        matrix = np.asarray(_numpy(source), dtype=np.float64)
    except (TypeError, ValueError) as error:
        matrix, why = np.empty(0), f" ({error})"
    else:
        why = ""
    if matrix.ndim != 2:
        raise UserError(f"no graph can be read from {type(source).__name__}{why}; give a graph of PyG or NetworkX, a "
                        "Topology, a pair (edge_index, edge_weight) or a matrix W[receiver, sender]")
    return _checked(sparse.csr_array(matrix), names)


def rounds_of(trace: Mapping[str, Any]) -> list[AgentGraph]:
    """The graphs of a recorded trace (``result.trace`` or that of a line of ``results.jsonl``), one for each time the
    agents talked, in order. Messages that did not fit are not among the edges."""
    if not {"agents", "stages"} <= set(trace):
        raise UserError("that is no trace: it lacks agents or stages; give result.trace, or the trace of a line of "
                        "results.jsonl")
    names = tuple(trace["agents"])
    graphs = []
    for stage in trace["stages"]:
        if stage["stage"] == "pass":
            edges = np.array(stage["edges"], dtype=np.float64).reshape(-1, 3)
            graphs.append(_from_edges(edges[:, :2].T.astype(np.int64), edges[:, 2], len(names), names))
    return graphs


def mean_graph(graphs: Iterable[Any]) -> AgentGraph:
    """The mean of the weights over rounds: what a time-varying graph is on average.

    Raises:
        UserError: for no graphs at all, or graphs of different numbers of agents.
    """
    graphs = [as_graph(graph) for graph in graphs]
    if not graphs:
        raise UserError("a mean of no graphs is asked for; give at least one round")
    if len({graph.n for graph in graphs}) > 1:
        raise UserError(f"rounds have {sorted({graph.n for graph in graphs})} agents; give graphs of the same agents")
    total = graphs[0].weights.copy()
    for graph in graphs[1:]:
        total = total + graph.weights
    return AgentGraph(sparse.csr_array(total / len(graphs)), graphs[0].names)


def _from_edges(edge_index: Any, edge_weight: Any, num_nodes: int | None, names: Sequence[str]) -> AgentGraph:
    index = _numpy(edge_index).astype(np.int64).reshape(2, -1)
    weight = np.ones(index.shape[1]) if edge_weight is None else _numpy(edge_weight).astype(np.float64).ravel()
    if len(weight) != index.shape[1]:
        raise UserError(f"edge_weight has {len(weight)} entries for {index.shape[1]} edges; give one for each")
    n = num_nodes if num_nodes is not None else len(names) or int(index.max(initial=-1)) + 1
    if index.size and (index.min() < 0 or index.max() >= n):
        raise UserError(f"edge_index names node {index.max() if index.max() >= n else index.min()} in a graph of {n}")
    _check_weights(weight)  # before duplicates are added up, in which a negative one could hide
    return _checked(sparse.csr_array(sparse.coo_array((weight, (index[1], index[0])), shape=(n, n))), names)


def _from_networkx(graph: networkx.Graph, names: Sequence[str]) -> AgentGraph:
    import networkx as nx

    nodes = list(graph.nodes)
    if not nodes:
        return _checked(sparse.csr_array((0, 0)), names)
    matrix = nx.to_scipy_sparse_array(graph, nodes, dtype=np.float64, format="csr")  # [sender, receiver]
    named = names or ([str(node) for node in nodes] if nodes != list(range(len(nodes))) else ())
    return _checked(sparse.csr_array(matrix.T), named)


def _checked(weights: sparse.csr_array, names: Sequence[str]) -> AgentGraph:
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
        raise UserError(f"a matrix of weights is square, W[receiver, sender], not {weights.shape}")
    if names and len(names) != weights.shape[0]:
        raise UserError(f"{len(names)} names for {weights.shape[0]} agents; give one for each, or none")
    _check_weights(weights.data)
    weights.sum_duplicates()
    weights.eliminate_zeros()
    return AgentGraph(weights, tuple(names))


def _check_weights(weights: np.ndarray) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise UserError("weights of edges must be finite and not negative: 1 is plain, 0 is no edge")


def _numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
