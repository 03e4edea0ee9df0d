"""A graph designed for each question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..agents.base import EMBED
from .base import check_choice, check_count
from .debate import method_name
from .staged import Staged, staged_graph

if TYPE_CHECKING:
    from ..agents.pool import Pool


class GDesigner(Staged):
    """G-Designer (arXiv 2410.11782): a graph network reads the question and the agents' cards and decodes a directed
    acyclic graph for this question; agents speak once each round, in topological order; majority at the end. n calls a
    round at most.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``gdesigner``); untrained without. It
            applies to other agents, and any number of them.
        preset: of an untrained graph: ``paper``, ``corrected`` or ``released``, see
            :class:`~goa_torch.topology.learned.gdesigner.GDesigner`.
        turns: rounds of an untrained graph.
        threshold: least probability of an edge that is kept.
        k: most predecessors of an agent; no limit as published.
        controller_seed: of an untrained graph's weights.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, preset: str = "paper", turns: int = 1,
                 threshold: float = 0.5, k: int | None = None, controller_seed: int = 0, n: int | None = None,
                 agent: str | None = None) -> None:
        check_count(method_name(self), "turns", turns)
        check_choice(method_name(self), "preset", preset, ("paper", "corrected", "released"))
        connect = staged_graph(self, "gdesigner", pool, checkpoint, threshold, k, controller_seed, n, agent,
                               preset=preset, turns=turns)
        if connect.embedding == "meta":
            pool.meta.model.need(EMBED, f"{method_name(self)} with embedding = 'meta'")
        super().__init__(pool, connect, n, agent)
