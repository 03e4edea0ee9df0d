"""Debate on a ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.graphs import FixedGraph
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class RingMAD(Debate):
    r"""Every receiver hears its k nearest neighbours on a ring, the same ones in every round,

    .. math:: \mathcal{N}(j) = \{ j - 1, j + 1 \} \bmod N \quad (k = 2).

    The published preset: N = 8 equal agents, k = 2, T = 14 rounds of which the first is the independent answer (?);
    only the latest messages are in context (?), majority at the end with seeded ties (?). Rules: "Do We Need Complex
    Topology Control?" (arXiv 2609.27150). n x rounds calls.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool, around the ring as they are listed.
        k: peers of each receiver.
        rounds: answers of each agent, the independent first one included.
        agent: whose copies; the meta-LLM by default.
        stop: a rule that ends a question earlier, such as ``rounds:2`` or ``stable:2 | entropy:0.3``.
    """

    def __init__(self, pool: Pool, n: int | None = 8, k: int = 2, rounds: int = 14, agent: str | None = None,
                 stop: str | None = None) -> None:
        super().__init__(pool, FixedGraph("ring", k), n, agent, rounds, stop)
        check_k_peers(method_name(self), k, size(pool, n))
