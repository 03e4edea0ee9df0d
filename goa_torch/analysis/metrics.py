"""Everything about one graph in one call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .degroot import consensus
from .graph import as_graph
from .grouping import communities
from .local import clustering, degrees, density, reciprocity, transitivity
from .paths import Estimate, path_lengths, small_worldness
from .ranking import eigenvector_centrality, katz_centrality, pagerank
from .spectra import algebraic_connectivity, effective_resistance, spectral_gap


def analyse(graph: Any, self_weight: float = 1.0, seed: int = 0) -> dict[str, Any]:
    """Every number of :mod:`goa_torch.analysis` that one graph has, by name; JSON-able but for NaN and infinity.

    Vectors come as their largest value and its agent (``pagerank_max``, ``pagerank_top``, ...). What is sampled
    (large graphs) is an ``[value, low, high]`` triple ending in ``_interval`` beside its value; what did not converge
    is NaN. 100,000 agents with 200,000 edges take some seconds.

    Args:
        graph: anything :func:`~goa_torch.analysis.graph.as_graph` takes; of a time-varying one,
            :func:`~goa_torch.analysis.graph.mean_graph`.
        self_weight: what agents give to their own last reply in DeGroot's model.
        seed: of what is sampled.
    """
    graph = as_graph(graph)
    counted, undirected = degrees(graph), graph.undirected()
    lengths = path_lengths(graph, seed=seed)
    symmetric = (undirected.adjacency() != graph.adjacency()).nnz == 0
    both = lengths if symmetric else path_lengths(undirected, seed=seed)
    groups = communities(graph, seed)
    connectivity, resistance = algebraic_connectivity(graph), effective_resistance(graph, seed=seed)
    agreement, gap = consensus(graph, self_weight), spectral_gap(graph)
    numbers: dict[str, Any] = {
        "agents": graph.n,
        "edges": graph.num_edges,
        "density": density(graph),
        "reciprocity": reciprocity(graph),
        "hears_mean": _mean(counted.hears), "hears_max": int(counted.hears.max(initial=0)),
        "heard_max": int(counted.heard.max(initial=0)),
        "strength_mean": _mean(counted.hears_strength),
        "clustering": _mean(clustering(graph)), "transitivity": transitivity(graph),
        **_estimate("path_length", lengths.average), **_estimate("diameter", lengths.diameter),
        **_estimate("reachable", lengths.reachable), **_estimate("efficiency", lengths.efficiency),
        "small_worldness": small_worldness(graph, both),
        "communities": groups.count, "modularity": groups.modularity,
        "algebraic_connectivity": connectivity.value, "algebraic_connectivity_residual": connectivity.residual,
        **_estimate("effective_resistance", resistance.mean),
        "spectral_gap": gap.value, "spectral_gap_residual": gap.residual,
        "consensus_agrees": agreement.agrees, "consensus_rate": agreement.rate, "consensus_rounds": agreement.rounds,
    }
    for name, values in (("pagerank", pagerank(graph)), ("eigenvector", eigenvector_centrality(graph)),
                         ("katz", katz_centrality(graph)), ("consensus", agreement.weights)):
        known = np.isfinite(values).all() and len(values) > 0
        numbers[f"{name}_max"] = float(values.max()) if known else float("nan")
        top = int(np.argmax(values)) if known else None
        numbers[f"{name}_top"] = graph.names[top] if known and graph.names else top
    return numbers


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _estimate(name: str, estimate: Estimate) -> dict[str, Any]:
    exact = estimate.low == estimate.high or math.isnan(estimate.value)
    numbers: dict[str, Any] = {name: estimate.value}
    return numbers if exact else numbers | {f"{name}_interval": [estimate.value, estimate.low, estimate.high]}
