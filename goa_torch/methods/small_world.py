"""Debate on a ring with distant peers drawn anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.random_peers import SmallWorld
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class SmallWorldMAD(Debate):
    r"""One local peer is kept, one distant peer is drawn anew each round ("small-world-inspired"),

    .. math:: \mathcal{N}_t(j) = \{ j - 1, X \}, \quad
              X \sim \mathrm{Uniform}(V \setminus \{ j - 1, j, j + 1 \}) \quad (k = 2).

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
        super().__init__(pool, SmallWorld(k), n, agent, rounds, stop)
        check_k_peers(method_name(self), k, size(pool, n))
