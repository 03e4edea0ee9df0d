"""A learned graph from which agents and edges have been dropped round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .staged import Staged

if TYPE_CHECKING:
    from ..agents.pool import Pool


class AgentDropout(Staged):
    """AgentDropout (arXiv 2503.18891): learned spatial edges within a round and temporal ones from the round before,
    from which the least connected agents of each round and then the least likely edges have been dropped; majority at
    the end. At most n x turns calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``agentdropout``), deployed as it was
            trained and validated, except for what is given here; untrained without: nobody has been dropped yet.
        turns: rounds of an untrained graph, 2 by default.
        threshold, k, spread, controller_seed, n, agent: as for ``gptswarm``.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, turns: int | None = None,
                 threshold: float | None = None, k: int | str | None = None, spread: float | None = None,
                 controller_seed: int | None = None, n: int | None = None, agent: str | None = None) -> None:
        self._deploy(pool, "agentdropout", checkpoint, threshold, k, controller_seed, n, agent, spread=(spread, 0.1),
                     turns=(turns, 2))
