"""Debate under one rule first and another one later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.switching import StageSwitching
from .base import check_count
from .debate import Debate, check_k_peers, method_name, rule, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class StageSwitchingMAD(Debate):
    """Stage-based switching (arXiv 2609.27150): peers by the ``early`` rule up to round ``until``, by the ``late`` one
    after it. Which rules and when is unpublished (?): here random peers for three rounds of talking, then the ring.
    N = 8, k = 2, T = 14; n x rounds calls.

    Args:
        early, late: ``ring``, ``small_world``, ``random_nodup`` or ``complete``.
        until: last round of talking under the early rule.
        n, k, rounds, agent, stop: see :class:`goa_torch.methods.random_nodup.RandomNoDup`.
    """

    def __init__(self, pool: Pool, early: str = "random_nodup", late: str = "ring", until: int = 3,
                 n: int | None = 8, k: int = 2, rounds: int = 14, agent: str | None = None,
                 stop: str | None = None) -> None:
        kind = method_name(self)
        check_count(kind, "until", until, least=0)
        connect = StageSwitching(rule(kind, "early", early, k), rule(kind, "late", late, k), until)
        super().__init__(pool, connect, n, agent, rounds, stop)
        check_k_peers(kind, k, size(pool, n))
