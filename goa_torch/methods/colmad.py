"""Collaborative debate: two debaters that help each other, one judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.readout import MeanReadout
from ..nn.selection import Copies, Everyone
from ..topology.fixed import Complete
from ..topology.stopping import FixedRounds
from .base import Method, check_agents, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class ColMAD(Method):
    r"""ColMAD ("When and Why Does Multi-Agent Debate Fail", arXiv 2510.20963): two debaters criticise each other
    *supportively* (they add what the other missed instead of winning), then a judge decides,

    .. math:: R'_a = v_a(Q, R_a, R_b), \quad R'_b = v_b(Q, R_b, R_a), \quad R = \mathrm{judge}(Q, R'_a, R'_b).

    2 x rounds + 1 calls: 5. Published for error detection, not for question answering: not comparable with its figures.
    Readings (?): the judge is the meta-LLM and sees the last replies, not the whole transcript.

    Args:
        agents: names of the two debaters; two copies of the meta-LLM by default.
        rounds: replies of each debater, the independent first one included.
    """

    templates = ("supportive", "judge")

    def __init__(self, pool: Pool, agents: Sequence[str] | None = None, rounds: int = 2) -> None:
        check_count("colmad", "rounds", rounds)
        check_agents("colmad", pool, agents)
        if agents is not None and (len(agents) != 2 or agents[0] == agents[1]):
            raise UserError(f"colmad: agents = {agents!r} must name two different agents")
        super().__init__(pool, Copies(None, 2) if agents is None else Everyone(agents),
                         MeanReadout("none", always=True, template="judge"), Complete(),
                         AgentConv("none", template="supportive"), FixedRounds(rounds - 1))
