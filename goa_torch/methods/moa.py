"""Mixture-of-Agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..nn.agent_conv import AgentConv
from ..nn.readout import MeanReadout
from ..nn.selection import Everyone
from ..topology.fixed import Complete
from ..topology.stopping import FixedRounds
from .base import Method, check_agents, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class MoA(Method):
    r"""Layers of agents, each of which sees all replies of the layer before (Wang et al. 2024, arXiv 2406.04692):

    .. math:: R^{(l+1)}_j = v_j \left( Q, \bigoplus_{i=1}^{N} R^{(l)}_i \right),

    then one synthesis by the meta-LLM. It is Graph-of-Agents' layers with k = N, the complete graph with self loops,
    all weights 1 and mean readout (Proposition 1 of arXiv 2604.17148). layers x N + 1 calls: 19 for 6 agents and 3
    layers.

    Args:
        layers: proposer layers, the first one included.
        agents: names of the proposers; all agents by default.
    """

    def __init__(self, pool: Pool, layers: int = 3, agents: Sequence[str] | None = None) -> None:
        check_count("moa", "layers", layers)
        check_agents("moa", pool, agents)
        super().__init__(pool, Everyone(agents), MeanReadout(always=True), Complete(self_loops=True), AgentConv(),
                         FixedRounds(layers - 1))
