"""How many edges, from whom, and how they close: local structure of agent graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .graph import as_graph


@dataclass(frozen=True, slots=True)
class Degrees:
    """Degrees (numbers of edges) and strengths (sums of weights), [n] each, loops left out.

    Attributes:
        hears: in-degree: how many others an agent hears.
        heard: out-degree: how many others hear it.
        hears_strength: in-strength.
        heard_strength: out-strength.
    """

    hears: np.ndarray
    heard: np.ndarray
    hears_strength: np.ndarray
    heard_strength: np.ndarray


def density(graph: Any) -> float:
    """Share of the n (n - 1) ordered pairs that have an edge; NaN for fewer than two agents."""
    graph = as_graph(graph)
    pairs = graph.n * (graph.n - 1)
    return graph.num_edges / pairs if pairs else float("nan")


def degrees(graph: Any) -> Degrees:
    """Degrees and strengths of all agents."""
    graph = as_graph(graph)
    weights, ones = graph.without_loops(), graph.adjacency()
    return Degrees(*(np.asarray(matrix.sum(axis=axis)).ravel().astype(kind)
                     for matrix, kind in ((ones, np.int64), (weights, np.float64)) for axis in (1, 0)))


def reciprocity(graph: Any) -> float:
    """Share of edges whose reverse is an edge too; NaN without edges."""
    ones = as_graph(graph).adjacency()
    return float(ones.multiply(ones.T).sum() / ones.nnz) if ones.nnz else float("nan")


def clustering(graph: Any) -> np.ndarray:
    r"""[n] share of an agent's pairs of neighbours that are neighbours of each other, directions and weights aside,

    .. math:: C_i = \frac{2 t_i}{d_i (d_i - 1)}

    with :math:`t_i` triangles through i (Watts and Strogatz 1998); 0 for fewer than two neighbours, as in NetworkX.
    Edges are directed from lower to higher degree first, so that hubs cost O(m^1.5) at most.
    """
    ones = as_graph(graph).adjacency()
    ones = sparse.csr_array(ones + ones.T)
    ones.data[:] = 1.0
    degree = np.diff(ones.indptr).astype(np.int64)
    rank = np.lexsort((np.arange(len(degree)), degree)).argsort()
    entries = ones.tocoo()
    upward = rank[entries.row] < rank[entries.col]
    up = sparse.csr_array((np.ones(int(upward.sum())), (entries.row[upward], entries.col[upward])), shape=ones.shape)
    ends = (up @ up).multiply(up)  # triangles u < v < w, by (u, w)
    middle = (up.T @ up).multiply(up)  # by (v, w)
    triangles = (np.asarray(ends.sum(axis=1)).ravel() + np.asarray(ends.sum(axis=0)).ravel()
                 + np.asarray(middle.sum(axis=1)).ravel())
    pairs = degree * (degree - 1) / 2
    return np.divide(triangles, pairs, out=np.zeros(len(degree)), where=pairs > 0)


def transitivity(graph: Any) -> float:
    """Share of all paths of two edges that are closed by a third (directions aside); 0 without any."""
    graph = as_graph(graph)
    ones = graph.adjacency()
    degree = np.diff(sparse.csr_array(ones + ones.T).indptr).astype(np.int64)
    pairs = degree * (degree - 1) / 2
    return float((clustering(graph) * pairs).sum() / pairs.sum()) if pairs.sum() else 0.0
