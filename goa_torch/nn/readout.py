"""Deciding: message passing from a question's agents to its one readout node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from .. import randomness
from ..agents.base import EDGE_WEIGHTS
from ..types import Question, Reply, Topology
from .edges import plain
from .inbox import Inbox, RankedMessagePassing
from .speaking import ATTENTION, Receiver, Weighting, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

#: Smaller wins among nodes of equal weight.
TieBreak = Callable[["State", int], object]


class Readout(RankedMessagePassing):
    r"""Base of readouts: one reply for each question from the replies of its agents.

    The graph is bipartite, :math:`\mathcal{N}(q)` the surviving nodes of question q, ``edge_weight`` their relevance.
    If nobody survived pruning, the initial answers are synthesised whatever the readout (one meta-LLM call, in the
    batch of the other syntheses where the readout is one); if one did, its reply is the answer.
    """

    by = "readout"

    def forward(self, state: State) -> list[Reply]:
        """One reply a question, in order."""
        inboxes = self.inbox(self.topology(state), state.order, state.num_graphs)
        replies: list[Reply | None] = [None] * state.num_graphs
        nobody = abandoned(state)
        for question, reply in zip(nobody, MeanReadout().synthesise(state, nobody, everybody(state, nobody), nobody)):
            replies[question] = reply
        rest = [q for q in range(state.num_graphs) if q not in set(nobody)]
        for question, reply in zip(rest, self.decide(state, rest, inboxes)):
            replies[question] = reply
        return replies  # type: ignore[return-value]

    def topology(self, state: State) -> Topology:
        """Edges from survivors that have something to say to their question's readout node; weight S times the number
        of survivors over the sum of S (1 where relevance is equal or was never scored)."""
        speaks = torch.tensor([not reply.failed for reply in state.replies], dtype=torch.bool) & state.kept
        nodes = speaks.nonzero().flatten()
        question = state.batch[nodes]
        weight = torch.ones(nodes.numel())
        if state.relevance is not None:
            relevance = state.relevance[nodes]
            total = relevance.new_zeros(state.num_graphs).index_add(0, question, relevance)[question]
            count = torch.bincount(question, minlength=state.num_graphs)[question]
            whole = torch.where(total > 0, total, torch.ones_like(total))
            weight = torch.where(total > 0, relevance / whole * count, torch.ones_like(relevance))
        return Topology(torch.stack([nodes, question]), weight)

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        """The replies of ``questions``, each with at least one survivor."""
        raise TypeError(f"{type(self).__name__} does not say how it decides: override decide()")

    def take(self, state: State, question: int, inbox: list, reply: Reply) -> Reply:
        """Logs that ``reply`` of a node is the answer."""
        state.log(question, "readout", by=self.by, edges=[[state.local(v), w] for v, w in inbox], text=reply.text,
                  answer=reply.answer, cut=[])
        return reply

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class MaxReadout(Readout):
    """The reply of the neighbour of largest weight: the top source.

    Args:
        tie_break: orders nodes of equal weight; by default the order of names.
    """

    by = "max"

    def __init__(self, tie_break: TieBreak | None = None) -> None:
        super().__init__()
        self.tie_break = tie_break

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        replies = []
        for question in questions:
            inbox = inboxes[question]
            if not inbox:
                replies.append(self.take(state, question, [], Reply.failure("no survivor said anything")))
                continue
            best = [node for node, weight in inbox if weight == inbox[0][1]]
            top = min(best, key=lambda v: self.tie_break(state, v)) if self.tie_break else best[0]
            replies.append(self.take(state, question, [(top, inbox[0][1])], state.replies[top]))
        return replies


class MeanReadout(Readout):
    """The meta-LLM's synthesis of all survivors' replies with their relevance: an AgentConv whose receiver is the
    meta-LLM. A lone survivor's reply is the answer, without a call.

    Args:
        weighting: how relevance reaches the meta-LLM.
        always: synthesise even a lone reply (an aggregator, as in Mixture-of-Agents).
        ones: weight 1 for every survivor, whatever its relevance.
        label_by: ``share``: words go by a reply's share of the survivors' relevance, and equal relevance is not
            mentioned; ``relevance``: they go by S itself, whatever it is (the released code).
        prompts: other templates than the pool's.
        agent: name of the agent that writes the synthesis; the meta-LLM by default.
        template: the prompt template it answers.
    """

    by = "mean"

    def __init__(self, weighting: Weighting = "words", always: bool = False, ones: bool = False,
                 label_by: Literal["share", "relevance"] = "share", prompts: PromptSet | None = None,
                 agent: str | None = None, template: str = "readout") -> None:
        super().__init__()
        self.agent = agent
        self.template = template
        self.weighting = weighting
        self.always = always
        self.ones = ones
        self.label_by = label_by
        self.prompts = prompts

    @property
    def needs(self) -> tuple[str, ...]:
        """What the writer must be able to do."""
        return (EDGE_WEIGHTS,) if self.weighting in ATTENTION else ()

    @property
    def needs_templates(self) -> tuple[str, ...]:
        """What the writer of the synthesis answers."""
        return (self.template,)

    def forward(self, state: State) -> list[Reply]:
        inboxes = self.inbox(self.topology(state), state.order, state.num_graphs)
        nobody = abandoned(state)
        for question, everyone in zip(nobody, everybody(state, nobody)):
            inboxes[question] = everyone
        return self.decide(state, range(state.num_graphs), inboxes, nobody)

    def topology(self, state: State) -> Topology:
        topology = super().topology(state)
        return plain(topology.edge_index) if self.ones else topology

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox, initial: Sequence[int] = ()
               ) -> list[Reply]:
        lone = {} if self.always else {q: inboxes[q][0][0] for q in questions
                                       if len(inboxes[q]) == 1 and q not in initial}
        many = [q for q in questions if q not in lone]
        written = dict(zip(many, self.synthesise(state, many, [inboxes[q] for q in many], initial)))
        return [self.take(state, q, inboxes[q], state.replies[lone[q]]) if q in lone else written[q]
                for q in questions]

    def synthesise(self, state: State, questions: Sequence[int], inboxes: Inbox, initial: Sequence[int] = ()
                   ) -> list[Reply]:
        """One call to the meta-LLM for each question that has something to read; of the questions ``initial`` it reads
        the initial answers."""
        latest, of = state.replies, set(initial)
        question_of = state.batch.tolist()
        state.replies = [first if q in of else reply for q, first, reply in zip(question_of, state.initial, latest)]
        asked = [number for number, inbox in enumerate(inboxes) if inbox]
        reader = state.pool.meta if self.agent is None else state.pool[self.agent]
        receivers = [Receiver(reader, questions[number], list(inboxes[number])) for number in asked]
        if self.label_by == "relevance" and state.relevance is not None:
            for receiver in receivers:
                if receiver.question not in of:
                    receiver.shares = {v: float(state.relevance[v]) for v, _ in receiver.heard}
        said = speak(state, receivers, "readout", self.weighting, prompts=self.prompts, template=self.template)
        state.replies = latest
        replies = [Reply.failure("no agent said anything to read out")] * len(questions)
        for number, reply in zip(asked, said):
            replies[number] = reply
        cut = {receiver.question: receiver.cut for receiver in receivers}
        for question, inbox, reply in zip(questions, inboxes, replies):
            gone = cut.get(question, [])
            state.log(question, "readout", by="mean", cut=[state.local(v) for v in gone],
                      edges=[[state.local(v), w] for v, w in inbox if v not in gone], text=reply.text,
                      answer=reply.answer, initial=question in of)
        return replies


def abandoned(state: State) -> list[int]:
    """Questions none of whose agents survived pruning."""
    survivors = torch.bincount(state.batch[state.kept], minlength=state.num_graphs)
    return (survivors == 0).nonzero().flatten().tolist()


def everybody(state: State, questions: Sequence[int]) -> Inbox:
    """All nodes with an initial answer, weight 1, in the order of names."""
    return [sorted(((v, 1.0) for v in state.nodes_of(q) if not state.initial[v].failed),
                   key=lambda item: (state.agent_of(item[0]).name, int(state.instance[item[0]]))) for q in questions]


def tally(answers: Sequence[str], weights: Sequence[float], question: Question) -> list[tuple[str, float, list[int]]]:
    """Distinct answers (equal for the question's reader), each with its summed weight and the places that hold it."""
    groups: list[tuple[str, float, list[int]]] = []
    for place, (answer, weight) in enumerate(zip(answers, weights)):
        for number, (other, total, places) in enumerate(groups):
            if other == answer or question.reader.equal(other, answer):
                groups[number] = (other, total + weight, [*places, place])
                break
        else:
            groups.append((answer, weight, [place]))
    return groups


def elect(state: State, question: int, votes: Sequence[tuple[int, float]],
          replies: Sequence[Reply] | None = None) -> list[int]:
    """The nodes that gave the answer of the largest summed weight, in order; none if nobody gave an answer. A tie is
    drawn from the stream (seed, question, answer), so that it depends neither on the listing nor on luck.

    Args:
        votes: (node, weight) of those who may vote; a node whose reply has no answer abstains.
        replies: of all nodes, if not the latest.
    """
    replies = state.replies if replies is None else replies
    voters = [(node, weight) for node, weight in votes if replies[node].answer is not None]
    if not voters:
        return []
    asked = state.questions[question]
    groups = tally([replies[node].answer for node, _ in voters], [weight for _, weight in voters], asked)
    most = max(total for _, total, _ in groups)
    tied = [places for _, total, places in groups if total >= most * (1 - 1e-9)]
    won = min(tied, key=lambda places: randomness.stream(
        state.recorder.seed, asked.task, asked.id, "tie", min(replies[voters[p][0]].answer for p in places)))
    return [voters[place][0] for place in won]


class VoteReadout(Readout):
    """The answer with the largest summed weight. Unparsed, unfinished and failed replies abstain; a tie is drawn from
    the stream (seed, question, answer), so that it depends neither on the listing nor on luck.

    Args:
        weighted: add relevance instead of counting heads.
    """

    by = "vote"

    def __init__(self, weighted: bool = False) -> None:
        super().__init__()
        self.weighted = weighted

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        replies = []
        for question in questions:
            voters = [(v, w) for v, w in inboxes[question] if state.replies[v].answer is not None]
            voters = list(zip([v for v, _ in voters], self.weigh(state, question, voters)))
            if not voters:
                said = [state.replies[v].finish_reason for v, _ in inboxes[question]]
                none = Reply("", "length" if set(said) == {"length"} else "stop") if said else Reply.failure(
                    "no agent said anything to vote on")
                replies.append(self.take(state, question, inboxes[question], none))
                continue
            winners = elect(state, question, voters)
            replies.append(self.take(state, question, voters, state.replies[winners[0]]))
        return replies

    def weigh(self, state: State, question: int, voters: Sequence[tuple[int, float]]) -> list[float]:
        """What each vote counts; ``voters`` are nodes and their relevance."""
        return [weight if self.weighted else 1.0 for _, weight in voters]


class LastReadout(Readout):
    """The reply of a question's last node (by order): the only one, for methods of one agent."""

    by = "last"

    def decide(self, state: State, questions: Sequence[int], inboxes: Inbox) -> list[Reply]:
        order = state.order
        replies = []
        for question in questions:
            node = max(state.nodes_of(question), key=lambda v: int(order[v]))
            replies.append(self.take(state, question, [(node, 1.0)], state.replies[node]))
        return replies


def domain_rank(state: State, node: int) -> int:
    """The released code's order among equally relevant sources: general, code, math, then the rest."""
    ranked: Tensor | list[str] = ["general", "code", "math"]
    domain = state.agent_of(node).card.domain
    return ranked.index(domain) if domain in ranked else len(ranked)
