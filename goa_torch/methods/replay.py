"""Recorded runs, replayed without an edge: what would have been said, had somebody not been heard?"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..agents.calls import Exchange, Item, reply_key
from ..errors import UserError
from ..randomness import stream
from ..types import Reply, Result, Topology
from .trajectory import Trajectory

if TYPE_CHECKING:
    from ..state import State
    from .base import Method

#: (sender, receiver): numbers of nodes within their question, as traces show them.
Edge = tuple[int, int]


class WithoutEdges(nn.Module):
    """A connect-module less some edges.

    Args:
        connect: the module.
        edges: which, in every question of the batch.
        first: round of talking (from 1) from which on they are missing.
    """

    def __init__(self, connect: nn.Module, edges: Collection[Edge], first: int = 1) -> None:
        super().__init__()
        self.connect = connect
        self.edges = frozenset((int(sender), int(receiver)) for sender, receiver in edges)
        self.first = first

    def forward(self, state: State, round: int) -> Topology | None:
        topology = self.connect(state, round)
        if topology is None or round < self.first:
            return topology
        pairs = [(state.local(sender), state.local(receiver)) for sender, receiver in topology.edge_index.t().tolist()]
        kept = torch.tensor([pair not in self.edges for pair in pairs], dtype=torch.bool,
                            device=topology.edge_index.device)
        return Topology(topology.edge_index[:, kept], topology.edge_weight[kept], topology.active, topology.log_prob)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:  # what else a method asks of its connect-module
            return getattr(super().__getattr__("connect"), name)

    def extra_repr(self) -> str:
        return f"edges={sorted(self.edges)}, first={self.first}"


class Replay(Exchange):
    """Answers calls from a recording, and asks only what the recording does not hold.

    A call is known by its random stream, which names the run's seed, the question, the agent, the round and the
    purpose. While ``learning``, what is known is believed whatever the prompt, and its prompt is remembered; from then
    on a recorded reply counts for the same prompt alone.

    Args:
        known: replies by stream.
        exchange: where the rest is asked.

    Attributes:
        asked: calls made.
    """

    def __init__(self, known: dict[int, Reply], exchange: Exchange | None = None) -> None:
        super().__init__()
        self.inner = exchange or Exchange()
        self.known = known
        self.prompts: dict[int, Hashable] = {}
        self.learning = True
        self.asked = 0

    def serve(self, items: list[Item]) -> list[tuple[Reply, bool]]:
        keys = [reply_key(*item) for item in items]
        names = [chat.stream for _, chat, _ in items]
        here = [name in self.known and (self.learning or self.prompts.get(name) == key)
                for name, key in zip(names, keys)]
        missing = [item for item, there in zip(items, here) if not there]
        fresh = iter(self.inner.serve(missing))
        self.asked += len(missing)
        served = []
        for name, key, there in zip(names, keys, here):
            reply, shared = (self.known[name], True) if there else next(fresh)
            if self.learning:
                self.known[name], self.prompts[name] = reply, key
            served.append((reply, shared))
        return served


def replay_without(method: Method, runs: Sequence[Trajectory | Result], edges: Collection[Edge], round: int = 1,
                   seed: int = 0, exchange: Exchange | None = None) -> list[Result]:
    """The results of recorded runs, had ``edges`` been missing from ``round`` on. Compared with the recorded ones they
    are the edges' effect.

    Everything that does not change is taken from the recording: all rounds before, and later replies of agents whose
    prompt is the same. Their calls are marked shared, so that ``result.paid`` is what the replay cost. Later rounds
    draw their topology, and stop, by what is said then. Replies to calls that a recording does not keep (choices of
    agents, scores, critiques, a synthesis) are asked once more.

    Args:
        method: the method of the recorded runs, with the same settings.
        runs: results, or what was recorded of them (:meth:`Trajectory.recorded`).
        edges: (sender, receiver), node numbers as in traces; one that is not there changes nothing.
        round: round of talking, from 1.
        seed: of the runs, if they are results (a trajectory knows its own).
        exchange: where new calls go.

    Raises:
        UserError: for a method in which nobody talks, a round below 1, nodes that the runs do not have, or runs of
            several seeds.
    """
    if method.connect is None:
        raise UserError(f"{method.name}: nobody hears anybody, so there is no edge to remove")
    if round < 1:
        raise UserError(f"{method.name}: edges are heard from round 1 on, so round must be at least 1, not {round}")
    recorded = [run if isinstance(run, Trajectory) else Trajectory.of(run, seed) for run in runs]
    if not recorded:
        return []
    if len({run.seed for run in recorded}) > 1:
        raise UserError(f"{method.name}: the runs have several seeds; replay those of one seed at a time")
    most = max(len(run.nodes) for run in recorded)
    for edge in edges:
        if not all(0 <= node < most for node in edge):
            raise UserError(f"{method.name}: edge {tuple(edge)} names a node that is not there; nodes are 0 to "
                            f"{most - 1}")
    known = {name: reply for run in recorded for name, reply in _replies(run).items()}
    replay, questions = Replay(known, exchange), [run.question for run in recorded]
    method(questions, recorded[0].seed, replay)  # as recorded, for the prompts; nothing that is known is asked
    replay.learning = False
    changed = copy.copy(method)
    changed._modules = dict(method._modules)
    changed.connect = WithoutEdges(method.connect, edges, round)
    return changed(questions, recorded[0].seed, replay)


def _replies(run: Trajectory) -> dict[int, Reply]:
    """The replies of a run by the stream of their call, with what the calls cost."""
    replies: dict[int, Reply] = {}
    for t, now in enumerate(run.history):
        purpose = "pass" if t else "answer"
        asked = [v for v, reply in enumerate(now) if not t or reply is not run.history[t - 1][v]]
        calls = [call for call in run.calls if call.round == t and call.purpose == purpose and call.error is None]
        spoken = [v for v in asked if not now[v].failed]
        matched = [call.agent for call in calls] == [run.nodes[v][0] for v in spoken]  # else others were asked as well
        for place, v in enumerate(spoken):
            name, instance = run.nodes[v]
            usage = calls[place].usage if matched else now[v].usage
            key = stream(run.seed, run.question.task, run.question.id, name, instance, t, purpose, 0)
            replies[key] = replace(now[v], usage=usage)
    return replies
