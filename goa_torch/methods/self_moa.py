"""Self-MoA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.readout import MeanReadout
from ..nn.selection import Copies
from ..topology.fixed import Complete
from ..topology.stopping import FixedRounds
from .base import Method, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class SelfMoA(Method):
    r"""Mixture-of-Agents with samples of a single agent (Li et al. 2025, arXiv 2502.00674): n samples of the best agent
    are synthesised by the same agent,

    .. math:: R = v \left( Q, \bigoplus_{i=1}^{n} R_i \right), \quad R_i \sim v(Q).

    layers x n + 1 calls: 7.

    Args:
        agent: its name; the meta-LLM by default. ``best`` is filled in by a benchmark, on validation questions.
        n: samples.
        layers: proposer layers, the first one included; the published setting has one.
    """

    def __init__(self, pool: Pool, agent: str | None = None, n: int = 6, layers: int = 1) -> None:
        check_count("self_moa", "n", n)
        check_count("self_moa", "layers", layers)
        if agent is not None:
            pool[agent]
        super().__init__(pool, Copies(agent, n), MeanReadout(always=True, agent=agent), Complete(self_loops=True),
                         stop=FixedRounds(layers - 1))
