"""How central agents are: who is heard, by whom, and how often.

Edges run from sender to receiver, and influence runs with them: an agent is central if it is heard by central agents.
So a random walk goes from a receiver to somebody it hears.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..errors import unknown
from .degroot import consensus
from .graph import as_graph
from .linear import DENSE
from .local import degrees


def pagerank(graph: Any, damping: float = 0.85) -> np.ndarray:
    r"""[n] PageRank (Brin and Page 1998) of the walk from receivers to senders; sums to 1,

    .. math:: x = d \, P^\top x + (1 - d) / n,

    P row-stochastic in what receivers hear, who hears nobody jumping anywhere. Converges whatever the graph.
    """
    weights = as_graph(graph).weights
    n = weights.shape[0]
    total = np.asarray(weights.sum(axis=1)).ravel()
    share = sparse.csr_array((sparse.diags_array(1 / np.where(total > 0, total, 1.0)) @ weights).T)
    deaf = total == 0
    rank = np.full(n, 1 / max(n, 1))
    for _ in range(1 + int(np.log(1e-13) / np.log(damping)) if damping > 0 else 1):  # the error shrinks by d a step
        rank = damping * (share @ rank + rank[deaf].sum() / n) + (1 - damping) / n if n else rank
    return rank


def eigenvector_centrality(graph: Any) -> np.ndarray:
    r"""[n] :math:`x \propto W^\top x` for the largest eigenvalue (Bonacich 1972), of unit length and not negative.

    NaN where it is not defined or did not converge: no cycles, or a largest eigenvalue that is not simple. Beyond
    :data:`~goa_torch.analysis.linear.DENSE` agents it is what power iteration from equal values comes to within 1e-4
    (extrapolated); parts of a graph that share the largest eigenvalue then keep that start's balance.
    """
    weights = as_graph(graph).weights
    n = weights.shape[0]
    undefined = np.full(n, np.nan)
    if n <= DENSE:
        values, vectors = np.linalg.eig(weights.T.toarray()) if n else (np.empty(0), np.empty((0, 0)))
        order = np.argsort(-values.real)
        if not n or values[order[0]].real <= 1e-9 or n > 1 and np.abs(values[order[1]] - values[order[0]]) <= 1e-9:
            return undefined
        return _positive(vectors[:, order[0]].real)
    return _power_iteration(sparse.csr_array(weights.T))


def _power_iteration(matrix: sparse.csr_array) -> np.ndarray:
    """Of the matrix plus a multiple of the identity, so that periodic graphs settle, too. The ratio of successive
    steps tells how far there is still to go."""
    n = matrix.shape[0]
    undefined, vector = np.full(n, np.nan), np.full(n, n**-0.5)
    shift, before, ratio = 0.0, float("inf"), 0.0
    for number in range(3000):
        moved = matrix @ vector
        top = float(vector @ moved)
        if top <= 0:
            return undefined
        shift = shift or top / 2
        following = moved + shift * vector
        following /= np.linalg.norm(following)
        step = float(np.linalg.norm(following - vector))
        vector = following
        ratio = max(step / before, ratio * 0.9) if before > 0 else 0.0  # steps may take turns in being short
        if step <= 1e-14 or (number > 10 and ratio < 1 and step * ratio / (1 - ratio) <= 1e-4):
            return vector if np.linalg.norm(moved) > 1e-9 else undefined
        before = step
    return undefined


def katz_centrality(graph: Any, alpha: float | None = None) -> np.ndarray:
    r"""[n] Katz's centrality (1953) :math:`x = \sum_{k \geq 0} (\alpha W^\top)^k 1`, of unit length.

    Args:
        alpha: below 1 / largest eigenvalue; by default .85 over the smaller of the largest row and column sums, which
            no eigenvalue exceeds. NaN if the series does not converge.
    """
    weights = as_graph(graph).weights
    n = weights.shape[0]
    if alpha is None:
        bound = min(float(weights.sum(axis=axis).max(initial=0)) for axis in (0, 1)) if n else 0.0
        alpha = 0.85 / bound if bound else 0.0
    spread = sparse.csr_array(alpha * weights.T)
    centrality = np.ones(n)
    for _ in range(2000):
        following = spread @ centrality + 1
        moved, centrality = np.abs(following - centrality).max(initial=0), following
        if moved <= 1e-9 * centrality.max(initial=1) or not np.isfinite(moved):
            break
    if n == 0 or not np.isfinite(moved) or not moved <= 1e-9 * centrality.max():
        return np.full(n, np.nan)
    return centrality / np.linalg.norm(centrality)


#: Centralities by name, for comparisons with being right.
CENTRALITIES = {
    "heard": lambda graph: degrees(graph).heard_strength,
    "hears": lambda graph: degrees(graph).hears_strength,
    "pagerank": pagerank,
    "eigenvector": eigenvector_centrality,
    "katz": katz_centrality,
    "consensus": lambda graph: consensus(graph).weights,
}


def centrality(graph: Any, name: str = "pagerank") -> np.ndarray:
    """[n] the centrality ``name``: ``heard`` and ``hears`` (strengths), ``pagerank``, ``eigenvector``, ``katz`` or
    ``consensus`` (DeGroot weights)."""
    if name not in CENTRALITIES:
        raise unknown("centrality", name, CENTRALITIES)
    return np.asarray(CENTRALITIES[name](as_graph(graph)), dtype=np.float64)


def _positive(vector: np.ndarray) -> np.ndarray:
    return np.abs(vector) / np.linalg.norm(vector)
