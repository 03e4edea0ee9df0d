"""How far agents are from each other: path lengths in hops, exact or sampled with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.sparse import csgraph

from .. import randomness
from .graph import AgentGraph, as_graph
from .local import clustering

#: Up to so many agents all pairs are counted.
EXACT = 2000
#: Sources from which distances are measured in larger graphs.
SAMPLES = 32


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95% interval; the interval of an exact number is the number."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        return cls(value, value, value)

    @classmethod
    def mean_of(cls, values: np.ndarray, population: int) -> Estimate:
        """Mean of a sample drawn without replacement from ``population`` (Student's t, finite population)."""
        values = values[np.isfinite(values)]
        if not len(values):
            return cls.exact(float("nan"))
        mean = float(values.mean())
        if len(values) >= population or len(values) == 1:
            return cls.exact(mean) if len(values) >= population else cls(mean, float("nan"), float("nan"))
        share = 1 - len(values) / population
        half = float(stats.t.ppf(0.975, len(values) - 1) * np.sqrt(share * values.var(ddof=1) / len(values)))
        return cls(mean, mean - half, mean + half)


@dataclass(frozen=True, slots=True)
class PathLengths:
    """Distances in hops, in the direction of the messages.

    Attributes:
        average: mean distance over ordered pairs of which the first reaches the second; NaN if none does.
        diameter: largest of these distances, as an interval of bounds if sampled.
        reachable: share of ordered pairs that have a path; NaN for fewer than two agents.
        efficiency: mean of 1 / distance, 0 where there is no path (Latora and Marchiori 2001).
        sources: agents from which distances were measured.
    """

    average: Estimate
    diameter: Estimate
    reachable: Estimate
    efficiency: Estimate
    sources: int


def path_lengths(graph: Any, samples: int = SAMPLES, exact: int = EXACT, seed: int = 0) -> PathLengths:
    """Distances from every agent, or in graphs of more than ``exact`` agents from ``samples`` drawn ones.

    The average is over reachable pairs. Sampled, each source is one observation, the mean a ratio estimate (summed
    distances over summed numbers of agents reached), its interval from the spread of the sources; the diameter lies
    between the largest distance seen and, where everybody reaches everybody, the sum of the longest way from a source
    and the longest way to it.
    """
    graph = as_graph(graph)
    n = graph.n
    if n < 2:
        return PathLengths(*[Estimate.exact(float("nan"))] * 4, sources=n)
    outward = sparse.csr_array(graph.adjacency().T)  # rows send
    outward.sort_indices()
    sources = np.arange(n) if n <= exact else drawn_agents(n, samples, seed)
    total, reached, inverse, longest = (np.empty(len(sources)) for _ in range(4))
    for row, source in enumerate(sources):
        counts = _levels(outward, int(source))
        hops = np.arange(1, len(counts) + 1)
        total[row], reached[row] = counts @ hops, counts.sum()
        inverse[row], longest[row] = (counts / hops).sum(), len(counts)
    everybody = bool((reached == n - 1).all())
    most = float(longest.max()) if reached.sum() else float("nan")
    if len(sources) == n:
        diameter = Estimate.exact(most)
        average = Estimate.exact(float(total.sum() / reached.sum()) if reached.sum() else float("nan"))
    else:
        back = [len(_levels(sparse.csr_array(outward.T), int(s))) for s in sources[:1]] if everybody else [np.inf]
        diameter = Estimate(most, most, float(longest[0] + back[0]))
        average = _ratio(total, reached, n)
    return PathLengths(average, diameter, Estimate.mean_of(reached / (n - 1), n),
                       Estimate.mean_of(inverse / (n - 1), n), len(sources))


def _levels(outward: sparse.csr_array, source: int) -> np.ndarray:
    """How many agents are 1, 2, ... hops from ``source``."""
    order, before = csgraph.breadth_first_order(outward, source, return_predecessors=True)
    place = np.empty(outward.shape[0], dtype=np.int64)
    place[order] = np.arange(len(order))
    parents = place[before[order[1:]]].tolist()  # ascending, so that one pass over a list does
    depth = [0] * len(order)
    for number, parent in enumerate(parents, 1):
        depth[number] = depth[parent] + 1
    return np.bincount(depth)[1:]


def _ratio(total: np.ndarray, reached: np.ndarray, population: int) -> Estimate:
    if not reached.sum():
        return Estimate.exact(float("nan"))
    ratio = float(total.sum() / reached.sum())
    off = Estimate.mean_of((total - ratio * reached) / reached.mean(), population)
    return Estimate(ratio, ratio + off.low - off.value, ratio + off.high - off.value)


def drawn_agents(n: int, count: int, seed: int) -> np.ndarray:
    """``count`` different agents, uniformly."""
    lots = randomness.uniforms([randomness.stream("analysis", "sources", seed)], np.arange(n))
    return np.sort(np.argsort(lots, kind="stable")[:count])


def small_worldness(graph: Any, lengths: PathLengths | None = None) -> float:
    r"""How much more clustered than random at paths as short,

    .. math:: \sigma = \frac{C / C_{rand}}{L / L_{rand}}

    (Humphries and Gurney 2008), against Erdos-Renyi graphs of the same size and density: :math:`C_{rand} = k / (n-1)`
    and :math:`L_{rand} = (\ln n - \gamma) / \ln k + 1/2` (Fronczak et al. 2004), k the mean degree and directions
    aside. Above 1 is a small world. NaN if k <= 1, where random graphs fall apart.

    Args:
        lengths: path lengths of the undirected graph, if known.
    """
    undirected: AgentGraph = as_graph(graph).undirected()
    n = undirected.n
    k = undirected.num_edges / n if n else 0.0
    if k <= 1 or n < 3:
        return float("nan")
    average = (lengths or path_lengths(undirected)).average.value
    expected = (np.log(n) - np.euler_gamma) / np.log(k) + 0.5
    return float(clustering(undirected).mean() / (k / (n - 1)) / (average / expected))
