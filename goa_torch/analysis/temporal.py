"""Who has heard from whom after how many rounds, over graphs that change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import UserError
from .graph import as_graph
from .paths import EXACT, SAMPLES, Estimate, drawn_agents


@dataclass(frozen=True, slots=True)
class TemporalReach:
    """How news travels, one hop a round.

    Attributes:
        share: [T + 1] mean share of the *other* agents that an agent's first reply has reached after each round.
        everyone: rounds until everybody has heard, directly or not, from everybody; infinite if not within the graphs
            given. From a sample of sources it is a lower bound.
        by_source: [S] rounds until all have heard from each source, infinite if never.
        mean: of ``by_source``, with its interval.
        sources: [S] the agents followed.
    """

    share: np.ndarray
    everyone: float
    by_source: np.ndarray
    mean: Estimate
    sources: np.ndarray


def temporal_reach(graphs: Iterable[Any], max_rounds: int | None = None, samples: int = SAMPLES, exact: int = EXACT,
                   seed: int = 0) -> TemporalReach:
    r"""Follows first replies through synchronous rounds: whoever hears somebody that has heard from i by then has, too,

    .. math:: I_{t+1} = (A_t + I) I_t, \quad I_0 = I \quad \text{(boolean)}.

    In random graphs drawn anew each round with in-degree k these are rumours that are pulled (Karp et al., `Randomized
    rumor spreading <https://doi.org/10.1109/SFCS.2000.892324>`_, 2000): one source needs :math:`\log_{1+k} N + O(1)`
    rounds (up to :math:`\ln \ln N`), as 1 + k times as many know after each, and all of them together
    :math:`\ln N / k` more, since a source is heard by nobody at all with probability :math:`e^{-k}` a round. On a ring
    of k = 2 it is N / 2.

    Args:
        graphs: one graph a round, as anything :func:`~goa_torch.analysis.graph.as_graph` takes; may be a generator.
            A static graph is repeated by ``itertools.repeat``.
        max_rounds: stop after so many.
        samples: sources to follow where there are more than ``exact`` agents.
        exact: up to so many agents all are followed.
        seed: of the sample.
    """
    known: np.ndarray | None = None
    sources = np.empty(0, dtype=np.int64)
    rounds, shares = np.empty(0), []
    if not isinstance(graphs, Iterable):
        raise UserError("temporal_reach: graphs must be one graph a round; itertools.repeat(graph) repeats one")
    for number, given in enumerate(graphs, 1):
        graph = as_graph(given)
        if known is not None and graph.n != len(known):
            raise UserError(f"temporal_reach: round {number} has {graph.n} agents, those before {len(known)}; give "
                            "graphs of the same agents")
        if known is None:
            sources = np.arange(graph.n) if graph.n <= exact else drawn_agents(graph.n, samples, seed)
            known = np.zeros((graph.n, len(sources)), dtype=bool)
            known[sources, np.arange(len(sources))] = True
            rounds = np.where(known.all(axis=0), 0.0, np.inf)
            shares.append(_share(known))
        if np.isfinite(rounds).all() or (max_rounds is not None and number > max_rounds):
            break
        heard = sparse.csr_array(graph.adjacency(), dtype=np.float32) @ known.astype(np.float32)
        known |= heard > 0
        rounds[np.isinf(rounds) & known.all(axis=0)] = number
        shares.append(_share(known))
    n = 0 if known is None else len(known)
    everyone = float(rounds.max(initial=0.0))
    finite = rounds if np.isfinite(rounds).all() else np.full(len(rounds), np.nan)
    mean = Estimate.mean_of(finite, n) if np.isfinite(everyone) else Estimate.exact(float("inf"))
    return TemporalReach(np.array(shares), everyone, rounds, mean, sources)


def _share(known: np.ndarray) -> float:
    n = known.shape[0]
    return float((known.sum(axis=0) - 1).mean() / (n - 1)) if n > 1 else float("nan")
