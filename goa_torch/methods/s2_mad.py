"""Debate only with those who disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.disagreement import Disagreement
from ..topology.stopping import Agreement, AnyOf
from .debate import Debate

if TYPE_CHECKING:
    from ..agents.pool import Pool


class S2MAD(Debate):
    r"""Selective sparse debate (Zeng et al. 2025, arXiv 2502.04790): an agent hears only peers whose answer differs
    from its own, one for each distinct answer (redundant messages are dropped), and is not called if there are none;
    stops when all agree,

    .. math:: \mathcal{N}_t(j) = \{ \min \{ i : a_i = a \} : a \in A_t \setminus \{ a_j \} \} .

    At most n x rounds calls.

    Readings (?): views are the same if the question's reader finds their answers equal (published: similarity of
    embedded replies, within and between groups); who gave no answer is not heard. Six agents, three rounds.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent at most, the independent first one included.
        stop: a further rule that ends a question earlier.
    """

    def __init__(self, pool: Pool, n: int | None = 6, agent: str | None = None, rounds: int = 3,
                 stop: str | None = None) -> None:
        super().__init__(pool, Disagreement(), n, agent, rounds, stop)
        self.stop = AnyOf(Agreement(), self.stop)
