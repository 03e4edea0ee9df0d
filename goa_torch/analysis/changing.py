"""Graphs that change from round to round, for the libraries that others use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from .graph import AgentGraph, as_graph

if TYPE_CHECKING:
    import networkx
    from torch_geometric.data import Data


def rounds_to_pyg(graphs: Iterable[Any]) -> Data:
    """One PyG ``Data`` of all rounds: ``edge_index`` and ``edge_weight`` (float32) of every message, and its
    ``edge_round`` (from 1); ``num_nodes``. What :class:`~goa_torch.export.pyg.RunGraphs` holds of a recorded run.

    Args:
        graphs: one a round, as anything :func:`~goa_torch.analysis.graph.as_graph` takes.

    Raises:
        UserError: for rounds of different numbers of agents.
    """
    import torch
    from torch_geometric.data import Data

    rounds = _same_agents(graphs)
    edges = [graph.edges() for graph in rounds]
    index = np.concatenate([np.empty((2, 0), dtype=np.int64), *(index for index, _ in edges)], axis=1)
    weight = np.concatenate([np.empty(0), *(weight for _, weight in edges)])
    number = np.repeat(np.arange(1, len(edges) + 1), [len(weight) for _, weight in edges])
    return Data(edge_index=torch.from_numpy(index), edge_weight=torch.from_numpy(weight).float(),
                edge_round=torch.from_numpy(number), num_nodes=rounds[0].n if rounds else 0)


def rounds_to_networkx(graphs: Iterable[Any]) -> networkx.MultiDiGraph:
    """A ``MultiDiGraph`` of edges from senders to receivers, the round (from 1) as their key, with attribute
    ``weight``; nodes as in :meth:`~goa_torch.analysis.graph.AgentGraph.to_networkx`.

    Args:
        graphs: see :func:`rounds_to_pyg`.
    """
    import networkx as nx

    rounds = _same_agents(graphs)
    joined = nx.MultiDiGraph()
    if rounds:
        joined.add_nodes_from(range(rounds[0].n))
        nx.set_node_attributes(joined, dict(enumerate(rounds[0].names)), "name")
    for number, graph in enumerate(rounds, 1):
        index, weight = graph.edges()
        joined.add_edges_from((s, r, number, {"weight": w}) for s, r, w in zip(*index.tolist(), weight.tolist()))
    return joined


def _same_agents(graphs: Iterable[Any]) -> list[AgentGraph]:
    rounds = [as_graph(graph) for graph in graphs]
    if len({graph.n for graph in rounds}) > 1:
        raise UserError(f"rounds have {sorted({graph.n for graph in rounds})} agents; give graphs of the same agents")
    return rounds
