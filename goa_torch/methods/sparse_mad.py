"""Multi-agent debate over a fixed sparse graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.graphs import FixedGraph
from ..topology.random_peers import SmallWorld
from .base import check_count, check_number
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class SparseMAD(Debate):
    r"""Debate over a fixed graph, undirected as published (Li et al. 2024, arXiv 2406.11776), of density

    .. math:: D = \frac{2 |E|}{n (n - 1)} .

    Each agent reads its neighbours' latest replies and its own; majority at the end. n x rounds calls (an agent
    without neighbours is called once). The defaults are a ring of six and four rounds (?).

    Args:
        graph: ``complete``, ``ring``, ``random_regular``, ``erdos_renyi``, ``small_world`` (directed: of k peers the
            nearest on the ring and others drawn once, see :class:`goa_torch.topology.random_peers.SmallWorld`),
            ``chain``, ``star``, ``tree``, ``layered``, ``alone`` (everybody rereads only its own reply: the control of
            a debate at equal calls). Positions are copies, or agents as they are listed.
        k: neighbours in ``ring``, ``random_regular`` and ``small_world``, children in ``tree``.
        density: D of ``erdos_renyi``.
        n, agent, rounds, stop: see :class:`goa_torch.methods.mad.MAD`.
    """

    def __init__(self, pool: Pool, graph: str = "ring", k: int = 2, density: float = 0.4, n: int | None = 6,
                 agent: str | None = None, rounds: int = 4, stop: str | None = None) -> None:
        check_count(method_name(self), "k", k)
        check_number(method_name(self), "density", density, 0, 1)
        connect = SmallWorld(k, redraw=False) if graph == "small_world" else FixedGraph(graph, k, density)
        super().__init__(pool, connect, n, agent, rounds, stop)
        if graph in ("ring", "random_regular", "small_world"):
            check_k_peers(method_name(self), k, size(pool, n))
        if isinstance(connect, FixedGraph):
            connect.check(size(pool, n))
