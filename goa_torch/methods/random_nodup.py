"""Debate with peers drawn anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.random_peers import RandomPeers
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class RandomNoDup(Debate):
    r"""Each round, each receiver draws k different peers uniformly from the others ("Random-NoDup"),

    .. math:: \mathcal{N}_t(j) \sim \mathrm{Uniform} \{ S \subseteq V \setminus \{j\} : |S| = k \},

    without memory between rounds; how many hear an agent is left free.

    The published preset: N = 8 equal agents, k = 2, T = 14 rounds of which the first is the independent answer (?);
    only the latest messages are in context (?), majority at the end with seeded ties (?). Rules: "Do We Need Complex
    Topology Control?" (arXiv 2609.27150). n x rounds calls.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        k: peers of each receiver.
        rounds: answers of each agent, the independent first one included.
        agent: whose copies; the meta-LLM by default.
        stop: a rule that ends a question earlier, such as ``rounds:2`` or ``stable:2 | entropy:0.3``.
    """

    def __init__(self, pool: Pool, n: int | None = 8, k: int = 2, rounds: int = 14, agent: str | None = None,
                 stop: str | None = None) -> None:
        super().__init__(pool, RandomPeers(k), n, agent, rounds, stop)
        check_k_peers(method_name(self), k, size(pool, n))
