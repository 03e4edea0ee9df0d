"""Independent answers and a majority: much of what debates gain is this."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.readout import VoteReadout
from ..nn.selection import Copies, Everyone, TopK, check_k
from .base import Method, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class Vote(Method):
    """First answers of several agents, majority. N x samples calls, or 1 + k x samples with a selection.

    Unparsed and unfinished answers abstain; ties are drawn from a named stream.

    Args:
        k: agents chosen by the meta-LLM as in Graph-of-Agents (-1: as many as the difficulty it rates, one more
            call); all agents by default.
        samples: answers of each agent: raise it to match the tokens of the method it is compared with.
        tries: calls to the meta-LLM at most until its choice can be read.
    """

    def __init__(self, pool: Pool, k: int | None = None, samples: int = 1, tries: int = 1) -> None:
        check_count("vote", "samples", samples)
        check_count("vote", "tries", tries)
        if k is not None:
            check_k(k, pool, "vote")
        select = Everyone(copies=samples) if k is None else TopK(k, tries, samples, judging=pool.judging)
        super().__init__(pool, select, VoteReadout())


class SelfConsistency(Method):
    """n samples of one agent, majority vote (Wang et al. 2022, arXiv 2203.11171). n calls.

    Args:
        agent: its name; the meta-LLM by default.
        n: samples; 6 matches Graph-of-Agents' "multi-agent (6)".
    """

    def __init__(self, pool: Pool, agent: str | None = None, n: int = 6) -> None:
        check_count("self_consistency", "n", n)
        super().__init__(pool, Copies(agent, n), VoteReadout())
        if agent is not None:
            pool[agent]
