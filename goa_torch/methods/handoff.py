"""An orchestrator hands the question from agent to agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..nn.agent_conv import AgentConv, first_answers
from ..nn.readout import Readout
from ..nn.selection import Everyone
from ..topology.handoff import UNTIL, Spoken, first_speakers, speakers, spoke
from ..topology.handoff import Handoff as HandoffTopology
from ..topology.stopping import AnyOf, FixedRounds
from ..types import Reply
from .base import Method, check_choice, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..nn.inbox import Inbox
    from ..state import State
    from ..types import Topology


class SpeakerReadout(Readout):
    """The reply of whoever spoke last."""

    by = "last"

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        latest = speakers(state)
        return [self.take(state, q, [(latest[q], 1.0)], state.replies[latest[q]]) if q in latest
                else self.take(state, q, [], Reply.failure("no agent replied")) for q in questions]


class Handoff(Method):
    r"""The meta-LLM reads the latest reply and names the next agent, who reads it too and answers,

    .. math:: i_t = \mathrm{MetaLLM}(Q, \mathrm{cards}, R_{i_{t-1}}), \quad R_{i_t} = v_{i_t}(Q, R_{i_{t-1}}),

    until the meta-LLM finds the reply final: the cheapest way to chain experts, against which debates must be judged.
    An agent that is named again sees its own earlier reply too.
    The choice is written in text, also where the pool judges by likelihoods. At most 2 x turns calls: 10.

    Args:
        turns: answers at most, the first one included; each costs a call to the meta-LLM and one to the agent.
        until: ``final``: the meta-LLM decides when a reply is final; ``answered``: the question ends as soon as a reply
            holds an answer, too, for agents whose replies are partial results until then (Relay's meta-LLM was never
            taught to call a reply final); ``confirmed``: or once two speakers in a row gave the same answer.
    """

    templates = ("handoff",)

    def __init__(self, pool: Pool, turns: int = 5, until: str = "final") -> None:
        check_count("handoff", "turns", turns)
        check_choice("handoff", "until", until, UNTIL)
        super().__init__(pool, Everyone(), SpeakerReadout(), HandoffTopology(), AgentConv("none"),
                         AnyOf(FixedRounds(turns - 1), Spoken(until)))

    def answer(self, state: State) -> None:
        self._begin(state, list(self.connect.name(state).values()))

    def talk(self, state: State, topology: Topology) -> None:
        before = list(state.replies)
        self.passing(state, topology)
        for node in topology.edge_index[1].tolist():
            if state.replies[node] is not before[node]:  # who failed is not the latest speaker
                spoke(state, node)
        if first_speakers(state):
            self._begin(state, first_speakers(state))

    def _begin(self, state: State, nodes: list[int]) -> None:
        """Those who follow nobody answer on their own."""
        first_answers(state, self.answer_prompts, nodes)
        for node in nodes:
            if not state.replies[node].failed:
                spoke(state, node)
