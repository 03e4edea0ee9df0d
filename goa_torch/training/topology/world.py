"""A debate as something to train on: played once, with what it was worth and what could be differentiated."""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...agents.base import GRADIENT
from ...agents.calls import Exchange, Recorder
from ...agents.stacked_decoding import StackedExchange
from ...errors import UserError
from ...nn.agent_conv import first_answers
from ...nn.readout import VoteReadout
from ...nn.selection import Everyone
from ...nn.soft_agent_conv import SoftAgentConv
from ...types import Question, Topology, Usage

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ...agents.pool import Pool
    from ...state import State
    from ...types import Reply

VALUES, TARGETS, WHEN, OVER = ("likelihood", "reward"), ("final", "partial"), ("last", "every"), ("any", "mean")
#: ``(state, round) -> Topology``: who hears whom; ``None`` ends a debate.
Connect = Callable[["State", int], "Topology | None"]


@dataclass(frozen=True, slots=True)
class Supervision:
    """What a debate is worth while topologies are trained.

    Attributes:
        value: ``likelihood``: log-probability of the gold answer; ``reward``: 1 if the vote is right, else 0.
        target: whose likelihood: ``final``, the gold answer, or ``partial``, what is known after so many layers
            (questions with partial results; an ablation, since real questions have none).
        when: likelihood after the ``last`` round, or the mean over ``every`` round.
        over: how agents' probabilities become one: ``any``, the logarithm of their mean (one who knows suffices, as in
            a vote in which others abstain), or ``mean``, the mean of their logarithms.
    """

    value: str = "likelihood"
    target: str = "final"
    when: str = "every"
    over: str = "any"

    def __post_init__(self) -> None:
        for name, allowed in (("value", VALUES), ("target", TARGETS), ("when", WHEN), ("over", OVER)):
            if getattr(self, name) not in allowed:
                raise UserError(f"supervision: {name} = {getattr(self, name)!r}; choose one of {', '.join(allowed)}")


@dataclass(slots=True)
class Play:
    """One debate for each of B questions.

    Attributes:
        value: [B] what it was worth; has a gradient in the weights if it is a likelihood over soft edges.
        log_prob: [B] of the edges drawn, all rounds.
        said: [B] log-probability of the replies between the rounds, given how loudly each was heard; 0 unless asked
            for.
        reward: [B] 1 where the vote is right; ``None`` if nobody voted.
        usage: calls and tokens as if alone; ``paid`` without those that were shared; ``backward``, tokens a gradient
            flows through.
    """

    value: Tensor
    log_prob: Tensor
    said: Tensor
    reward: Tensor | None
    usage: Usage
    paid: Usage
    backward: int = 0
    states: list[State] = field(default_factory=list)


class MemoryCache:
    """Replies of this process: debates of one question start with the same answers. Those not asked for any longer go
    first, once there are ``most``."""

    def __init__(self, most: int = 1 << 16) -> None:
        self.most = most
        self.replies: OrderedDict[Hashable, Reply] = OrderedDict()

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]:
        for key in keys:
            if key in self.replies:
                self.replies.move_to_end(key)
        return [self.replies.get(key) for key in keys]

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None:
        self.replies.update(items)
        while len(self.replies) > self.most:
            self.replies.popitem(last=False)


