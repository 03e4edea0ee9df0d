"""Learned graphs in which agents speak in turn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..errors import UserError
from ..nn.agent_conv import AgentConv, first_answers
from ..nn.readout import VoteReadout
from ..topology.learned import controller_class
from ..topology.learned.turns import Turns
from .base import Method, check_count, check_number
from .debate import method_name, participants
from .learned import agents_of, load_for

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..state import State


class Staged(Method):
    """Agents speak once they have heard all of their predecessors; majority at the end.

    Args:
        connect: decides on the graph of a run.
        n: copies of ``agent``; ``None`` for all agents of the pool.
    """

    def __init__(self, pool: Pool, connect: Turns, n: int | None = None, agent: str | None = None) -> None:
        super().__init__(pool, participants(method_name(self), pool, n, agent), VoteReadout(), connect,
                         AgentConv("none"))

    def answer(self, state: State) -> None:
        with torch.no_grad():
            first = self.connect.begin(state)
        first_answers(state, self.answer_prompts, first)


class GPTSwarm(Staged):
    """GPTSwarm (arXiv 2402.16823): a learned directed acyclic graph; every agent speaks once, in topological order;
    majority at the end. n calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``gptswarm``); untrained without.
        threshold: least probability of an edge that is kept.
        k: most predecessors of an agent; no limit as published.
        spread: of an untrained graph's logits; 0 puts all edges at .5, and none is kept.
        controller_seed: of these.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, threshold: float = 0.5, k: int | None = None,
                 spread: float = 0.1, controller_seed: int = 0, n: int | None = None, agent: str | None = None) -> None:
        connect = staged_graph(self, "gptswarm", pool, checkpoint, threshold, k, controller_seed, n, agent,
                               spread=spread)
        super().__init__(pool, connect, n, agent)


class AgentPrune(Staged):
    """AgentPrune (arXiv 2410.02506): learned spatial edges within a round and temporal ones from the round before, most
    of them pruned; majority at the end. At most n x turns calls.

    Args:
        checkpoint: folder of a trained graph (``goa train`` with the controller ``agentprune``); untrained without.
        turns: rounds of an untrained graph.
        threshold, k, spread, controller_seed, n, agent: as for ``gptswarm``.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, turns: int = 2, threshold: float = 0.5,
                 k: int | None = None, spread: float = 0.1, controller_seed: int = 0, n: int | None = None,
                 agent: str | None = None) -> None:
        check_count(method_name(self), "turns", turns)
        connect = staged_graph(self, "agentprune", pool, checkpoint, threshold, k, controller_seed, n, agent,
                               spread=spread, turns=turns)
        super().__init__(pool, connect, n, agent)


def staged_graph(method: Method, name: str, pool: Pool, checkpoint: str | Path | None, threshold: float, k: int | None,
                 seed: int, n: int | None, agent: str | None, **untrained: Any) -> Turns:
    """The trained graph of a checkpoint, or an untrained one with the settings ``untrained``.

    Raises:
        UserError: if there is none, or it belongs to other agents or another method.
    """
    kind = method_name(method)
    check_number(kind, "threshold", threshold, 0, 1)
    if k is not None:
        check_count(kind, "k", k)
    agents = agents_of(pool, n, agent)
    if checkpoint is not None:
        found = load_for(kind, checkpoint, agents, threshold=threshold, k=k)
        if not isinstance(found, controller_class(name)):
            raise UserError(f"{kind}: {checkpoint} holds a {type(found).__name__}; run it with the method it was "
                            "trained for")
        return found  # type: ignore[return-value]
    return controller_class(name).for_agents(agents, seed, **untrained, threshold=threshold, k=k)
