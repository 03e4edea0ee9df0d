"""Graphs by name: who hears whom for good, as edges between the positions of N agents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from .. import randomness
from ..errors import UserError, unknown
from ..types import Topology
from .positions import Positions
from .random_peers import ring_offsets

if TYPE_CHECKING:
    from ..state import State

#: Gives a number of lots in [0, 1), fresh ones at every call.
Draw = Callable[[int], Tensor]


def chain(n: int) -> Tensor:
    """0 -> 1 -> 2 -> ..., [2, n - 1]."""
    return torch.stack([torch.arange(n - 1), torch.arange(1, n)]) if n > 1 else torch.empty(2, 0, dtype=torch.long)


def star(n: int) -> Tensor:
    """0 -> everybody else, [2, n - 1]."""
    return torch.stack([torch.zeros(max(n - 1, 0), dtype=torch.long), torch.arange(1, max(n, 1))])


def tree(n: int, branching: int = 2) -> Tensor:
    """Every node to its ``branching`` children, breadth first, [2, n - 1]."""
    child = torch.arange(1, max(n, 1))
    return torch.stack([(child - 1) // branching, child])


def mesh(n: int) -> Tensor:
    """i -> j for all i < j, [2, n (n - 1) / 2]."""
    return torch.triu_indices(n, n, offset=1)


def layered(n: int, width: int | None = None) -> Tensor:
    """Layers of ``width`` nodes (by default the square root of n, rounded up), each node to all of the next layer."""
    width = width or max(1, math.isqrt(max(n - 1, 0)) + 1 if n > 1 else 1)
    edge_index = mesh(n)
    return edge_index[:, edge_index[1] // width - edge_index[0] // width == 1]


def random_dag(n: int, density: float, draw: Draw) -> Tensor:
    """``density`` n (n - 1) / 2 edges i -> j, i < j, drawn without replacement, one of them into every j > 0: nobody
    but the first is without predecessors. At least n - 1 edges."""
    edge_index = mesh(n)
    first, second = edge_index
    lot = draw(first.numel())
    parent = (draw(max(n - 1, 0)) * torch.arange(1, max(n, 1))).long()  # of 1, 2, ...
    must = parent[second - 1] == first if n > 1 else torch.zeros(0, dtype=torch.bool)
    count = max(n - 1, round(density * first.numel()))
    return edge_index[:, torch.argsort(lot - must.to(lot.dtype))[:count].sort().values]


def complete(n: int) -> Tensor:
    """Everybody to everybody else, [2, n (n - 1)]."""
    return both_ways(mesh(n))


def alone(n: int) -> Tensor:
    """Everybody to itself, [2, n]: agents that reread their own reply, for as many calls as a debate."""
    return torch.arange(n).expand(2, n).clone()


def ring(n: int, k: int = 2) -> Tensor:
    """From the k nearest places (-1, 1, -2, 2, ...), [2, n min(k, n - 1)]."""
    k = min(k, n - 1)
    here = torch.arange(n)[:, None].expand(n, max(k, 0))
    return torch.stack([((here + ring_offsets(max(k, 0))) % max(n, 1)).flatten(), here.flatten()])


def erdos_renyi(n: int, density: float, draw: Draw) -> Tensor:
    """Exactly ``density`` n (n - 1) / 2 undirected edges, rounded, drawn uniformly: G(n, M), so that cost is the same
    for every draw. O(n^2) memory."""
    pairs = mesh(n)
    count = round(density * pairs.size(1))
    return both_ways(pairs[:, torch.argsort(draw(pairs.size(1)))[:count].sort().values])


def random_regular(n: int, k: int, draw: Draw) -> Tensor:
    """An undirected graph in which everybody has k neighbours, [2, n k].

    The pairing model (Bollobas 1980); pairs that are loops or duplicates are shuffled together with as many random
    good ones until none is left, which is asymptotically uniform for fixed k. Dense graphs are drawn by their
    complement. n k must be even and k < n.
    """
    if not 0 <= k < max(n, 1) or n * k % 2:
        raise UserError(f"random_regular: no graph of {n} agents in which each has k = {k} neighbours; "
                        "choose k < N with N x k even")
    if n and 2 * k > n - 1:
        sparse = random_regular(n, n - 1 - k, draw)
        gone = torch.zeros(n * n, dtype=torch.bool)
        gone[sparse[0] * n + sparse[1]] = True
        everything = complete(n)
        return everything[:, ~gone[everything[0] * n + everything[1]]]
    stubs = torch.arange(n).repeat_interleave(k)
    while True:
        pairs = stubs[torch.argsort(draw(stubs.numel()))].view(-1, 2)
        for _ in range(100):
            bad = _loops_and_duplicates(pairs, n)
            count = int(bad.sum())
            if not count:
                return both_ways(pairs.t())
            mixed = torch.cat([bad.nonzero().flatten(), (draw(count + 1) * pairs.size(0)).long()]).unique()
            ends = pairs[mixed].flatten()
            pairs[mixed] = ends[torch.argsort(draw(ends.numel()))].view(-1, 2)


def _loops_and_duplicates(pairs: Tensor, n: int) -> Tensor:
    """Which pairs are loops, or the same as an earlier one."""
    key = pairs.amin(dim=1) * n + pairs.amax(dim=1)
    ordered, place = key.sort(stable=True)
    again = torch.zeros_like(key, dtype=torch.bool)
    again[place[1:]] = ordered[1:] == ordered[:-1]
    return again | (pairs[:, 0] == pairs[:, 1])


def numbered_lots(stream: int) -> Draw:
    """The numbers of a random stream, one after the other."""
    used = 0

    def draw(count: int) -> Tensor:
        nonlocal used
        used += count
        return torch.from_numpy(randomness.uniforms([stream], np.arange(used - count, used, dtype=np.uint64)))

    return draw


def both_ways(edge_index: Tensor) -> Tensor:
    """Every edge and its reverse."""
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)


_DAGS = ("chain", "star", "tree", "mesh", "layered", "random")
_DRAWN = ("random", "random_regular", "erdos_renyi")
_GRAPHS = ("complete", "ring", "random_regular", "erdos_renyi", "chain", "star", "tree", "layered", "alone")


def graph_names(directed: bool = False) -> tuple[str, ...]:
    """Undirected graphs for debates, or the directed acyclic ones in which positions speak in turn."""
    return _DAGS if directed else _GRAPHS


def graph_edges(name: str, n: int, k: int = 2, density: float = 0.4, draw: Draw | None = None,
                directed: bool = False) -> Tensor:
    """The edges of the graph ``name`` over positions 0 .. n - 1, [2, E]; undirected graphs have both directions.

    Args:
        k: in-degree of ``ring`` and ``random_regular``, children in a ``tree``.
        density: 2 |E| / (n (n - 1)) of ``erdos_renyi`` and ``random``.
        draw: lots for random graphs.
    """
    draw = draw or numbered_lots(0)
    if name not in graph_names(directed):
        raise unknown("graph", name, graph_names(directed))
    if name in ("chain", "star", "tree", "mesh", "layered"):
        build = {"chain": chain, "star": star, "mesh": mesh, "layered": layered}
        dag = tree(n, k) if name == "tree" else build[name](n)
        return dag if directed else both_ways(dag)
    if name == "random":
        return random_dag(n, density, draw)
    if name == "ring":
        return ring(n, k)
    if name == "random_regular":
        return random_regular(n, k, draw)
    if name == "erdos_renyi":
        return erdos_renyi(n, density, draw)
    return alone(n) if name == "alone" else complete(n)


def generations(edge_index: Tensor, n: int) -> Tensor:
    """[n] topological generation of each node of a directed acyclic graph: 0 without predecessors, else one more than
    the latest predecessor's."""
    level = torch.zeros(n, dtype=torch.long)
    for _ in range(n):
        sender, receiver = edge_index
        later = level.scatter_reduce(0, receiver, level[sender] + 1, "amax")
        if torch.equal(later, level):
            return level
        level = later
    raise ValueError("the graph has a cycle: generations are those of directed acyclic graphs")