class DebateWorld:
    """Debates of all agents of a pool, read out by majority.

    Args:
        pool: the agents; for likelihoods some must be models in process. The others (liars, say)
            speak all the same, and nothing is differentiated through them.
        rounds: answers of each agent, the independent first one included; at least 2.
        passing: how agents hear; its scope says what is differentiated.
        supervision: what a debate is worth.
        exchange: where calls go; by default one that remembers replies.
    """

    def __init__(self, pool: Pool, rounds: int = 3, passing: SoftAgentConv | None = None,
                 supervision: Supervision | None = None, exchange: Exchange | None = None) -> None:
        if rounds < 2:
            raise UserError(f"debates to train topologies on have at least 2 rounds, not {rounds}")
        if (supervision or Supervision()).value == "likelihood" and not any(
                GRADIENT in agent.model.capabilities for agent in pool.agents):
            raise UserError(f"supervision: no agent of pool {pool.name!r} has a likelihood to differentiate "
                            f"({GRADIENT!r}: models in process); take value = 'reward'")
        self.pool, self.rounds = pool, rounds
        self.passing = passing or SoftAgentConv("receiver")
        self.supervision = supervision or Supervision()
        self.exchange = exchange or StackedExchange(MemoryCache())
        self.select, self.readout = Everyone(), VoteReadout()

    def play(self, connect: Connect, questions: Sequence[Question], seed: int = 0, said: bool = False,
             vote: bool = False, watch: Callable[[State, int], None] | None = None,
             begin: Callable[[State], Sequence[int]] | None = None) -> Play:
        """Debates ``questions`` over what ``connect`` says.

        Args:
            seed: of decoding.
            said: whether :attr:`Play.said` is wanted.
            vote: read out a vote even where only likelihoods count.
            watch: told the state before each round of talking, and after the last.
            begin: told the state before anybody speaks; gives the nodes that answer first, all by default. Then rounds
                go on until ``connect`` gives ``None``.
        """
        how = self.supervision
        recorder = Recorder(questions, seed, self.pool.sampling, self.exchange)
        state = self.select(list(questions), self.pool, recorder)
        first_answers(state, nodes=None if begin is None else begin(state))
        state.history.append(list(state.replies))
        zero = torch.zeros(state.num_graphs)
        log_prob, spoken, values = zero, zero, []
        usage, backward, last = Usage(), 0, self.rounds - 1 if begin is None else -1
        vote = vote or how.value == "reward"
        for number in range(1, self.rounds) if begin is None else itertools.count(1):
            state.round = number
            if watch is not None:
                watch(state, number)
            topology = connect(state, number)
            if topology is None:
                break
            if topology.log_prob is not None:
                log_prob = log_prob + topology.log_prob
            if how.value == "likelihood" and (how.when == "every" or number == last):
                value, cost, back = self.likelihood(state, topology, number)
                values.append(value)
                usage, backward = usage + cost, backward + back
            if number < last or begin is not None or vote or (said and how.value == "reward"):
                before = list(state.replies)
                replies = self.passing(state, topology)
                state.history.append(list(state.replies))
                if said:
                    now, state.replies = state.replies, before
                    texts = [None if new is old or new.finish_reason != "stop" or not can_weigh(state, node) else
                             new.text for node, (new, old) in enumerate(zip(replies, before))]
                    told = self.passing.log_likelihood(state, topology, texts)
                    state.replies = now
                    spoken = spoken.index_add(0, state.batch[told.nodes], told.value)
                    usage, backward = usage + told.usage, backward + told.usage.tokens
        if watch is not None:
            watch(state, self.rounds)
        reward = None
        if vote:
            reward = torch.tensor([float(q.is_correct(r.answer)) for q, r in zip(questions, self.readout(state))])
        calls = [call for listed in recorder.calls for call in listed]
        alone = sum((call.usage for call in calls), usage)
        paid = sum((call.usage for call in calls if not call.shared), usage)
        value = reward if how.value == "reward" else torch.stack(values).mean(0)
        return Play(value, log_prob, spoken, reward, alone, paid, backward)  # type: ignore[arg-type]

    def likelihood(self, state: State, topology: Topology, round: int) -> tuple[Tensor, Usage, int]:
        """[B] log-probability of each question's target after this round; where nobody hears anything, that of nobody
        saying it (a floor)."""
        targets = [self._target(state.question_of(node), round) if can_weigh(state, node) else None
                   for node in range(state.num_nodes)]
        told = self.passing.log_likelihood(state, topology, targets)
        graph = state.batch[told.nodes]
        count = torch.bincount(graph, minlength=state.num_graphs).clamp_min(1)
        silent = torch.bincount(graph, minlength=state.num_graphs) == 0
        if self.supervision.over == "mean":
            value = told.value.new_zeros(state.num_graphs).index_add(0, graph, told.value) / count
        else:
            top = told.value.detach().new_full((state.num_graphs,), -math.inf)
            top = top.scatter_reduce(0, graph, told.value.detach(), "amax").masked_fill(silent, 0.0)
            total = told.value.new_zeros(state.num_graphs).index_add(0, graph, (told.value - top[graph]).exp())
            value = top + (total + silent).log() - count.log()
        value = torch.where(silent, value.new_full((), FLOOR), value)
        back = told.usage.tokens if topology.edge_weight.requires_grad else 0
        return value, told.usage, back

    def _target(self, question: Question, round: int) -> str:
        if self.supervision.target == "final":
            return question.gold
        partial = question.metadata.get("partial_results")
        if not partial:
            raise UserError(f"supervision: question {question.id!r} of {question.task!r} has no partial results; "
                            "take target = 'final'")
        return partial[min(round + 1, len(partial) - 1)]


def can_weigh(state: State, node: int) -> bool:
    """Whether the likelihood of a node's replies has a gradient."""
    return GRADIENT in state.agent_of(node).model.capabilities


#: Log-likelihood where nobody was asked, in nats.
FLOOR = -20.0
