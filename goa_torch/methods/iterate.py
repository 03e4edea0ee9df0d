"""One agent that rereads its own reply: the rival of every graph at equal calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.agent_conv import AgentConv
from ..nn.readout import LastReadout
from ..nn.selection import Copies
from ..topology.fixed import SelfLoops
from ..topology.stopping import FixedRounds
from .base import Method, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class Iterate(Method):
    r"""One agent answers and then improves its own reply, :math:`R \leftarrow v(Q, R)`, ``calls`` calls in all.

    A graph of one node with a self loop: whatever a graph of agents gains beyond this, it gains by listening.

    Args:
        agent: its name; the meta-LLM by default.
        calls: as many as the graph it is compared with makes (11: Graph-of-Agents, k = 3, max).
    """

    def __init__(self, pool: Pool, agent: str | None = None, calls: int = 11) -> None:
        check_count("iterate", "calls", calls)
        super().__init__(pool, Copies(agent, 1), LastReadout(), SelfLoops(), AgentConv("none"), FixedRounds(calls - 1))
        if agent is not None:
            pool[agent]
