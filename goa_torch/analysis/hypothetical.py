"""Graphs that could be run, of any size: what theory is compared with."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .. import randomness
from ..errors import UserError
from .graph import AgentGraph


def ring_graph(n: int, k: int = 2) -> AgentGraph:
    """Everybody hears the k nearest places (-1, 1, -2, 2, ...); k = 1 is the directed cycle."""
    return _heard((np.arange(n)[:, None] + np.array(_offsets(min(k, n - 1)), dtype=np.int64)) % max(n, 1), n)


def torus_graph(rows: int, columns: int) -> AgentGraph:
    """Everybody hears the four neighbours on a grid that closes in both directions (at least 3 x 3)."""
    if min(rows, columns) < 3:
        raise UserError(f"a torus of {rows} x {columns} has double edges; give at least 3 x 3")
    row, column = np.divmod(np.arange(rows * columns), columns)
    heard = [((row + a) % rows) * columns + (column + b) % columns for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    return _heard(np.stack(heard, axis=1), rows * columns)


def random_peers_graph(n: int, k: int = 2, seed: int = 0, round: int = 1) -> AgentGraph:
    """Everybody hears k different others, drawn uniformly (Random-NoDup of arXiv 2609.27150); of at most k others,
    all. Another ``round`` is another draw."""
    chosen = _drawn(n, n - 1, min(k, n - 1), randomness.stream("random_peers", seed, round))
    return _heard(chosen + (chosen >= np.arange(n)[:, None]), n)


def small_world_peers_graph(n: int, k: int = 2, seed: int = 0, round: int = 1) -> AgentGraph:
    r"""Of k peers the :math:`\lceil k/2 \rceil` nearest on the ring are kept, the others are drawn uniformly from
    outside the ring neighbourhood of k (the small-world-inspired rule of arXiv 2609.27150). Another ``round`` is
    another draw of the distant ones."""
    near = (k + 1) // 2
    if n <= k + (k - near):
        raise UserError(f"small_world_peers_graph: {n} agents are too few for k = {k}; "
                        f"give at least {2 * k - near + 1}")
    here, offsets = np.arange(n)[:, None], np.array(_offsets(k), dtype=np.int64)
    number = _drawn(n, n - 1 - k, k - near, randomness.stream("small_world_peers", seed, round))
    distant = here + (offsets > 0).sum() + 1 + number
    return _heard(np.concatenate([here + offsets[:near], distant], axis=1) % n, n)


def small_world_graph(n: int, k: int = 4, rewired: float = 0.1, seed: int = 0) -> AgentGraph:
    """The undirected small world of Watts and Strogatz (1998), in the variant of Newman and Watts (1999) that adds
    shortcuts instead of moving edges, so that it is always connected: a ring of k nearest places and as many random
    edges as ``rewired`` of its own."""
    ring = ring_graph(n, k)
    count = int(np.round(rewired * n * min(k, n - 1) / 2))
    lots = randomness.uniforms([randomness.stream("small_world", seed)], np.arange(2 * count))
    ends = (lots * n).astype(np.int64).reshape(2, count)
    ends = ends[:, ends[0] != ends[1]]
    both = np.concatenate([ends, ends[::-1]], axis=1)
    shortcuts = sparse.coo_array((np.ones(both.shape[1]), (both[0], both[1])), shape=(n, n))
    total = sparse.csr_array(ring.weights + shortcuts)
    total.data[:] = 1.0
    return AgentGraph(total)


def _offsets(k: int) -> list[int]:
    """The k nearest places on a ring: -1, 1, -2, 2, ..."""
    return [(-1) ** (step + 1) * (step // 2 + 1) for step in range(k)]


def _drawn(n: int, among: int, k: int, stream: int) -> np.ndarray:
    """[n, k] k different numbers of 0 .. among - 1 for each of n, uniformly."""
    chosen = np.zeros((n, 0), dtype=np.int64)
    for draw in range(max(k, 0)):
        left = among - draw  # the lot picks one of the numbers that are left
        lots = randomness.uniforms([stream], np.arange(n) * k + draw)
        number = np.minimum((lots * left).astype(np.int64), left - 1)
        for taken in np.sort(chosen, axis=1).T:
            number += number >= taken
        chosen = np.concatenate([chosen, number[:, None]], axis=1)
    return chosen


def _heard(senders: np.ndarray, n: int) -> AgentGraph:
    """Weight 1 from each of ``senders`` [n, k] to the receiver of its row; places that coincide are one edge."""
    if n < 0:
        raise UserError(f"a graph of {n} agents is asked for; give 0 or more")
    receivers = np.repeat(np.arange(n), senders.shape[1])
    entries = sparse.coo_array((np.ones(receivers.size), (receivers, senders.ravel())), shape=(n, n))
    weights = sparse.csr_array(entries)
    weights.data[:] = 1.0
    return AgentGraph(weights)
