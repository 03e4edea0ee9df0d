"""What an edge does: the same run without it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import randomness
from ..errors import UserError

if TYPE_CHECKING:
    from ..methods.base import Method
    from ..state import State
    from ..types import Question, Reply, Topology


@dataclass(frozen=True, slots=True)
class EdgeInfluence:
    """What a method's answers owe to one edge.

    Attributes:
        edge: names of the agent that is heard and of the one that hears it.
        used: share of the questions in which the edge carried something.
        changed: share of answers (questions x seeds) that are others without it.
        difference: accuracy with the edge minus accuracy without it; positive if it helps.
        low: lower end of its 95% interval (bootstrap over questions).
        high: upper end.
    """

    edge: tuple[str, str]
    used: float
    changed: float
    difference: float
    low: float
    high: float


def edge_influence(method: Method, questions: Sequence[Question], edges: Iterable[tuple[str, str]] | None = None,
                   seeds: Sequence[int] = (0,), exchange: Any = None) -> list[EdgeInfluence]:
    """Replays ``questions`` without each of ``edges``, everything else the same: the same streams of random numbers,
    the same replies wherever the edge cannot be felt. Calls that no edge changes are made once.

    Args:
        method: one whose agents talk (it has a connect-module).
        edges: (sender, receiver) by agents' names, all copies of an agent together; by default all that were used.
        seeds: each question is answered once for each.
        exchange: shares calls (:class:`goa_torch.agents.calls.Exchange`); by default within this analysis.

    Returns:
        One entry an edge, the largest difference first.
    """
    from ..agents.calls import Exchange

    if method.connect is None:
        raise UserError(f"{type(method).__name__} has no edges to leave out: its agents do not talk")
    exchange = Exchange(_Memory()) if exchange is None else exchange

    def answers() -> tuple[np.ndarray, list, list]:
        runs = [method(questions, seed=seed, exchange=exchange) for seed in seeds]
        right = np.array([[result.correct for result in run] for run in runs], dtype=float)
        return right, [[result.answer for result in run] for run in runs], [r.trace for run in runs for r in run]

    right, said, traces = answers()
    carried = [used_edges(trace) for trace in traces]
    wanted = sorted(set().union(*carried)) if edges is None else [tuple(edge) for edge in edges]
    rng = np.random.Generator(np.random.Philox(randomness.stream("analysis", "influence")))
    draws = rng.integers(0, len(questions), size=(2000, len(questions))) if len(questions) else None
    found = []
    for edge in wanted:
        with without_edge(method, *edge):
            other, others, _ = answers()
        difference = (right - other).mean(axis=0)
        low, high = np.quantile(difference[draws].mean(axis=1), [0.025, 0.975])
        changed = np.mean([a != b for mine, theirs in zip(said, others) for a, b in zip(mine, theirs)])
        found.append(EdgeInfluence(edge, float(np.mean([edge in names for names in carried])), float(changed),
                                   float(difference.mean()), float(low), float(high)))
    return sorted(found, key=lambda item: (-item.difference, item.edge))


@contextmanager
def without_edge(method: Method, sender: str, receiver: str) -> Iterator[None]:
    """While it lasts, ``method`` runs without the edge from agent ``sender`` to agent ``receiver``."""

    import torch

    def leave_out(module: Any, args: tuple[Any, ...], topology: Topology | None) -> Topology | None:
        if topology is None:
            return None
        state: State = args[0]
        ends = topology.edge_index.tolist()
        keep = [state.agent_of(s).name != sender or state.agent_of(r).name != receiver for s, r in zip(*ends)]
        mask = torch.tensor(keep, dtype=torch.bool, device=topology.edge_index.device)
        return replace(topology, edge_index=topology.edge_index[:, mask], edge_weight=topology.edge_weight[mask])

    assert method.connect is not None
    handle = method.connect.register_forward_hook(leave_out)
    try:
        yield
    finally:
        handle.remove()


def used_edges(trace: dict[str, Any]) -> set[tuple[str, str]]:
    """(sender, receiver) names of all edges between different nodes over which something was said."""
    names = trace["agents"]
    return {(names[s], names[r]) for stage in trace["stages"] if stage["stage"] == "pass"
            for s, r, _ in stage["edges"] if s != r}


class _Memory:
    """Replies of this analysis."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Reply] = {}

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]:
        return [self.known.get(key) for key in keys]

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None:
        self.known.update(items)
