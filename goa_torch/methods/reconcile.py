"""A round table of agents that state their confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.grouped import ConfidenceReadout, GroupedConv
from ..topology.fixed import Complete
from ..topology.stopping import Agreement, AnyOf
from .debate import Debate

if TYPE_CHECKING:
    from ..agents.pool import Pool


class ReConcile(Debate):
    r"""ReConcile (Chen et al. 2023, arXiv 2309.13007): agents answer with an explanation and a confidence; each round
    they read everybody's replies grouped by answer and may change their mind; stops when all agree; vote weighted by
    recalibrated confidence,

    .. math:: \hat a = \arg\max_a \sum_{i : a_i = a} f(p_i) .

    At most n x rounds calls: first answers and three rounds of discussion.

    Readings (?) and deviations: no convincing samples are shown, since they are picked by gold answers; a reply that
    states no confidence counts as little as the least sure; the published table has three agents of different makers,
    ours takes the whole pool.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent at most, the independent first one included.
        stop: a further rule that ends a question earlier.
    """

    first_template = "confident"

    def __init__(self, pool: Pool, n: int | None = None, agent: str | None = None, rounds: int = 4,
                 stop: str | None = None) -> None:
        super().__init__(pool, Complete(), n, agent, rounds, stop, GroupedConv(), ConfidenceReadout())
        self.stop = AnyOf(Agreement(), self.stop)
