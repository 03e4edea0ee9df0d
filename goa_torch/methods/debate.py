"""Multi-agent debate: everybody answers, hears some of the others, answers again; a majority decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.readout import VoteReadout
from ..nn.selection import Copies, Everyone
from ..topology.fixed import Complete
from ..topology.graphs import FixedGraph
from ..topology.random_peers import RandomPeers, SmallWorld
from ..topology.stopping import parse_stop
from .base import Method, check_choice, check_count
from .registry import name_of

if TYPE_CHECKING:
    from ..agents.pool import Pool

#: Rules that say who hears whom, by name, for methods that switch between them.
RULES = ("ring", "small_world", "random_nodup", "complete")


class Debate(Method):
    r"""A debate over any topology,

    .. math:: R^{(t+1)}_j = v_j \left( Q, R^{(t)}_j, \bigoplus_{i \in \mathcal{N}_t(j)} R^{(t)}_i \right),

    then the majority of the last answers. Only the latest replies are in context. At most n x rounds calls.

    Args:
        connect: who hears whom.
        n: that many copies of ``agent``; ``None`` for all agents of the pool, once each, at the positions in which
            they are listed.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent, the independent first one included.
        stop: a rule that ends a question earlier (:func:`goa_torch.topology.stopping.parse_stop`).
        passing: how agents hear; by default the order of names, nothing said about weights.
        readout: how the answer is read out; majority vote by default.
    """

    def __init__(self, pool: Pool, connect: nn.Module, n: int | None = 8, agent: str | None = None, rounds: int = 14,
                 stop: str | None = None, passing: nn.Module | None = None, readout: nn.Module | None = None) -> None:
        kind = method_name(self)
        check_count(kind, "rounds", rounds)
        super().__init__(pool, participants(kind, pool, n, agent), readout or VoteReadout(), connect,
                         passing or AgentConv("none"), parse_stop(stop, rounds - 1))


def method_name(method: Method) -> str:
    """What messages call a method."""
    return name_of(type(method))


def participants(method: str, pool: Pool, n: int | None, agent: str | None) -> nn.Module:
    """The select-module for ``n`` copies of ``agent``, or for all agents of the pool."""
    if agent is not None:
        pool[agent]
        if n is None:
            raise UserError(f"{method}: agent = {agent!r} goes with n, the number of its copies; "
                            "leave it out for all agents of the pool")
    if n is None:
        return Everyone()
    check_count(method, "n", n)
    return Copies(agent, n)


def size(pool: Pool, n: int | None) -> int:
    """How many take part."""
    return len(pool) if n is None else n


def check_k_peers(method: str, k: int, n: int) -> None:
    """Raises :class:`UserError` unless each of ``n`` agents can hear ``k`` others."""
    check_count(method, "k", k)
    if k >= max(n, 2):
        raise UserError(f"{method}: k = {k}, but {n} agents take part; choose k between 1 and {max(n - 1, 1)}")


def rule(method: str, setting: str, name: str, k: int) -> nn.Module:
    """The connect-module of a rule of :data:`RULES`."""
    check_choice(method, setting, name, RULES)
    if name == "complete":
        return Complete()
    return {"ring": lambda: FixedGraph("ring", k), "small_world": lambda: SmallWorld(k),
            "random_nodup": lambda: RandomPeers(k)}[name]()
