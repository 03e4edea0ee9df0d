"""Groups of agents that talk among themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import UserError
from .graph import AgentGraph, as_graph

#: Up to so many edges Louvain's method runs; it costs half a minute at a hundred thousand agents.
LOUVAIN = 20_000
#: A matching of less than this share of the groups is few.
_FEW = 0.1


@dataclass(frozen=True, slots=True)
class Communities:
    """A partition found by maximising modularity.

    Attributes:
        labels: [n] number of each agent's group.
        modularity: of that partition; a lower bound of the best one's. NaN without edges.
        method: ``louvain`` or ``agglomeration``.
    """

    labels: np.ndarray
    modularity: float
    method: str

    @property
    def count(self) -> int:
        return int(self.labels.max(initial=-1)) + 1


def modularity(graph: Any, labels: np.ndarray) -> float:
    r"""Weight inside groups beyond what strengths alone would bring (Newman and Girvan 2004; directed: Leicht and
    Newman 2008),

    .. math:: Q = \frac{1}{m} \sum_{ij} \left( W_{ij} - \frac{s^{in}_i s^{out}_j}{m} \right) [c_i = c_j],

    loops left out; NaN without edges.

    Args:
        labels: [n] group of each agent.
    """
    weights = _of_order_one(as_graph(graph).without_loops())
    if np.size(labels) != weights.shape[0]:
        raise UserError(f"{np.size(labels)} labels for {weights.shape[0]} agents; give one for each")
    total = float(weights.sum())
    if not total:
        return float("nan")
    labels = np.unique(np.asarray(labels), return_inverse=True)[1]
    entries = weights.tocoo()
    inside = entries.data[labels[entries.row] == labels[entries.col]].sum()
    heard, hears = (np.bincount(labels, np.asarray(weights.sum(axis=axis)).ravel()) for axis in (0, 1))
    return float(inside / total - (heard * hears).sum() / total**2)


def communities(graph: Any, seed: int = 0) -> Communities:
    """Groups of large modularity in the undirected graph.

    Louvain's method (Blondel et al. 2008, NetworkX) up to :data:`LOUVAIN` edges; beyond, parallel agglomeration
    (Riedy, Meyerhenke and Bader 2012): all pairs of groups that gain most by each other merge at once, until no merger
    gains anything.
    """
    whole = as_graph(graph)
    undirected = AgentGraph(_of_order_one(whole.without_loops()), whole.names).undirected()
    if not undirected.num_edges:
        return Communities(np.arange(undirected.n), float("nan"), "louvain")
    if undirected.num_edges <= LOUVAIN:
        import networkx as nx

        groups = nx.community.louvain_communities(undirected.to_networkx().to_undirected(), seed=seed)
        labels = np.empty(undirected.n, dtype=np.int64)
        for number, group in enumerate(sorted(groups, key=min)):
            labels[list(group)] = number
        return Communities(labels, modularity(undirected, labels), "louvain")
    labels = _agglomerate(undirected.weights)
    return Communities(labels, modularity(undirected, labels), "agglomeration")


def _of_order_one(weights: sparse.csr_array) -> sparse.csr_array:
    """The weights with 1 as their largest, which changes no modularity; those that vanish beside it are no edges."""
    if not weights.nnz:
        return weights
    scaled = weights.copy()
    scaled.data = weights.data / weights.data.max()
    scaled.eliminate_zeros()
    return scaled


def _agglomerate(weights: sparse.csr_array) -> np.ndarray:
    labels = np.arange(weights.shape[0])
    total = weights.sum()
    between = weights.tocoo()
    strength = np.asarray(weights.sum(axis=1)).ravel()
    best, found = -np.inf, labels
    while True:
        inside = between.data[between.row == between.col].sum()
        quality = float(inside / total - ((strength / total) ** 2).sum())
        if quality > best:
            best, found = quality, labels
        gain = between.data / total - strength[between.row] * strength[between.col] / total**2
        useful = (gain > 1e-15) & (between.row != between.col)
        group = _matched(between.row[useful], between.col[useful], gain[useful], len(strength))
        if (group == np.arange(len(group))).all():
            return np.unique(found, return_inverse=True)[1]
        kept, group = np.unique(group, return_inverse=True)
        labels = group[labels]
        strength = np.bincount(group, strength, minlength=len(kept))
        merged = sparse.coo_array((between.data, (group[between.row], group[between.col])), shape=(len(kept),) * 2)
        between = sparse.csr_array(merged).tocoo()


def _matched(row: np.ndarray, column: np.ndarray, gain: np.ndarray, n: int) -> np.ndarray:
    """[n] a matching: of each pair that prefers each other among those still free, the smaller number. Around hubs few
    pairs are free of each other; then whoever is left over joins the group of its first choice."""
    group = np.arange(n)
    free = np.ones(n, dtype=bool)
    choice: np.ndarray | None = None
    while len(row):
        # ties (regular graphs are full of them) go by a hash of the pair: else all would want the same neighbour
        low, high = np.minimum(row, column).astype(np.uint64), np.maximum(row, column).astype(np.uint64)
        with np.errstate(over="ignore"):
            lot = (low * np.uint64(0x9E3779B97F4A7C15) ^ high * np.uint64(0xC2B2AE3D27D4EB4F)) >> np.uint64(11)
        order = np.lexsort((lot, gain, row))
        last = order[np.flatnonzero(np.diff(row[order], append=n))]
        wanted = np.full(n, -1)
        wanted[row[last]] = column[last]
        choice = wanted if choice is None else choice
        here = np.flatnonzero(wanted >= 0)
        mutual = here[wanted[wanted[here]] == here]
        group[mutual] = np.minimum(mutual, wanted[mutual])
        free[mutual] = False
        left = free[row] & free[column]
        if not len(mutual):
            break
        row, column, gain = row[left], column[left], gain[left]
    if choice is not None and (~free).sum() < _FEW * n:
        over = np.flatnonzero(free & (choice >= 0))
        over = over[~free[choice[over]]]  # the matching is maximal, so that nearly all of them
        group[over] = group[choice[over]]
    return group
