"""Debate that is skipped where agents agree, read out by trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.trust import TrustReadout
from ..topology.fixed import Complete
from ..topology.stopping import Agreement, AnyOf
from .base import check_number
from .debate import Debate

if TYPE_CHECKING:
    from ..agents.pool import Pool


class ArmorMAD(Debate):
    r"""ARMOR-MAD (arXiv 2606.13197): no debate if at least ``gate`` of the agents agree at once; stops when all agree;
    the answer cluster with most trust wins, trust being the mean TF-IDF cosine of a reply to the others, 0 for
    outliers,

    .. math:: \hat a = \arg\max_a \sum_{i : a_i = a} \tau_i, \quad
              \tau_i = \bar s_i \, [\bar s_i \ge \mu(\bar s) - z \, \sigma(\bar s)] .

    At most n x rounds calls, n if the gate holds.

    Readings (?): what counts as an outlier is unpublished, here z = 1.5 standard deviations below the mean; the cosine
    is of whole replies; three rounds.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent at most, the independent first one included.
        gate: share of all agents.
        outlier: z.
        stop: a further rule that ends a question earlier.
    """

    def __init__(self, pool: Pool, n: int | None = None, agent: str | None = None, rounds: int = 3,
                 gate: float = 0.67, outlier: float = 1.5, stop: str | None = None) -> None:
        check_number("armor_mad", "gate", gate, 0, 1)
        check_number("armor_mad", "outlier", outlier, 0, 1e6)
        super().__init__(pool, Complete(), n, agent, rounds, stop, readout=TrustReadout(outlier))
        self.stop = AnyOf(Agreement(gate, gate=True), Agreement(), self.stop)
