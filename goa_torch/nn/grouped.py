"""Replies grouped by answer, and votes weighted by stated confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..types import Reply, Span
from .agent_conv import AgentConv
from .confidence import recalibrated, stated_confidence
from .readout import VoteReadout, tally
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State


class GroupedConv(AgentConv):
    """Message passing in which a receiver sees its neighbours' replies grouped by answer, the largest group first
    (ReConcile, arXiv 2309.13007)."""

    def __init__(self) -> None:
        super().__init__("none", template="reconcile")

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        def groups(receiver: Receiver) -> dict[str, Any]:
            return {"groups": by_answer(state, [v for v, _ in receiver.heard])}

        return list(speak(state, receivers, "pass", self.weighting, prompts=prompts, template=self.template,
                          extra=[groups] * len(receivers)))


def by_answer(state: State, nodes: list[int]) -> list[dict[str, Any]]:
    """Replies of ``nodes`` (of one question) grouped by answer, as templates see them: ``answer`` (``None`` for those
    that gave none, which come last), ``count`` and ``texts``."""
    if not nodes:
        return []
    nodes = sorted(nodes, key=lambda v: (state.agent_of(v).name, int(state.instance[v])))
    some = [v for v in nodes if state.replies[v].answer is not None]
    tallied = tally([state.replies[v].answer for v in some], [1.0] * len(some), state.question_of(nodes[0]))
    grouped = [(answer, [some[place] for place in places]) for answer, _, places in tallied]
    grouped.sort(key=lambda group: -len(group[1]))  # stable: equal groups in the order of names
    silent = [v for v in nodes if state.replies[v].answer is None]
    if silent:
        grouped.append((None, silent))
    return [{"answer": None if answer is None else Span(answer), "count": len(members),
             "texts": [Span(state.replies[v].text or "", sender=v) for v in members]} for answer, members in grouped]


class ConfidenceReadout(VoteReadout):
    """Vote weighted by stated, recalibrated confidence; a reply that states none counts 0.1."""

    by = "confidence"

    def weigh(self, state: State, question: int, voters: Sequence[tuple[int, float]]) -> list[float]:
        return [recalibrated(stated_confidence(state.replies[node].text)) for node, _ in voters]
