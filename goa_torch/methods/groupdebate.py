"""Debate in groups that exchange summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UserError
from ..nn.summaries import SummaryConv
from ..topology.groups import Groups
from .base import check_count
from .debate import Debate, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class GroupDebate(Debate):
    """GroupDebate (Liu et al. 2024, arXiv 2409.14051): agents debate inside groups; after each stage every group is
    summarised, and the next stage begins with everybody reading the other groups' summaries; majority at the end.

    Calls: n x stages x rounds, and one summary for each group between stages: 6 x 2 x 2 + 2 = 26.

    Readings (?): the meta-LLM writes the summaries; an agent does not read the summary of its own group, whose replies
    it has heard; six agents in two groups, two stages of two rounds.

    Args:
        groups: number of groups; neighbours in the listing share one.
        stages: times a group debates.
        rounds: answers of each agent in a stage (in the first one the independent answer, later the one to the
            summaries included).
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        stop: a rule that ends a question earlier.
    """

    templates = ("summary", "group")

    def __init__(self, pool: Pool, groups: int = 2, stages: int = 2, rounds: int = 2, n: int | None = 6,
                 agent: str | None = None, stop: str | None = None) -> None:
        for name, value in (("groups", groups), ("stages", stages), ("rounds", rounds)):
            check_count("groupdebate", name, value)
        super().__init__(pool, Groups(groups, rounds), n, agent, stages * rounds, stop, SummaryConv())
        if groups > size(pool, n):
            raise UserError(f"groupdebate: groups = {groups}, but {size(pool, n)} agents take part; "
                            "choose fewer groups")
