"""Debate in which sure peers are heard more often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.uncertainty import SOURCES, UncertaintyGuided
from .base import check_choice, check_number
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class UncertaintyGuidedMAD(Debate):
    r"""Uncertainty-guided routing (arXiv 2609.27150; form unpublished (?)): each round, each receiver draws k different
    peers with probability falling in their uncertainty,

    .. math:: p(i) \propto \exp(-u_i / T) .

    N = 8, k = 2, 14 rounds; n x rounds calls.

    Args:
        source: where u comes from: ``agreement`` (share of agents that disagree), ``tokens`` (minus the mean token
            log-probability; a model that does not tell counts as equally unsure) or ``stated`` confidence.
        temperature: T > 0.
        n, k, rounds, agent, stop: see :class:`goa_torch.methods.random_nodup.RandomNoDup`.
    """

    def __init__(self, pool: Pool, source: str = "agreement", temperature: float = 0.25, n: int | None = 8, k: int = 2,
                 rounds: int = 14, agent: str | None = None, stop: str | None = None) -> None:
        kind = method_name(self)
        check_choice(kind, "source", source, SOURCES)
        check_number(kind, "temperature", temperature, 1e-6, 1e6)
        super().__init__(pool, UncertaintyGuided(k, source, temperature), n, agent, rounds, stop)
        check_k_peers(kind, k, size(pool, n))
