"""Eigenvalues of agent graphs: how well they hold together and how fast they mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from .graph import AgentGraph, as_graph
from .linear import TOLERANCE, Eigen, Solver, choose, pseudoinverse, smallest_eigenvalue
from .paths import SAMPLES, Estimate, drawn_agents

#: Odd, so that eigenvalues of opposite sign stay apart.
_POWER = 15


@dataclass(frozen=True, slots=True)
class Resistance:
    """Effective resistance of a graph whose weights are conductances.

    Attributes:
        mean: over all pairs of agents; infinite if the graph is not connected, NaN for fewer than two agents.
        kirchhoff: the sum over pairs.
        solver: see :class:`goa_torch.analysis.linear.Eigen`.
    """

    mean: Estimate
    kirchhoff: float
    solver: str


def laplacian(graph: Any) -> sparse.csr_array:
    r""":math:`L = D - W` of the undirected graph (weights :math:`(W + W^\top)/2`, loops left out)."""
    weights = as_graph(graph).undirected().weights
    return sparse.csr_array(sparse.diags_array(np.asarray(weights.sum(axis=1)).ravel()) - weights)


def algebraic_connectivity(graph: Any, solver: Solver = "auto") -> Eigen:
    r"""The second smallest eigenvalue :math:`\lambda_2` of the Laplacian (Fiedler 1973), with its vector.

    0 exactly if the undirected graph is not connected; NaN for fewer than two agents. On a ring of n agents it is
    :math:`2 - 2 \cos(2 \pi / n)`.
    """
    graph = as_graph(graph)
    if graph.n < 2:
        return Eigen(float("nan"), None, 0.0, "exact")
    if csgraph.connected_components(graph.weights, directed=False)[0] > 1:
        return Eigen(0.0, None, 0.0, "exact")
    return smallest_eigenvalue(laplacian(graph), np.full(graph.n, graph.n**-0.5), solver)


def effective_resistance(graph: Any, samples: int = SAMPLES, seed: int = 0, solver: Solver = "auto") -> Resistance:
    r"""Mean effective resistance over pairs (Klein and Randic 1993),

    .. math:: \bar{R} = \frac{2}{n - 1} \operatorname{tr} L^{+}, \qquad \sum_{i < j} R_{ij} = n \operatorname{tr} L^{+}.

    Exact for small graphs. In larger ones :math:`L^{+}_{ii}` is solved for ``samples`` agents, and the mean over all
    agents is estimated by regression on 1 / strength, whose mean is known; the interval is that of the residuals.
    """
    graph = as_graph(graph)
    n = graph.n
    if n < 2:
        return Resistance(Estimate.exact(float("nan")), float("nan"), "exact")
    if csgraph.connected_components(graph.weights, directed=False)[0] > 1:
        return Resistance(Estimate.exact(float("inf")), float("inf"), "exact")
    matrix, null = laplacian(graph), np.full(n, n**-0.5)
    if choose(matrix, solver) == "dense":
        trace = Estimate.exact(float((1 / np.linalg.eigvalsh(matrix.toarray())[1:]).sum() / n))
        used = "dense"
    else:
        solve, used = pseudoinverse(matrix, null, solver)
        nodes = drawn_agents(n, min(samples, n), seed)
        trace = _regressed(np.array([solve(_unit(n, node))[node] for node in nodes]), 1 / matrix.diagonal(), nodes)
    factor = 2 * n / (n - 1)
    return Resistance(Estimate(*(factor * x for x in (trace.value, trace.low, trace.high))), n * n * trace.value, used)


def spectral_gap(graph: Any, self_weight: float = 0.0, solver: Solver = "auto") -> Eigen:
    r"""How fast opinions mix: :math:`1 - |\mu_2|`, :math:`\mu_2` the eigenvalue of second largest modulus of the
    averaging matrix :func:`transition`.

    0 exactly where there is no mixing: if several groups listen to nobody else, or the graph is periodic (an even
    ring without self weights). 1 for one agent, NaN for none. Symmetric weights make two symmetric problems. Others go
    to Arnoldi, on a power of the matrix; where factors are sparse and every agent keeps some weight for itself, to
    shift-invert at 1, whose result counts only if what it did not find is too far from 1 to be larger (Gershgorin).

    Args:
        self_weight: the weight every agent gives its own last reply (besides loops of the graph).
    """
    graph = as_graph(graph)
    if graph.n == 0:
        return Eigen(float("nan"), None, 0.0, "exact")
    matrix = transition(graph, self_weight)
    closed = closed_classes(matrix)
    if len(closed) > 1 or periods(matrix, closed)[0] > 1:
        return Eigen(0.0, None, 0.0, "exact")
    if graph.n == 1:
        return Eigen(1.0, None, 0.0, "exact")
    if graph.symmetric:
        return _reversible_gap(_with_self(graph, self_weight), solver)
    return _gap(matrix, choose(sparse.csr_array(matrix + matrix.T), solver))


def transition(graph: Any, self_weight: float = 0.0) -> sparse.csr_array:
    r"""[n, n] row-stochastic: the share each agent gives to whom it hears,

    .. math:: P_{ij} = \frac{W_{ij} + s [i = j]}{\sum_k W_{ik} + s}.

    Who hears nobody, not even itself, keeps its reply: :math:`P_{ii} = 1`.
    """
    weights = _with_self(as_graph(graph), self_weight)
    total = np.asarray(weights.sum(axis=1)).ravel()
    alone = (total == 0).astype(float)
    return sparse.csr_array(sparse.diags_array(1 / np.where(total > 0, total, 1.0)) @ weights
                            + sparse.diags_array(alone))


def closed_classes(matrix: sparse.csr_array) -> list[np.ndarray]:
    """The groups of agents that hear each other, directly or not, and nobody outside: they have the last word."""
    count, label = csgraph.connected_components(matrix, directed=True, connection="strong")
    entries = matrix.tocoo()
    leaves = np.zeros(count, dtype=bool)
    leaves[label[entries.row[label[entries.row] != label[entries.col]]]] = True
    order = np.argsort(label, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])
    return [groups[number] for number in np.flatnonzero(~leaves)]


def periods(matrix: sparse.csr_array, closed: list[np.ndarray]) -> np.ndarray:
    """The period of each closed class: the greatest common divisor of the lengths of its cycles.

    One search from a node that leads to a member of every class gives depths; where an edge skips none, its ends'
    depths differ by 1 up to a multiple of the period.
    """
    n = matrix.shape[0]
    number = np.full(n, -1)
    for place, members in enumerate(closed):
        number[members] = place
    roots = np.array([members[0] for members in closed])
    entries = matrix.tocoo()
    extended = sparse.csr_array((np.ones(entries.nnz + len(roots)), (
        np.concatenate([entries.row, np.full(len(roots), n)]), np.concatenate([entries.col, roots]))),
        shape=(n + 1, n + 1))
    order, before = csgraph.breadth_first_order(extended, n, return_predecessors=True)
    depth = [0] * (n + 1)
    for node, parent in zip(order[1:].tolist(), before[order[1:]].tolist()):
        depth[node] = depth[parent] + 1
    steps, inside = np.array(depth), number[entries.row] >= 0
    row, column = entries.row[inside], entries.col[inside]
    by_class = np.argsort(number[row], kind="stable")
    starts = np.flatnonzero(np.diff(number[row][by_class], prepend=-1))
    return np.gcd.reduceat(np.abs(steps[row] + 1 - steps[column])[by_class], starts)


def _with_self(graph: AgentGraph, self_weight: float) -> sparse.csr_array:
    return sparse.csr_array(graph.weights + self_weight * sparse.eye_array(graph.n, format="csr"))


def _reversible_gap(weights: sparse.csr_array, solver: Solver) -> Eigen:
    """From both ends of the spectrum of the symmetric matrix that is similar to the averaging matrix."""
    strength = np.asarray(weights.sum(axis=1)).ravel()
    scale = sparse.diags_array(strength**-0.5)
    walk, one = sparse.csr_array(scale @ weights @ scale), sparse.eye_array(weights.shape[0], format="csr")
    null = np.sqrt(strength / strength.sum())
    upper = smallest_eigenvalue(sparse.csr_array(one - walk), null, solver)
    if min(upper.value, 2 - upper.value) <= 2 * float(walk.diagonal().min()):  # Gershgorin: the lower end is farther
        return Eigen(min(upper.value, 2 - upper.value), upper.vector, upper.residual, upper.solver)
    lower = smallest_eigenvalue(sparse.csr_array(one + walk), None, solver)
    gaps = [min(end.value, 2 - end.value) for end in (upper, lower)]  # an end beyond 0 counts by its modulus
    worst = upper if np.isnan(gaps[0]) or (not np.isnan(gaps[1]) and gaps[0] <= gaps[1]) else lower
    value = float("nan") if np.isnan(gaps).any() else float(min(gaps))
    return Eigen(value, worst.vector, max(upper.residual, lower.residual), upper.solver)


def _gap(matrix: sparse.csr_array, chosen: str) -> Eigen:
    n = matrix.shape[0]
    if chosen == "dense" or n < 8:
        values = np.linalg.eigvals(matrix.toarray())
        values = np.delete(values, np.argmin(np.abs(values - 1)))
        return Eigen(float(1 - np.abs(values).max()), None, 0.0, "dense")
    if chosen == "direct" and matrix.diagonal().min() > 0:
        found = _nearest_one(matrix)
        if found is not None:
            return found
    found = _powers_gap(matrix, _POWER)
    if np.isnan(found.value):  # eigenvalues so small that nothing is left of their power
        found = _powers_gap(matrix, 1)
    return found


def _powers_gap(matrix: sparse.csr_array, times: int) -> Eigen:
    """Arnoldi on a power of the matrix: moduli that lie close together are drawn apart, for products with a sparse
    matrix, which cost far less than keeping many vectors orthogonal."""

    def power(vector: np.ndarray) -> np.ndarray:
        for _ in range(times):
            vector = matrix @ vector
        return vector

    n = matrix.shape[0]
    operator = splinalg.LinearOperator(matrix.shape, matvec=power, dtype=np.float64)
    try:
        _, vectors = splinalg.eigs(operator, k=3, which="LM", ncv=20, tol=1e-3, v0=1 + np.linspace(0, 1, n), maxiter=30)
    except splinalg.ArpackNoConvergence:
        return Eigen(float("nan"), None, float("inf"), "iterative")
    vectors = vectors / np.linalg.norm(vectors, axis=0)
    moved = matrix @ vectors
    values = (vectors.conj() * moved).sum(axis=0)
    rest = np.argsort(np.abs(values - 1))[1:]
    residual = float(np.linalg.norm(moved[:, rest] - vectors[:, rest] * values[rest], axis=0).max())
    gap = float(1 - np.abs(values[rest]).max())
    return Eigen(gap if residual <= 2 * TOLERANCE * gap else float("nan"), None, residual, "iterative")


def _nearest_one(matrix: sparse.csr_array) -> Eigen | None:
    """Of a matrix whose diagonal is at least c, all eigenvalues lie in the disc of radius 1 - c around c."""
    c = float(matrix.diagonal().min())
    shift = 1 + 1e-7
    lu = splinalg.splu(sparse.csc_matrix(matrix - shift * sparse.eye_array(matrix.shape[0])))
    inverse = splinalg.LinearOperator(matrix.shape, matvec=lu.solve, dtype=np.float64)
    try:
        values, vectors = splinalg.eigs(matrix, k=6, sigma=shift, OPinv=inverse, v0=1 + np.linspace(0, 1,
                                        matrix.shape[0]))
    except splinalg.ArpackNoConvergence:
        return None
    order = np.argsort(np.abs(values - 1))
    values, vectors = values[order], vectors[:, order]
    modulus = float(np.abs(values[1:]).max())
    beyond = np.sqrt(max(0.0, 1 - np.abs(values[-1] - 1) ** 2 * c / (1 - c)))  # what was not found is smaller
    residual = float(np.linalg.norm(matrix @ vectors[:, 1] - values[1] * vectors[:, 1]))
    gap = 1 - modulus
    return Eigen(gap, None, residual, "direct") if modulus >= beyond and gap > 0 else None


def _unit(n: int, node: int) -> np.ndarray:
    vector = np.zeros(n)
    vector[node] = 1.0
    return vector


def _regressed(values: np.ndarray, known: np.ndarray, nodes: np.ndarray) -> Estimate:
    """Mean over all agents of what was measured at ``nodes``, by regression on what is ``known`` of all."""
    x = known[nodes] - known.mean()
    spread = ((x - x.mean()) ** 2).sum()
    slope = ((x - x.mean()) * (values - values.mean())).sum() / spread if spread > 1e-12 * len(x) else 0.0
    if not np.isfinite(values).all():
        return Estimate.exact(float("nan"))
    return Estimate.mean_of(values - slope * x, len(known))
