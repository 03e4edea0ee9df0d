"""Multi-agent debate in which everybody hears everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.agent_conv import AgentConv
from ..nn.chat_conv import ChatConv
from ..topology.fixed import Complete
from .base import check_choice
from .debate import Debate

if TYPE_CHECKING:
    from ..agents.pool import Pool


class MAD(Debate):
    r"""Multi-agent debate (Du et al. 2023, arXiv 2305.14325): every agent reads every other agent's last answer, then
    answers again; majority at the end.

    .. math:: R^{(t+1)}_j = v_j \left( Q, R^{(t)}_j, \bigoplus_{i \ne j} R^{(t)}_i \right)

    The defaults are the published setting: 3 agents, 2 rounds, each agent keeps its full chat history. ``history =
    false`` is the form that the sparse-debate papers compare with (?): only the latest replies are in context.
    n x rounds calls.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent, the independent first one included.
        history: keep the whole chat.
        stop: a rule that ends a question earlier, such as ``unanimity`` or ``stable:2 | entropy:0.3``.
    """

    def __init__(self, pool: Pool, n: int | None = 3, agent: str | None = None, rounds: int = 2, history: bool = True,
                 stop: str | None = None) -> None:
        check_choice("mad", "history", history, (True, False))
        super().__init__(pool, Complete(), n, agent, rounds, stop, ChatConv() if history else AgentConv("none"))
