"""Pools of many agents: copies of the few that there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..errors import UserError
from .base import Agent
from .pool import Pool


def grown(agents: Sequence[Agent], size: int, where: str = "size") -> list[Agent]:
    """``size`` agents: the first of ``agents``, or all of them and then copies in turn, which share model, card and
    role and are named ``math_001``, ``math_002``, ... (so they have random streams of their own).

    Raises:
        UserError: if ``size`` is below 1 or there is nothing to copy; it begins with ``where``.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UserError(f"{where}: must be a whole number of at least 1, not {size!r}")
    if not agents:
        raise UserError(f"{where}: there is no agent to copy; list at least one")
    copies = (Agent(f"{agent.name}_{number:03d}", agent.model, agent.card, agent.system)
              for number in range(1, 1 + size // len(agents)) for agent in agents)
    return [*agents[:size], *islice(copies, max(0, size - len(agents)))]


def grow_pool(pool: Pool, size: int) -> Pool:
    """A pool of ``size`` agents (see :func:`grown`) that is like ``pool`` otherwise; weights are loaded once.

    Raises:
        UserError: if ``size`` is below 1, or leaves out the agent that is the meta-LLM.
    """
    agents = grown(pool.agents, size)
    if pool.meta in pool.agents and pool.meta not in agents:
        raise UserError(f"pool {pool.name!r}: {size} agents leave out {pool.meta.name!r}, which is its meta-LLM")
    return Pool(agents, pool.prompts, pool.meta, pool.sampling, f"{pool.name} x {size}", pool.variables, pool.judging)
