"""Talking with a memory: agents keep their whole chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types import Message, Reply, Span
from .agent_conv import AgentConv, Own
from .speaking import Receiver, Weighting, render, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

_TURNS = "chat_conv.turns"


class ChatConv(AgentConv):
    r"""Message passing among agents that keep their full chat history (Du et al. 2023, arXiv 2305.14325): the question,
    own reply, what was heard, own reply, ...,

    .. math:: R^{(t)}_j = v_j \left( Q, R^{(0)}_j, M^{(1)}_j, R^{(1)}_j, \dots, M^{(t)}_j \right), \quad
              M^{(t)}_j = \bigoplus_{i \in \mathcal{N}_t(j)} R^{(t-1)}_i .

    Where the history does not fit the context, the oldest turns are forgotten first (counted in the trace), then the
    quietest of the latest messages; the question and the own latest reply stay. Who has no reply of its own yet is
    prompted without a history.

    Args:
        template: the prompt template of a later turn, which does not repeat the question.
    """

    def __init__(self, weighting: Weighting = "none", own: Own = "latest", template: str = "debate") -> None:
        super().__init__(weighting, own, template=template)

    @property
    def needs_templates(self) -> tuple[str, ...]:
        return ("answer", "pass", self.template)

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply]:
        turns: dict[int, list[tuple[Message, ...]]] = state.notes.setdefault(_TURNS, {})
        openings: dict[int, tuple[Message, ...]] = {}
        latest: dict[int, tuple[Message, ...]] = {}
        for receiver in receivers:
            receiver.past = list(turns.get(receiver.node, []))
            first = Receiver(receiver.agent, receiver.question, node=receiver.node, instance=receiver.instance)
            openings[receiver.node] = render(state, first, "answer", prompts=prompts)

        def compose(receiver: Receiver, messages: tuple[Message, ...]) -> tuple[Message, ...]:
            own = state.replies[receiver.node]
            if own.text is None:
                return render(state, receiver, "pass", self.weighting, self.label_ones, prompts)
            latest[receiver.node] = (Message("assistant", (Span(own.text, sender=receiver.node, own=True),)),
                                     *(m for m in messages if m.role != "system"))
            past = [message for turn in receiver.past for message in turn]
            return (*openings[receiver.node], *past, *latest[receiver.node])

        said = speak(state, receivers, "pass", self.weighting, self.label_ones, prompts, template=self.template,
                     compose=compose)
        forgotten: dict[int, int] = {}
        for receiver, reply in zip(receivers, said):
            forgotten[receiver.question] = forgotten.get(receiver.question, 0) + receiver.forgotten
            if not reply.failed and receiver.node in latest:  # a turn that got no reply is not remembered
                turns.setdefault(receiver.node, []).append(latest[receiver.node])
        for question, count in forgotten.items():
            if count:
                state.log(question, "forgotten", round=state.round, turns=count)
        return said
