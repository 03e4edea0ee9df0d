"""Talking as a PyG layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from ..agents.base import EDGE_WEIGHTS
from ..types import Reply, Topology
from .edges import check_topology
from .inbox import Inbox, RankedMessagePassing
from .speaking import ATTENTION, Receiver, Weighting, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

Own = Literal["latest", "initial", "none"]


class AgentConv(RankedMessagePassing):
    r"""The message passing layer of an agent graph (Graph-of-Agents, arXiv 2604.17148),

    .. math:: R'_j = v_j \left( Q, R_j, \bigoplus_{i \in \mathcal{N}(j)} w_{ij} R_i \right),

    where agent :math:`v_j` is a language model that reads the question Q, its own reply and its neighbours' replies,
    loudest first, and answers again. The round is synchronous: all receivers read ``state.replies`` as they were
    before the call. Who hears nothing is not called and keeps its reply; so does who fails (the failure is recorded);
    who failed before is not heard. Weight 1 on all of a receiver's edges is plain concatenation, 0 a missing edge.

    Args:
        weighting: how a weight reaches the receiver: ``words`` (high, moderate, low relevance), ``numbers``,
            ``order`` (loudest first, nothing said), ``none`` (order of names), or inside its attention (``attention``;
            see :class:`~goa_torch.nn.soft_agent_conv.SoftAgentConv`).
        own: which own reply the receiver sees beside the messages (the paper does not say): its ``latest``, its
            ``initial`` one or ``none``. A self loop shows it among the messages instead; if it is the only message, as
            its own.
        label_ones: say the relevance even where all weights are 1 (the released code does).
        template: the prompt template receivers answer.

    Shapes:
        - **state**: :class:`~goa_torch.state.State` with n nodes
        - **topology**: ``edge_index`` [2, E], ``edge_weight`` [E]
        - **output**: n replies, also written to ``state.replies``
    """

    def __init__(self, weighting: Weighting = "words", own: Own = "latest", label_ones: bool = False,
                 template: str = "pass") -> None:
        super().__init__()
        self.weighting = weighting
        self.own = own
        self.label_ones = label_ones
        self.template = template

    @property
    def needs(self) -> tuple[str, ...]:
        """What its agents must be able to do."""
        return (EDGE_WEIGHTS,) if self.weighting in ATTENTION else ()

    @property
    def needs_templates(self) -> tuple[str, ...]:
        """The prompt templates its agents answer."""
        return (self.template,)

    def forward(self, state: State, topology: Topology, own: Own | None = None,
                prompts: PromptSet | None = None) -> list[Reply]:
        check_topology(topology, state.batch)
        heard = audible(state, topology)
        inboxes = self.inbox(heard, state.order)
        replies = self.answer(state, inboxes, topology.active, own or self.own, prompts)
        state.replies = replies
        return replies

    def answer(self, state: State, inboxes: Inbox, active: Tensor | None, own: Own,
               prompts: PromptSet | None) -> list[Reply]:
        """The agents' forward pass: new replies of all who heard something, old ones of the rest."""
        receivers = self.receivers(state, inboxes, active, own)
        answered = [(receiver, reply) for receiver, reply in zip(receivers, self.say(state, receivers, prompts))
                    if reply is not None]
        replies = list(state.replies)
        edges: dict[int, list] = {}
        cut: dict[int, list] = {}
        for receiver, reply in answered:
            if not reply.failed:
                replies[receiver.node] = reply
            here = state.local(receiver.node)
            pairs = inboxes[receiver.node]
            edges.setdefault(receiver.question, []).extend(
                [state.local(sender), here, weight] for sender, weight in pairs if sender not in receiver.cut)
            cut.setdefault(receiver.question, []).extend([state.local(sender), here] for sender in receiver.cut)
        state.log_replies("pass", [r.node for r, _ in answered], [reply for _, reply in answered], edges=edges, cut=cut)
        return replies

    def receivers(self, state: State, inboxes: Inbox, active: Tensor | None, own: Own) -> list[Receiver]:
        """Who is to speak: every active node that hears something."""
        receivers = []
        for node, heard in enumerate(inboxes):
            if not heard or (active is not None and not bool(active[node])):
                continue
            senders = [sender for sender, _ in heard]
            alone = senders == [node]  # rereads itself: its own reply, not a neighbour's
            shows_own = alone or (own != "none" and node not in senders)
            receivers.append(Receiver(
                state.agent_of(node), int(state.batch[node]), [] if alone else heard, node if shows_own else None,
                state.initial[node] if own == "initial" else None, node, int(state.instance[node]),
            ))
        return receivers

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        """What receivers reply: one batched request; ``None`` for who was not asked in the end. The place for layers
        whose agents are prompted differently."""
        return speak(state, receivers, "pass", self.weighting, self.label_ones, prompts, template=self.template)

    def __repr__(self) -> str:
        template = "" if self.template == "pass" else f", template={self.template!r}"
        return f"{type(self).__name__}(weighting={self.weighting!r}, own={self.own!r}{template})"


def audible(state: State, topology: Topology) -> Topology:
    """Edges of questions that go on, from senders that have something to say."""
    sender = topology.edge_index[0]
    silent = [node for node, reply in enumerate(state.replies) if reply.failed]
    present = ~state.done[state.batch[sender]]
    if silent:
        speaks = state.kept.new_ones(state.num_nodes)
        speaks[silent] = False
        present &= speaks[sender]
    return Topology(topology.edge_index[:, present], topology.edge_weight[present], topology.active, topology.log_prob)


def first_answers(state: State, prompts: PromptSet | None = None, nodes: Sequence[int] | None = None,
                  template: str = "answer") -> None:
    """Round 0: every node (or only ``nodes``) answers on its own."""
    nodes = range(state.num_nodes) if nodes is None else nodes
    receivers = [Receiver(state.agent_of(node), int(state.batch[node]), node=node, instance=int(state.instance[node]))
                 for node in nodes]
    said = speak(state, receivers, "answer", prompts=prompts, template=template)
    state.replies = list(state.replies)
    for node, reply in zip(nodes, said):
        state.replies[node] = reply
    state.initial = list(state.replies)
    state.log_replies("answer", nodes, said)
