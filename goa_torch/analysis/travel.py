"""How many rounds a chain of work needs: news that must pass through given agents, in order, over changing graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import UserError
from .graph import as_graph, rounds_of
from .reach import finished, layer_numbers, reach


def chain_rounds(graphs: Iterable[Any], experts: np.ndarray, max_rounds: int | None = None) -> np.ndarray:
    r"""Rounds of talking until the work of each chain is finished, by agents that make no mistakes.

    Layer l of a chain can be done by one agent alone, :math:`e_l`. Everybody passes on the most advanced result among
    its own and those it hears, and the expert of the next layer does it in the same round:

    .. math:: p_j(t+1) = m_j + [e_{m_j + 1} = j], \quad m_j = \max_{i \in \mathcal{N}_t(j) \cup \{j\}} p_i(t).

    The first expert works before anybody talks, so a chain of one layer needs no round. On a static graph it is the
    sum of the distances from expert to expert.

    Args:
        graphs: one graph a round, as anything :func:`~goa_torch.analysis.graph.as_graph` takes; may be endless.
        experts: [Q, d] agent of each layer of each chain; neighbouring layers have different agents.
        max_rounds: stop after so many.

    Returns:
        [Q] rounds, infinite if not within the graphs given.
    """
    chains, depth = experts.shape
    if (experts[:, 1:] == experts[:, :-1]).any():
        raise UserError("chain_rounds: neighbouring layers of a chain must have different agents")
    rounds, each = np.full(chains, 0.0 if depth <= 1 else np.inf), np.arange(chains)
    done: np.ndarray | None = None
    for number, given in enumerate(graphs, 1):
        if np.isfinite(rounds).all() or (max_rounds is not None and number > max_rounds):
            break
        graph = as_graph(given)
        if done is None:
            done = np.zeros((graph.n, chains), dtype=np.int8)
            done[experts[:, 0], each] = 1
        done = np.maximum(done, _loudest(graph.adjacency(), done))
        for layer in range(1, depth):  # who holds the layer before does this one
            agent = experts[:, layer]
            ready = np.flatnonzero(done[agent, each] == layer)
            done[agent[ready], ready] = layer + 1
        rounds[np.isinf(rounds) & (done.max(axis=0) == depth)] = number
    return rounds


def _loudest(adjacency: Any, done: np.ndarray) -> np.ndarray:
    """[n, Q] the most advanced result among those an agent hears, 0 if it hears nobody."""
    best = np.zeros_like(done)
    hears = np.diff(adjacency.indptr) > 0
    if hears.any():
        best[hears] = np.maximum.reduceat(done[adjacency.indices], adjacency.indptr[:-1][hears], axis=0)
    return best


def in_time(trace: Mapping[str, Any], domains: Sequence[str], skills: Mapping[str, Sequence[str]]) -> np.ndarray:
    """[T + 1] whether the graph that was drawn for a question could have finished it after each round of talking (0:
    independent answers), had its agents made no mistake: reachability of the chain of experts in time.

    Args:
        trace: of a result, or of a line of ``results.jsonl``.
        domains: the question's layers in order of evaluation (``question.metadata["domains"]``).
        skills: domains that each agent can do, by name.
    """
    names = list(trace["agents"])
    known = sorted({domain for mine in skills.values() for domain in mine} | set(domains))
    graphs = [graph.adjacency().toarray() > 0 for graph in rounds_of(trace)]
    hears = np.stack(graphs) if graphs else np.zeros((0, len(names), len(names)), dtype=bool)
    able = np.array([[domain in skills[name] for domain in known] for name in names])
    layers = layer_numbers([domains], known)
    return finished(reach(hears, able, layers), layers)[0]
