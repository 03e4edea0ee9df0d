"""A learned graph from which agents and edges have been dropped round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import check_count
from .debate import method_name
from .staged import Staged, staged_graph

if TYPE_CHECKING:
    from ..agents.pool import Pool


class AgentDropout(Staged):
    """AgentDropout (arXiv 2503.18891): learned spatial edges within a round and temporal ones from the round before,
    from which the least connected agents of each round and then the least likely edges have been dropped; majority at
    the end. At most n x turns calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``agentdropout``); untrained without:
            nobody has been dropped yet.
        turns: rounds of an untrained graph.
        threshold: least probability of an edge that is kept.
        k: most predecessors of an agent; no limit as published.
        spread: of an untrained graph's logits; 0 puts all edges at .5, and none is kept.
        controller_seed: of these.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, turns: int = 2, threshold: float = 0.5,
                 k: int | None = None, spread: float = 0.1, controller_seed: int = 0, n: int | None = None,
                 agent: str | None = None) -> None:
        check_count(method_name(self), "turns", turns)
        connect = staged_graph(self, "agentdropout", pool, checkpoint, threshold, k, controller_seed, n, agent,
                               spread=spread, turns=turns)
        super().__init__(pool, connect, n, agent)
