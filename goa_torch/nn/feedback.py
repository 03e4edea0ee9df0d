"""Agents that criticise a reply before it is written anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..types import Reply, Span
from .agent_conv import AgentConv
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

_SATISFIED = re.compile(r"\bnothing to change\b", re.IGNORECASE)
#: Calls of one agent in one round are told apart by their draw: 0 writes the reply.
_FEEDBACK = 1


class FeedbackConv(AgentConv):
    r"""Self-feedback (Self-Refine, arXiv 2303.17651): the receiver criticises its own reply, then writes it anew,

    .. math:: F_j = v_j(Q, R_j), \quad R'_j = v_j(Q, R_j, F_j).

    Feedback that ends in "nothing to change" ends the question; feedback that failed leaves the reply as it is.
    """

    @property
    def needs_templates(self) -> tuple[str, ...]:
        return ("feedback", "refine")

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        said: dict[int, Reply | None] = dict.fromkeys(r.node for r in receivers)
        feedback = speak(state, receivers, "pass", self.weighting, prompts=prompts, draw=_FEEDBACK,
                         template="feedback")
        going, extra = [], []
        for receiver, reply in zip(receivers, feedback):
            satisfied = reply.text is not None and bool(_SATISFIED.search(_last_line(reply.text)))
            state.log(receiver.question, "feedback", round=state.round, node=state.local(receiver.node),
                      text=reply.text, satisfied=satisfied, error=reply.error)
            if satisfied:
                state.done[receiver.question] = True
            elif reply.text is not None:
                going.append(receiver)
                extra.append({"feedback": Span(reply.text)})
        for receiver, reply in zip(going, speak(state, going, "pass", self.weighting, prompts=prompts, extra=extra,
                                                template="refine")):
            said[receiver.node] = reply
        return [said[receiver.node] for receiver in receivers]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
