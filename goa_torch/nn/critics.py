"""Critics on the edges of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..types import Reply, Span
from .agent_conv import AgentConv
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State


class CriticConv(AgentConv):
    r"""Critics on edges (MacNet, arXiv 2406.07155): for each edge a critic reads the predecessor's artefact and writes
    an instruction, then the receiver reads all artefacts with their instructions and writes its own,

    .. math:: I_{ij} = c_{ij}(Q, R_i), \quad R_j = v_j \left( Q, \bigoplus_{i \in \mathcal{N}(j)} (R_i, I_{ij}) \right).

    So an edge costs a call, and only artefacts travel. The critic is played by the receiving agent. A critic that fails
    leaves its artefact without an instruction; one that cannot read it whole is not asked.
    """

    def __init__(self) -> None:
        super().__init__("order", own="none")

    @property
    def needs_templates(self) -> tuple[str, ...]:
        return ("critic", "actor")

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        edges = [(sender, receiver) for receiver in receivers for sender, _ in receiver.heard]
        critics = [Receiver(r.agent, r.question, [(sender, 1.0)], node=r.node, instance=r.instance)
                   for sender, r in edges]
        draws = [1 + state.local(sender) for sender, _ in edges]  # draw 0 writes the artefact
        replies = speak(state, critics, "pass", self.weighting, prompts=prompts, draw=draws, template="critic",
                        must_fit="all")
        written: dict[tuple[int, int], str] = {}
        for (sender, receiver), critic, reply in zip(edges, critics, replies):
            state.log(receiver.question, "critic", round=state.round, text=reply.text, error=reply.error,
                      edge=[state.local(sender), state.local(receiver.node)], cut=bool(critic.cut))
            if reply.text is not None:
                written[sender, receiver.node] = reply.text

        def instructions(receiver: Receiver) -> dict[str, Any]:
            texts = [written.get((sender, receiver.node)) for sender, _ in receiver.heard]
            return {"instructions": [None if text is None else Span(text) for text in texts]}

        return list(speak(state, receivers, "pass", self.weighting, prompts=prompts, template="actor",
                          extra=[instructions] * len(receivers)))
