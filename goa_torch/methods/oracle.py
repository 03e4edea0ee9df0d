"""The right expert for every layer, known beforehand: what the agents of Relay could do if nobody had to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import randomness
from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.selection import Everyone
from ..topology.handoff import Handoff as HandoffTopology
from ..topology.stopping import FixedRounds
from .base import Method, check_agents
from .ceiling import skills_of
from .handoff import Handoff, SpeakerReadout

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..state import State


class OracleRoute(Handoff):
    r"""An agent that can do the next layer is named without asking anybody,

    .. math:: i_t = \mathrm{expert}(\mathrm{domain}_t(Q)), \quad R_{i_t} = v_{i_t}(Q, R_{i_{t-1}}), \quad t \le d:

    a handoff with a perfect orchestrator and real agents, on questions that say which domains they need, in order
    (Relay). As many calls as the question has layers. It knows the route, not the answer: agents that misread fail here
    too.
    It is no rival on equal terms but the bar that routing leaves; experiment files name it
    ``goa_torch.methods.oracle:OracleRoute``.

    Args:
        agents: names of those who may be named; all by default. Specialists (by their cards) come before generalists,
            equals are drawn from the stream (seed, question, layer).
    """

    templates = ()

    def __init__(self, pool: Pool, agents: Sequence[str] | None = None) -> None:
        check_agents("oracle", pool, agents)
        Method.__init__(self, pool, Everyone(), SpeakerReadout(), _Route(agents), AgentConv("none"), FixedRounds(None))


class _Route(HandoffTopology):
    """From whoever spoke last to an expert of the next layer."""

    needs_templates = ()

    def __init__(self, agents: Sequence[str] | None) -> None:
        super().__init__()
        self.agents = agents

    def name(self, state: State) -> dict[int, int]:
        chosen: dict[int, int] = {}
        for q, question in enumerate(state.questions):
            if bool(state.done[q]):
                continue
            domains = question.metadata.get("domains")
            if not domains:
                raise UserError(f"oracle: question {question.id!r} does not say which domains it needs; it runs on the "
                                "task relay alone")
            node = self._expert(state, q, domains[state.round]) if state.round < len(domains) else None
            if node is None:  # all layers are done, or nobody can do the next one: the latest reply stands
                state.done[q] = True
                continue
            state.log(q, "handoff", round=state.round, node=state.local(node), text=domains[state.round], unparsed=0,
                      cut=[])
            chosen[q] = node
        return chosen

    def _expert(self, state: State, q: int, domain: str) -> int | None:
        asked = state.questions[q]
        able = [node for node in state.nodes_of(q) if domain in skills_of(state.agent_of(node))
                and (self.agents is None or state.agent_of(node).name in self.agents)]
        return min(able, default=None, key=lambda node: (len(skills_of(state.agent_of(node))), randomness.stream(
            state.recorder.seed, asked.task, asked.id, "oracle", state.round, state.agent_of(node).name)))
