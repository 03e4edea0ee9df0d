"""Debate whose agents know how sure the others are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.agent_conv import AgentConv
from ..nn.chat_conv import ChatConv
from ..topology.confident import Confident
from ..topology.uncertainty import SOURCES
from .base import check_choice
from .debate import Debate

if TYPE_CHECKING:
    from ..agents.pool import Pool


class DebUnc(Debate):
    r"""DebUnc (Yoffe et al. 2024, arXiv 2407.06426): full debate in which uncertainty u measured in each reply is told
    to those who hear it, as a confidence from 1 to 10 in the prompt or by scaling their attention to the message,

    .. math:: R^{(t+1)}_j = v_j \left( Q, \dots, R^{(t)}_j, \bigoplus_{i \ne j} c_i R^{(t)}_i \right), \quad
              c_i \propto 1 / u_i .

    The defaults are the published setting: 3 agents, 3 rounds, each agent keeps its full chat history, majority at the
    end. n x rounds calls.

    Deviations: u is minus the mean token log-probability, since models tell that and not the mean token entropy. With
    ``attention`` (the paper's *Attention-Others*, which does best in it together with *Attention-All*), peers' weights
    are divided by their mean, so that the messages' mass of attention is kept roughly and not exactly.

    Args:
        tell: ``prompt``, or ``attention`` for agents that run in this process.
        source: of u: ``tokens``, ``agreement`` or ``stated``. A model that does not tell its log-probabilities counts
            as equally unsure.
        history: keep the whole chat; without, only the latest replies are in context, as in the sparse-debate papers,
            and a confidence is the number that messages have for their relevance.
        n, agent, rounds, stop: see :class:`goa_torch.methods.mad.MAD`.
    """

    def __init__(self, pool: Pool, tell: str = "prompt", source: str = "tokens", n: int | None = 3,
                 agent: str | None = None, rounds: int = 3, history: bool = True, stop: str | None = None) -> None:
        check_choice("debunc", "tell", tell, ("prompt", "attention"))
        check_choice("debunc", "source", source, SOURCES)
        check_choice("debunc", "history", history, (True, False))
        told = tell == "prompt"
        if history:
            passing = ChatConv("none", template="debunc") if told else ChatConv("attention")
        else:
            passing = AgentConv("numbers" if told else "attention", label_ones=True)
        super().__init__(pool, Confident(source, "levels" if told else "mean"), n, agent, rounds, stop, passing)
