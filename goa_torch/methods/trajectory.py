"""Recorded runs, cut off: accuracy and cost at every horizon, and stopping rules, without a new call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from ..agents.base import Agent, LanguageModel
from ..agents.calls import Recorder
from ..nn.readout import VoteReadout
from ..state import UNASKED, State
from ..types import Call, Card, Question, Reply, Result, Usage

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class Cut:
    """What a run would have come to, had it ended after ``rounds`` rounds of talking."""

    question: Question
    rounds: int
    answer: str | None
    usage: Usage
    depth: int

    @property
    def correct(self) -> bool:
        return self.question.is_correct(self.answer)


@dataclass(slots=True)
class Trajectory:
    """The replies of a question's agents round by round, and what they cost.

    A run of T rounds holds the runs of all shorter ones, since a call's random stream does not depend on what comes
    later: ``at(t)`` is exactly what the method gives with fewer rounds, and ``stopped(rule)`` when it would have ended
    with that stopping rule. For methods whose rounds do not depend on how many there are (debates, not MacNet) and that
    end in a readout without a call.

    Attributes:
        question: with its reader.
        seed: of the run; it names how ties are drawn.
        nodes: (agent name, instance) of each node.
        history: replies of all nodes after each round, round 0 first.
        calls: all calls of the run.
    """

    question: Question
    seed: int
    nodes: list[tuple[str, int]]
    history: list[list[Reply]]
    calls: list[Call] = field(default_factory=list)

    @classmethod
    def of(cls, result: Result, seed: int = 0) -> Trajectory:
        """The trajectory of a result."""
        return cls.recorded(result.question, result.trace, result.calls, seed)

    @classmethod
    def recorded(cls, question: Question, trace: dict[str, Any], calls: Iterable[Call | dict[str, Any]],
                 seed: int = 0) -> Trajectory:
        """The trajectory that a line of ``results.jsonl`` tells: its ``trace``, ``calls`` and ``seed``."""
        select = next(stage for stage in trace["stages"] if stage["stage"] == "select")
        nodes = [(node["agent"], node["instance"]) for node in select["nodes"]]
        replies = [UNASKED] * len(nodes)
        history: list[list[Reply]] = []
        for stage in trace["stages"]:
            if stage["stage"] not in ("answer", "pass"):
                continue
            while len(history) < stage["round"]:  # rounds in which nobody was asked
                history.append(list(replies))
            for said in stage["replies"]:
                if said["text"] is not None or stage["stage"] == "answer":  # who fails later keeps its reply
                    replies[said["node"]] = _reply(said)
            history[stage["round"] :] = [list(replies)]
        return cls(question, seed, nodes, history or [replies], [_call(call, question) for call in calls])

    @property
    def rounds(self) -> int:
        """Rounds of talking."""
        return len(self.history) - 1

    def at(self, rounds: int, readout: nn.Module | None = None) -> Cut:
        """The run cut off after ``rounds`` rounds of talking (0: independent answers); a run that had ended by itself
        before stays as it was.

        Args:
            readout: how the answer is read out; majority vote by default.
        """
        rounds = min(rounds, self.rounds)
        if rounds < 0:
            raise ValueError(f"rounds must be >= 0, not {rounds}")
        [reply] = (readout or VoteReadout())(self.state(rounds))
        kept = [call for call in self.calls if call.round <= rounds and call.purpose != "readout"]
        return Cut(self.question, rounds, reply.answer, sum((call.usage for call in kept), Usage()),
                   max((call.depth for call in kept), default=0))

    def stopped(self, rule: nn.Module, readout: nn.Module | None = None) -> Cut:
        """The run cut off where a stop-module (:func:`goa_torch.topology.stopping.parse_stop`) would have ended it."""
        for rounds in range(self.rounds):
            if bool(rule(self.state(rounds), rounds + 1)[0]):
                return self.at(rounds, readout)
        return self.at(self.rounds, readout)

    def state(self, rounds: int) -> State:
        """The state of the run after ``rounds`` rounds of talking."""
        n = len(self.nodes)
        names = sorted({name for name, _ in self.nodes})
        model = LanguageModel()  # cannot be asked: replays make no calls
        agents = [Agent(name, model, Card(name)) for name in names]
        pool = SimpleNamespace(agents=agents, meta=agents[0] if agents else None)
        state = State([self.question], pool, Recorder([self.question], self.seed, {}),  # type: ignore[arg-type]
                      torch.zeros(n, dtype=torch.long),
                      torch.tensor([names.index(name) for name, _ in self.nodes], dtype=torch.long),
                      torch.tensor([instance for _, instance in self.nodes], dtype=torch.long),
                      list(self.history[rounds]), list(self.history[0]), torch.ones(n, dtype=torch.bool),
                      torch.zeros(1, dtype=torch.bool), round=rounds, traces=[{"stages": [], "agents": []}])
        state.history = [list(replies) for replies in self.history[: rounds + 1]]
        return state


@dataclass(frozen=True, slots=True)
class Horizon:
    """What many trajectories come to after ``rounds`` rounds of talking: ``accuracy`` and mean ``tokens``, ``calls``
    and ``depth`` a question; ``gained`` and ``lost``, the shares of questions whose majority turned from wrong to right
    and from right to wrong in this round; ``any_right``, the share with at least one right agent."""

    rounds: int
    accuracy: float
    tokens: float
    calls: float
    depth: float
    gained: float
    lost: float
    any_right: float


def horizons(trajectories: Sequence[Trajectory], readout: nn.Module | None = None) -> list[Horizon]:
    """Accuracy and cost at every horizon, 0 to the longest run, all from the same runs."""
    if not trajectories:
        return []
    table, before = [], [False] * len(trajectories)
    for rounds in range(1 + max(t.rounds for t in trajectories)):
        cuts = [t.at(rounds, readout) for t in trajectories]
        right = [cut.correct for cut in cuts]
        found = [any(t.question.is_correct(reply.answer) for reply in t.history[min(rounds, t.rounds)])
                 for t in trajectories]
        flips = list(zip(before, right)) if rounds else []
        n = len(cuts)
        table.append(Horizon(
            rounds, sum(right) / n, sum(cut.usage.tokens for cut in cuts) / n, sum(cut.usage.calls for cut in cuts) / n,
            sum(cut.depth for cut in cuts) / n, flips.count((False, True)) / n, flips.count((True, False)) / n,
            sum(found) / n))
        before = right
    return table


def _reply(said: dict[str, Any]) -> Reply:
    usage = Usage(calls=1, completion_tokens=said.get("completion_tokens", 0))
    return Reply(said["text"], said["finish_reason"], said["answer"], error=said["error"],
                 log_prob=said.get("log_prob"), usage=usage)


def _call(call: Call | dict[str, Any], question: Question) -> Call:
    if isinstance(call, Call):
        return call
    return Call(**{**call, "question": question.id, "usage": Usage(**call["usage"])})
