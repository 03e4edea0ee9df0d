"""How fast opinions that are averaged over and over come together, over graphs that change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .spectra import transition


def disagreement(graphs: Iterable[Any], opinions: np.ndarray, self_weight: float = 1.0) -> np.ndarray:
    r"""[T + 1] disagreement that is left after each round of :math:`x_{t+1} = P_t x_t` (DeGroot 1974), as a share of
    the first,

    .. math:: \delta_t = \sqrt{\frac{\sum_j \lVert x_j(t) - \bar{x}(t) \rVert^2}
                                    {\sum_j \lVert x_j(0) - \bar{x}(0) \rVert^2}}.

    What theory says of its factor a round is in :mod:`goa_torch.analysis.theory`.

    Args:
        graphs: one graph a round, as anything :func:`~goa_torch.analysis.graph.as_graph` takes. Must end.
        opinions: [N, C] first opinions, C independent ones.
        self_weight: what agents give to their own last opinion (:func:`~goa_torch.analysis.spectra.transition`).
    """
    now = np.asarray(opinions, dtype=np.float64)
    first = _spread(now)
    left = [1.0 if first else 0.0]
    for graph in graphs:
        now = transition(graph, self_weight) @ now
        left.append(_spread(now) / first if first else 0.0)
    return np.array(left)


def _spread(opinions: np.ndarray) -> float:
    return float(np.linalg.norm(opinions - opinions.mean(axis=0))) if opinions.size else 0.0
