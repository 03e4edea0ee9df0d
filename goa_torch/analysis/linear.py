"""Sparse linear algebra that knows when to trust itself: the solver goes by structure, residuals are kept, and what
did not converge is NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as splinalg

from .. import randomness

Solver = Literal["auto", "dense", "direct", "iterative"]
#: Up to so many nodes matrices are dense: exact, and faster than anything else.
DENSE = 400
#: A residual of so much of an eigenvalue bounds its relative error (symmetric matrices): twice as good as 1%.
TOLERANCE = 5e-3
_BLOCK = 2
_STAGES = 6


@dataclass(frozen=True, slots=True)
class Eigen:
    r"""An eigenvalue with its vector.

    Attributes:
        value: NaN if the solver did not converge.
        vector: of unit length, ``None`` if there is none.
        residual: :math:`\lVert Ax - \lambda x \rVert`; for symmetric matrices some eigenvalue is that near.
        solver: ``exact`` (by structure, nothing was solved), ``dense``, ``direct`` (a sparse factorisation) or
            ``iterative``.
    """

    value: float
    vector: np.ndarray | None
    residual: float
    solver: str


def fills_little(matrix: sparse.csr_array) -> bool:
    """Whether a sparse factorisation of ``matrix`` (symmetric pattern) stays small: whether its envelope after a
    reverse Cuthill-McKee ordering is at most that of a planar grid, 4 n^1.5. True of rings, trees, tori and grids;
    not of random graphs, whose factors are nearly dense."""
    n = matrix.shape[0]
    if n <= 2000:
        return True
    order = csgraph.reverse_cuthill_mckee(sparse.csr_matrix(matrix), symmetric_mode=True)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    entries = matrix.tocoo()
    first = np.arange(n)
    np.minimum.at(first, place[entries.row], place[entries.col])
    return int((np.arange(n) - first).sum()) <= 4 * n**1.5


def choose(matrix: sparse.csr_array, solver: Solver) -> str:
    """``solver``, or the one that goes with the structure of ``matrix``."""
    if solver != "auto":
        return solver
    return "dense" if matrix.shape[0] <= DENSE else "direct" if fills_little(matrix) else "iterative"


def smallest_eigenvalue(matrix: sparse.csr_array, null: np.ndarray | None = None, solver: Solver = "auto") -> Eigen:
    r"""The smallest eigenvalue of a symmetric positive semidefinite matrix, its null vector aside.

    Shift-invert Lanczos (at shift 0, one node grounded) where the factors stay sparse, LOBPCG (Knyazev 2001) with a
    diagonal preconditioner where they do not.

    Args:
        matrix: [n, n], n >= 2.
        null: [n] of unit length, the only null vector (connected graphs); ``None`` if the matrix is regular.
    """
    chosen = choose(matrix, solver)
    if chosen == "dense" or matrix.shape[0] <= 3 * _BLOCK:
        values, vectors = np.linalg.eigh(matrix.toarray())
        at = 0 if null is None else 1
        return _judged(matrix, float(values[at]), vectors[:, at], "dense")
    if chosen == "direct":
        solve = factorised(matrix, null)
        inverse = splinalg.LinearOperator(matrix.shape, matvec=solve, dtype=np.float64)
        try:
            _, vectors = splinalg.eigsh(inverse, k=1, which="LA", v0=_start(matrix.shape[0], 1)[:, 0], tol=1e-7,
                                        maxiter=60)
        except splinalg.ArpackNoConvergence:
            return Eigen(float("nan"), None, float("inf"), chosen)
        return _rayleigh(matrix, vectors[:, 0], chosen)
    return _lobpcg(matrix, null)


def _lobpcg(matrix: sparse.csr_array, null: np.ndarray | None) -> Eigen:
    """Restarted with a tolerance that goes by the eigenvalue itself, which is not known before."""
    n = matrix.shape[0]
    diagonal = matrix.diagonal()
    precondition = sparse.diags_array(1 / np.where(diagonal > 0, diagonal, 1.0))
    vectors, tolerance = _start(n, _BLOCK), 1e-2
    for _ in range(_STAGES):
        with warnings.catch_warnings():  # that it stopped early shows in the residual
            warnings.simplefilter("ignore", UserWarning)
            values, vectors = splinalg.lobpcg(matrix, vectors, M=precondition, Y=None if null is None else
                                              null[:, None], largest=False, tol=tolerance, maxiter=150)
        found = _rayleigh(matrix, vectors[:, int(np.argmin(values))], "iterative")
        if found.vector is not None:
            break
        tolerance = TOLERANCE / 2 * max(float(np.min(values)), 1e-12)
    return found


def factorised(matrix: sparse.csr_array, null: np.ndarray | None = None) -> Callable[[np.ndarray], np.ndarray]:
    """``b -> x`` with ``matrix x = b`` for a symmetric matrix by one sparse factorisation. With a ``null`` vector it is
    the pseudoinverse: one node is grounded, which leaves a regular matrix, and the null vector is taken out."""
    if null is None:
        return _symmetric_lu(matrix).solve
    ground = int(np.argmax(np.abs(null)))
    rest = np.delete(np.arange(len(null)), ground)
    lu = _symmetric_lu(sparse.csr_array(matrix[rest][:, rest]))

    def solve(right: np.ndarray) -> np.ndarray:
        right = np.asarray(right).ravel()
        right = right - null * (null @ right)
        x = np.zeros_like(right)
        x[rest] = lu.solve(right[rest])
        return x - null * (null @ x)

    return solve


def pseudoinverse(matrix: sparse.csr_array, null: np.ndarray, solver: Solver = "auto"
                  ) -> tuple[Callable[[np.ndarray], np.ndarray], str]:
    """``b -> pinv(matrix) b``, NaN where it did not converge, and the solver: see :func:`smallest_eigenvalue`; the
    iterative one is conjugate gradients."""
    chosen = choose(matrix, solver)
    if chosen == "dense":
        inverse = np.linalg.pinv(matrix.toarray(), hermitian=True)
        return (lambda right: inverse @ right), chosen
    if chosen == "direct":
        return factorised(matrix, null), chosen
    precondition = sparse.diags_array(1 / matrix.diagonal())

    def solve(right: np.ndarray) -> np.ndarray:
        x, failed = splinalg.cg(matrix, right - null * (null @ right), rtol=1e-6, maxiter=2000, M=precondition)
        return np.full_like(x, np.nan) if failed else x - null * (null @ x)

    return solve, chosen


def _symmetric_lu(matrix: sparse.csr_array) -> splinalg.SuperLU:
    return splinalg.splu(sparse.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                         options={"SymmetricMode": True})


def _start(n: int, k: int) -> np.ndarray:
    """[n, k] the same start vectors in every run."""
    return randomness.uniforms([randomness.stream("analysis", "start")], np.arange(n * k)).reshape(n, k) - 0.5


def _rayleigh(matrix: sparse.csr_array, vector: np.ndarray, solver: str) -> Eigen:
    vector = vector / np.linalg.norm(vector)
    return _judged(matrix, float(vector @ (matrix @ vector)), vector, solver)


def _judged(matrix: sparse.csr_array, value: float, vector: np.ndarray, solver: str) -> Eigen:
    residual = float(np.linalg.norm(matrix @ vector - value * vector))
    converged = solver == "dense" or residual <= TOLERANCE * abs(value)
    return Eigen(value if converged else float("nan"), vector if converged else None, residual, solver)
