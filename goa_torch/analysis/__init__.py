"""Graph theory of agent networks: recorded, hypothetical, and changing from round to round."""

from __future__ import annotations

import importlib

_HOME = {
    "AgentGraph": ".graph", "as_graph": ".graph", "mean_graph": ".graph", "rounds_of": ".graph",
    "rounds_to_pyg": ".changing", "rounds_to_networkx": ".changing",
    "density": ".local", "degrees": ".local", "reciprocity": ".local", "clustering": ".local",
    "transitivity": ".local",
    "path_lengths": ".paths", "small_worldness": ".paths",
    "communities": ".grouping", "modularity": ".grouping",
    "pagerank": ".ranking", "eigenvector_centrality": ".ranking", "katz_centrality": ".ranking",
    "centrality": ".ranking",
    "laplacian": ".spectra", "algebraic_connectivity": ".spectra", "effective_resistance": ".spectra",
    "spectral_gap": ".spectra", "transition": ".spectra",
    "consensus": ".degroot",
    "temporal_reach": ".temporal", "chain_rounds": ".travel", "in_time": ".travel", "disagreement": ".mixing",
    "assortativity": ".correctness", "agents_right": ".correctness", "centrality_and_right": ".correctness",
    "assortativity_and_right": ".correctness",
    "edge_influence": ".influence", "without_edge": ".influence",
    "ring_graph": ".hypothetical", "torus_graph": ".hypothetical", "random_peers_graph": ".hypothetical",
    "small_world_graph": ".hypothetical", "small_world_peers_graph": ".hypothetical",
    "analyse": ".metrics",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))
