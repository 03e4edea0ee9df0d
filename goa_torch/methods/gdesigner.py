"""A graph designed for each question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..agents.base import EMBED
from .base import check_choice
from .debate import method_name
from .staged import Staged

if TYPE_CHECKING:
    from ..agents.pool import Pool


class GDesigner(Staged):
    """G-Designer (arXiv 2410.11782): a graph network reads the question and the agents' cards and decodes a directed
    acyclic graph for this question; agents speak once each round, in topological order; majority at the end. n calls a
    round at most.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``gdesigner``), deployed as it was
            trained and validated, except for what is given here; untrained without. It applies to other agents, and any
            number of them.
        preset: of an untrained graph: ``paper`` (by default), ``corrected`` or ``released``, see
            :class:`~goa_torch.topology.learned.gdesigner.GDesigner`.
        turns: rounds of an untrained graph, 1 by default.
        threshold, k, n, agent: as for ``gptswarm``.
        controller_seed: of an untrained graph's weights.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, preset: str | None = None, turns: int | None = None,
                 threshold: float | None = None, k: int | str | None = None, controller_seed: int | None = None,
                 n: int | None = None, agent: str | None = None) -> None:
        check_choice(method_name(self), "preset", preset, (None, "paper", "corrected", "released"))
        self._deploy(pool, "gdesigner", checkpoint, threshold, k, controller_seed, n, agent, preset=(preset, "paper"),
                     turns=(turns, 1))
        if self.connect.embedding == "meta":
            pool.meta.model.need(EMBED, f"{method_name(self)} with embedding = 'meta'")
