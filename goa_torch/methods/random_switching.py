"""Debate under a rule drawn anew each round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..topology.switching import RandomSwitching
from .base import check_names
from .debate import Debate, check_k_peers, method_name, rule, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class RandomSwitchingMAD(Debate):
    """Random switching (arXiv 2609.27150): each question draws its rule for each round, uniformly from ``rules`` (?).
    N = 8, k = 2, T = 14; n x rounds calls.

    Args:
        rules: of ``ring``, ``small_world``, ``random_nodup``, ``complete``.
        n, k, rounds, agent, stop: see :class:`goa_torch.methods.random_nodup.RandomNoDup`.
    """

    def __init__(self, pool: Pool, rules: Sequence[str] = ("ring", "small_world", "random_nodup"),
                 n: int | None = 8, k: int = 2, rounds: int = 14, agent: str | None = None,
                 stop: str | None = None) -> None:
        kind = method_name(self)
        check_names(kind, "rules", rules)
        connect = RandomSwitching([rule(kind, "rules", name, k) for name in rules])
        super().__init__(pool, connect, n, agent, rounds, stop)
        check_k_peers(kind, k, size(pool, n))
