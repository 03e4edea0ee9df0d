"""What repeated averaging comes to: the DeGroot model on agent graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from .graph import as_graph
from .linear import DENSE, Solver, choose
from .spectra import closed_classes, periods, spectral_gap, transition


@dataclass(frozen=True, slots=True)
class Consensus:
    r"""The limit of opinions that are averaged over and over.

    Attributes:
        weights: [n] weight of each agent's first opinion in the average last one; they sum to 1. NaN if not converged.
        converges: whether opinions settle (no closed class is periodic). Otherwise ``weights`` are those of the
            average over time.
        agrees: whether all settle on the same opinion (one closed class, not periodic).
        rate: factor by which disagreement shrinks a round in the long run, :math:`|\mu_2|`; 1 if they never agree.
        rounds: rounds in which it shrinks tenfold, :math:`-\ln 10 / \ln` rate.
        residual: :math:`\lVert wP - w \rVert_1`.
    """

    weights: np.ndarray
    converges: bool
    agrees: bool
    rate: float
    rounds: float
    residual: float


def consensus(graph: Any, self_weight: float = 1.0, solver: Solver = "auto") -> Consensus:
    r"""Opinions :math:`x_{t+1} = P x_t` (DeGroot 1974), :math:`P` the averaging matrix
    (:func:`goa_torch.analysis.spectra.transition`).

    Symmetric weights have a closed form (weight by strength within each component); small graphs are squared until they
    stand still; sparse factorisations and power iteration serve the rest. Both of the latter use the lazy
    :math:`(I + P)/2`, whose limit is the average over time where P itself is periodic.

    Args:
        self_weight: the weight every agent gives its own last reply, besides loops of the graph; agents that see
            their own reply beside messages of weight 1 have 1.
    """
    graph = as_graph(graph)
    if graph.n == 0:
        return Consensus(np.empty(0), True, True, float("nan"), float("nan"), 0.0)
    matrix = transition(graph, self_weight)
    closed = closed_classes(matrix)
    converges = bool((periods(matrix, closed) == 1).all())
    agrees = converges and len(closed) == 1
    weights = _symmetric(graph.weights, self_weight) if graph.symmetric else _limit(matrix, closed, solver)
    residual = float(np.abs(matrix.T @ weights - weights).sum())
    rate = 1 - spectral_gap(graph, self_weight, solver).value if agrees else 1.0
    return Consensus(weights, converges, agrees, rate, _tenfold(rate), residual)


def _symmetric(weights: sparse.csr_array, self_weight: float) -> np.ndarray:
    """Within each component by strength, the component by its share of agents."""
    strength = np.asarray(weights.sum(axis=1)).ravel() + self_weight
    strength[strength == 0] = 1.0  # alone, it keeps its opinion
    _, label = csgraph.connected_components(weights, directed=False)
    share = np.bincount(label) / len(label)
    return share[label] * strength / np.bincount(label, strength)[label]


def _limit(matrix: sparse.csr_array, closed: list[np.ndarray], solver: Solver) -> np.ndarray:
    n = matrix.shape[0]
    chosen = choose(sparse.csr_array(matrix + matrix.T), solver)
    if n <= DENSE and chosen == "dense":
        power = (np.eye(n) + matrix.toarray()) / 2
        for _ in range(64):
            power = power @ power
            power /= power.sum(axis=1, keepdims=True)
        return power.mean(axis=0)
    if chosen == "direct" and len(closed) == 1:
        return _stationary(matrix, closed[0])
    weights = np.full(n, 1 / n)
    lazy = sparse.csr_array((matrix.T + sparse.eye_array(n)) / 2)
    for _ in range(3000):
        following = lazy @ weights
        moved = np.abs(following - weights).sum()
        weights = following
        if moved <= 1e-10:
            return weights / weights.sum()
    return np.full(n, np.nan)


def _stationary(matrix: sparse.csr_array, members: np.ndarray) -> np.ndarray:
    """The stationary distribution of the only closed class: one member grounded, the rest solved for."""
    weights = np.zeros(matrix.shape[0])
    weights[members[0]] = 1.0
    if len(members) > 1:
        inner = sparse.csr_array(matrix[members][:, members])
        system = sparse.csc_matrix((sparse.eye_array(len(members)) - inner).T)[1:, 1:]
        weights[members[1:]] = splinalg.spsolve(system, inner[[0]].toarray().ravel()[1:])
    return weights / weights.sum()


def _tenfold(rate: float) -> float:
    if not rate < 1:  # never, or not known
        return float("inf") if rate == 1 else float("nan")
    return float(-np.log(10) / np.log(rate)) if rate > 0 else 0.0
