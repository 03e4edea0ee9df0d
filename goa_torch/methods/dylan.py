"""DyLAN: layers of agents, ranked, rated and stopped early."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import UserError
from ..nn.rating import RatingConv, ratings_of
from ..nn.readout import VoteReadout, elect
from ..nn.selection import Everyone
from ..topology.layers import RankedLayers
from ..topology.stopping import Agreement, AnyOf, FixedRounds
from .base import Method, check_agents, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..nn.inbox import Inbox
    from ..state import State
    from ..types import Reply, Result


class ImportanceReadout(VoteReadout):
    r"""Majority vote of the last layer; agent importance flows back from it along the ratings,

    .. math:: I^{(T)}_i = \frac{[a_i = a]}{|\{j : a_j = a\}|}, \quad
              I^{(t)}_i = \sum_j w^{(t)}_{ij} I^{(t+1)}_j, \quad I_i = \sum_t I^{(t)}_i .

    The sums are in the trace, for :func:`best_team`.
    """

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        replies = super().decide(state, questions, inboxes)
        for question in questions:
            importance = self.importance(state, question)
            state.log(question, "importance", nodes={state.agent_of(v).name: value for v, value in importance.items()})
        return replies

    def importance(self, state: State, question: int) -> dict[int, float]:
        """I of each node of a question, zeros if nobody gave an answer."""
        nodes = state.nodes_of(question)
        holders = elect(state, question, [(v, 1.0) for v in nodes if bool(state.kept[v])])
        layer = {v: 1 / len(holders) if v in holders else 0.0 for v in nodes}
        total = dict(layer)
        for round in range(len(state.history) - 1, 0, -1):
            rated = [(i, j, w) for (i, j), w in ratings_of(state, round).items() if j in layer]
            if not rated and not _spoke(state, question, round):
                continue  # the question had stopped before
            before = dict.fromkeys(nodes, 0.0)
            for i, j, weight in rated:
                before[i] += weight * layer[j]
            layer = before
            for v, value in layer.items():
                total[v] += value
        return total


def _spoke(state: State, question: int, round: int) -> bool:
    return any(call.purpose == "pass" and call.round == round for call in state.recorder.calls[question])


class DyLAN(Method):
    """Dynamic LLM-agent network (Liu et al. 2023, arXiv 2310.02170): layers of the same agents, each of which reads all
    replies of the layer before, its own included, and rates them 1..5 while it answers; from the third layer on the
    meta-LLM ranks the replies and only the best two agents go on, hearing each other; stops when more than 2/3 of those
    that take part agree; the majority of the last layer decides. 2 N + 1 + keep x (layers - 2) calls at most:
    17 for six agents; 26 if no ranking can be read, which keeps everybody.

    Rankings and ratings are written in text, also where the pool judges by likelihoods.

    Deviations from the released code: it stops in the middle of a layer, ours after it (a layer is synchronous); it
    compares agent ids with positions of a shuffled list, so that the agents it activates are random, ours are those
    that were ranked best; it lets those two read all replies of the layer before (?: ours, only the kept ones); it
    keeps two random agents where a ranking cannot be read, ours all. Layers are four (?).

    Args:
        agents: names; all agents of the pool by default. Team optimisation is :func:`best_team`, then this.
        layers: answers of an agent at most, the independent first one included.
        keep: agents that go on from the third layer.
    """

    templates = ("rate", "rank")

    def __init__(self, pool: Pool, agents: Sequence[str] | None = None, layers: int = 4, keep: int = 2) -> None:
        check_count("dylan", "layers", layers)
        check_count("dylan", "keep", keep)
        check_agents("dylan", pool, agents, distinct=True)
        stop = AnyOf(FixedRounds(layers - 1), Agreement(2 / 3, strict=True, kept=True))
        super().__init__(pool, Everyone(agents), ImportanceReadout(), RankedLayers(keep), RatingConv(), stop)


def best_team(results: Iterable[Result], size: int) -> list[str]:
    """Team optimisation: the ``size`` agents of the largest mean importance over ``results`` of DyLAN, best first, ties
    by name. Uses no gold answers; still, run it on other questions than those that are reported.

    Example:
        >>> team = best_team(build_method("dylan", pool)(validation), 3)  # doctest: +SKIP
        >>> results = build_method("dylan", pool, agents=team)(test)  # doctest: +SKIP
    """
    total: dict[str, float] = {}
    for result in results:
        for stage in result.trace["stages"]:
            if stage["stage"] == "importance":
                for name, value in stage["nodes"].items():
                    total[name] = total.get(name, 0.0) + value
    if not 1 <= size <= len(total):
        raise UserError(f"best_team: size = {size}, but the results know the importance of {len(total)} agents")
    return sorted(total, key=lambda name: (-round(total[name], 9), name))[:size]
