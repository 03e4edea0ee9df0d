"""Groups that hear each other by summaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..types import Reply, Span
from .agent_conv import AgentConv
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

#: Note of the state: the group of each node [n] in rounds in which groups hear each other, else ``None``.
GROUPS = "summaries.groups"


class SummaryConv(AgentConv):
    r"""Message passing in which agents of other groups are heard by a summary of their group (GroupDebate, arXiv
    2409.14051): the meta-LLM summarises each group's latest replies, every agent reads the other groups' summaries,

    .. math:: S_g = \mathrm{MetaLLM} \left( Q, \bigoplus_{i \in g} R_i \right), \quad
              R'_j = v_j \left( Q, R_j, \bigoplus_{g \not\ni j} S_g \right).

    In other rounds it is an ordinary :class:`AgentConv`. A summary that failed is not heard; of a group none of whose
    replies fit, there is none.
    """

    def __init__(self) -> None:
        super().__init__("none")

    @property
    def needs_templates(self) -> tuple[str, ...]:
        return ("pass", "summary", "group")

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        if state.notes.get(GROUPS) is None:
            return super().say(state, receivers, prompts)
        group = state.notes[GROUPS].tolist()
        summary = self.summarise(state, sorted({r.question for r in receivers}), group, prompts)
        going = []
        heard = {receiver.node: receiver.heard for receiver in receivers}
        for receiver in receivers:
            spokesmen: dict[int, int] = {}  # a summary travels as the first of its group's nodes that is heard
            for node, _ in receiver.heard:
                if (receiver.question, group[node]) in summary:
                    spokesmen.setdefault(group[node], node)
            receiver.heard = [(node, 1.0) for _, node in sorted(spokesmen.items())]
            if receiver.heard:
                going.append(receiver)

        def summaries(receiver: Receiver) -> dict[str, Any]:
            return {"summaries": [Span(summary[receiver.question, group[node]]) for node, _ in receiver.heard]}

        said = dict(zip((r.node for r in going), speak(state, going, "pass", "order", prompts=prompts, template="group",
                                                       extra=[summaries] * len(going))))
        for receiver in going:  # who is not heard: those whose group's summary failed or did not fit
            present = {group[node] for node, _ in receiver.heard}
            receiver.cut = [node for node, _ in heard[receiver.node] if group[node] not in present]
        return [said.get(receiver.node) for receiver in receivers]

    def summarise(self, state: State, questions: list[int], group: list[int], prompts: PromptSet | None
                  ) -> dict[tuple[int, int], str]:
        """The summary of each (question, group) that said anything; one call each, all at once."""
        keys, receivers = [], []
        for question in questions:
            nodes = [v for v in state.nodes_of(question) if not state.replies[v].failed]
            for number in sorted({group[v] for v in nodes}):
                keys.append((question, number))
                heard = [(v, 1.0) for v in nodes if group[v] == number]
                receivers.append(Receiver(state.pool.meta, question, heard))
        replies = speak(state, receivers, "pass", self.weighting, prompts=prompts, template="summary",
                        draw=[1 + number for _, number in keys], must_fit="some")
        for (question, number), receiver, reply in zip(keys, receivers, replies):
            state.log(question, "summary", round=state.round, group=number, text=reply.text, error=reply.error,
                      nodes=[state.local(v) for v, _ in receiver.heard], cut=[state.local(v) for v in receiver.cut])
        return {key: reply.text for key, reply in zip(keys, replies) if reply.text is not None}
