"""Learned graphs in which agents speak in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..nn.agent_conv import AgentConv, first_answers
from ..nn.readout import VoteReadout
from .base import Method, check_count
from .debate import method_name, participants
from .deployment import agents_of, deploy

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..state import State
    from ..topology.learned.turns import Turns


class Staged(Method):
    """Agents speak once they have heard all of their predecessors; majority at the end.

    Args:
        connect: decides on the graph of a run.
        n: copies of ``agent``; ``None`` for all agents of the pool.
    """

    def __init__(self, pool: Pool, connect: Turns, n: int | None = None, agent: str | None = None) -> None:
        super().__init__(pool, participants(method_name(self), pool, n, agent), VoteReadout(), connect,
                         AgentConv("none"))

    def _deploy(self, pool: Pool, controller: str, checkpoint: str | None, threshold: float | None, k: int | str | None,
                controller_seed: int | None, n: int | None, agent: str | None, **untrained: tuple[Any, Any]) -> None:
        """The constructor of methods whose graph is a checkpoint's, or untrained (:func:`deploy`)."""
        kind = method_name(self)
        if untrained.get("turns", (None,))[0] is not None:
            check_count(kind, "turns", untrained["turns"][0])
        used = deploy(kind, agents_of(pool, n, agent), checkpoint, controller, given={"k": k, "threshold": threshold},
                      published={"k": None, "threshold": 0.5},
                      untrained={**untrained, "controller_seed": (controller_seed, 0)})
        Staged.__init__(self, pool, used.connect, n, agent)  # type: ignore[arg-type]
        #: What the checkpoint holds, so that a run is not resumed with another graph under the same name.
        self.fingerprint = used.fingerprint
        self.config.update(used.untrained, k=used.k, threshold=used.connect.threshold)

    def answer(self, state: State) -> None:
        with torch.no_grad():
            first = self.connect.begin(state)
        first_answers(state, self.answer_prompts, first)


class GPTSwarm(Staged):
    """GPTSwarm (arXiv 2402.16823): a learned directed acyclic graph; every agent speaks once, in topological order;
    majority at the end. n calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``gptswarm``), deployed as it was
            trained and validated, except for what is given here; untrained without.
        threshold: probability above which an edge is kept; as trained, .5, as published, if untrained.
        k: most predecessors of an agent, ``all`` for no limit; as trained, no limit, as published, if untrained.
        spread: of an untrained graph's logits, .1 by default; 0 puts all edges at .5, and none is kept.
        controller_seed: of these.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, threshold: float | None = None,
                 k: int | str | None = None, spread: float | None = None, controller_seed: int | None = None,
                 n: int | None = None, agent: str | None = None) -> None:
        self._deploy(pool, "gptswarm", checkpoint, threshold, k, controller_seed, n, agent, spread=(spread, 0.1))


class AgentPrune(Staged):
    """AgentPrune (arXiv 2410.02506): learned spatial edges within a round and temporal ones from the round before, most
    of them pruned; majority at the end. At most n x turns calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``agentprune``), deployed as it was
            trained and validated, except for what is given here; untrained without.
        turns: rounds of an untrained graph, 2 by default.
        threshold, k, spread, controller_seed, n, agent: as for ``gptswarm``.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, turns: int | None = None,
                 threshold: float | None = None, k: int | str | None = None, spread: float | None = None,
                 controller_seed: int | None = None, n: int | None = None, agent: str | None = None) -> None:
        self._deploy(pool, "agentprune", checkpoint, threshold, k, controller_seed, n, agent, spread=(spread, 0.1),
                     turns=(turns, 2))
