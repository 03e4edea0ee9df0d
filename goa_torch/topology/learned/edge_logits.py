"""One number for each pair of agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...errors import UserError
from .base import LearnedTopology

if TYPE_CHECKING:
    from ...state import State


class EdgeLogits(LearnedTopology):
    r"""A logit for every ordered pair of agents (copies of an agent count as agents), the same for all questions,

    .. math:: \ell_{ij} = \theta_{a(i) a(j)},

    or, ``per_round``, one for each round too. It belongs to the agents it was made for: others have no logit.

    Args:
        names: of the agents, one for each instance.
        spread: standard deviation of the first logits; not 0, so that an untrained copy is a random graph and not the
            first names.
        rounds: rounds that have logits of their own; later rounds use the last. 1 for the same in all rounds.
        k, threshold, weights: see :class:`~goa_torch.topology.learned.base.LearnedTopology`.
    """

    def __init__(self, names: Sequence[str], spread: float = 0.01, rounds: int = 1, **deployed: Any) -> None:
        super().__init__(**deployed)
        seen: dict[str, int] = {}
        self.places: dict[tuple[str, int], int] = {}
        for name in sorted(names):
            instance = seen.get(name, 0)
            seen[name] = instance + 1
            self.places[name, instance] = len(self.places)
        self.spread, self.rounds = spread, rounds
        self.logit = nn.Parameter(torch.empty(rounds, len(self.places), len(self.places)))  # [round, receiver, sender]
        self.reset_parameters()

    @classmethod
    def for_agents(cls, names: Sequence[str], seed: int = 0, **settings: Any) -> EdgeLogits:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(names, **settings)

    def settings(self) -> dict[str, Any]:
        return {"spread": self.spread, "rounds": self.rounds}

    def reset_parameters(self) -> None:
        nn.init.normal_(self.logit, std=self.spread)
        with torch.no_grad():
            self.logit.diagonal(dim1=1, dim2=2).zero_()

    def nodes(self, state: State) -> Tensor:
        """[n] row of each node."""
        rows = []
        for node in range(state.num_nodes):
            who = state.agent_of(node).name, int(state.instance[node])
            if who not in self.places:
                known = ", ".join(dict.fromkeys(name for name, _ in self.places))
                raise UserError(f"edge logits were learned for the agents {known}, not for {who[0]!r} (copy {who[1]}); "
                                "train them for this pool, or use edge_gnn or reliability, which apply to others")
            rows.append(self.places[who])
        return torch.tensor(rows, dtype=torch.long)

    def logits(self, state: State, round: int, edge_index: Tensor) -> Tensor:
        row = self.nodes(state)
        return self.logit[min(round, self.rounds) - 1, row[edge_index[1]], row[edge_index[0]]]
