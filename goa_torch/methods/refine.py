"""Self-Refine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.feedback import FeedbackConv
from ..nn.readout import LastReadout
from ..nn.selection import Copies
from ..topology.fixed import SelfLoops
from ..topology.stopping import FixedRounds
from .base import Method, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class Refine(Method):
    r"""One agent answers, criticises its answer and answers again (Self-Refine, Madaan et al. 2023, arXiv 2303.17651),

    .. math:: F^{(t)} = v(Q, R^{(t)}), \quad R^{(t+1)} = v(Q, R^{(t)}, F^{(t)}),

    until its feedback finds nothing to change. At most 1 + 2 x rounds calls: 5, the published comparison saying "about
    six" (?). Only the latest reply and its feedback are in context, not all earlier ones (?).

    Args:
        agent: its name; the meta-LLM by default.
        rounds: times the answer is rewritten at most.
    """

    templates = ("feedback", "refine")

    def __init__(self, pool: Pool, agent: str | None = None, rounds: int = 2) -> None:
        check_count("refine", "rounds", rounds, least=0)
        if agent is not None:
            pool[agent]
        super().__init__(pool, Copies(agent, 1), LastReadout(), SelfLoops(), FeedbackConv("none"), FixedRounds(rounds))