class FixedGraph(nn.Module):
    """The same graph in every round, weight 1 on every edge; positions follow the listing of the agents. Random graphs
    are drawn once for each (seed, question), over the agents in the order of their names, whatever the listing.

    Args:
        graph: a name of :func:`graph_names`.
        k: see :func:`graph_edges`.
        density: see :func:`graph_edges`.
        directed: the directed acyclic graph of that name.
    """

    def __init__(self, graph: str = "ring", k: int = 2, density: float = 0.4, directed: bool = False) -> None:
        super().__init__()
        if graph not in graph_names(directed):
            raise unknown("graph", graph, graph_names(directed))
        if not 0 <= density <= 1:
            raise UserError(f"graph {graph!r}: density must lie between 0 and 1, not {density}")
        self.graph = graph
        self.k = k
        self.density = density
        self.directed = directed

    def forward(self, state: State, round: int) -> Topology:
        places = Positions.by_name(state) if self.graph in _DRAWN else Positions.by_listing(state)
        parts = [torch.empty(2, 0, dtype=torch.long)]
        for number, first in enumerate(state.ptr[:-1].tolist()):
            n = int(state.ptr[number + 1]) - first
            if n:
                edge_index = graph_edges(self.graph, n, self.k, self.density, self._draw(state, number), self.directed)
                parts.append(places.node_at[first + edge_index])
        edge_index = torch.cat(parts, dim=1)
        return Topology(edge_index, torch.ones(edge_index.size(1)))

    def check(self, n: int) -> None:
        """Raises :class:`UserError` if there is no such graph of ``n`` agents."""
        if self.graph == "random_regular" and (self.k >= n or n * self.k % 2):
            random_regular(n, self.k, torch.rand)

    def _draw(self, state: State, number: int) -> Draw:
        asked = state.questions[number]
        return numbered_lots(randomness.stream(state.recorder.seed, asked.task, asked.id, "topology", self.graph))

    def extra_repr(self) -> str:
        return f"graph={self.graph!r}, k={self.k}, density={self.density}, directed={self.directed}"
