"""AgentDropout: agents, then edges, are dropped round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UserError
from .edge_logits import EdgeLogits
from .staged import Swarm, least_likely


class Dropout(Swarm):
    r"""AgentDropout's graph (Wang et al. 2025, arXiv 2503.18891): a table of logits for the spatial edges of every
    round and for the temporal ones into every round but the first, :math:`P = \sigma(\theta)`, .5 at first, trained
    twice.

    *Node dropout.* For ``node_steps`` steps the tables are trained by reward alone; then the ``drop`` nodes of least
    summed edge probability leave each round t,

    .. math:: \mathrm{argmin}_i \sum_j P^{S,t}_{ij} + P^{S,t}_{ji},

    with their edges, temporal ones too, and the tables start anew at .5.

    *Edge dropout.* They are trained again under

    .. math:: -\log p(G)\, u(G) + \lambda \overline{\|P\|_*} + \mu\, \overline{\max(0, \|M - P\|_F - \delta)},

    (means over spatial and over temporal tables, M: the edges that are left); every ``prune_every`` steps, ``prunings``
    times, the least likely ``prune`` of the edges left in each table are dropped for good. Deployed are edges that are
    left with p > ``threshold``.

    Readings and deviations (?): the released code trains the first stage over the complete graph while one agent, drawn
    by softmax, is silenced in each round, with a log-probability that weighs it fourfold; here edges are drawn in both
    stages, as in the paper. Its norms are of logits, ours of probabilities (the paper's adjacency has entries in [0,
    1]). There a silent agent says "None."; here it is not called, and is heard in a later round only if it has spoken
    in one before. There an agent that hears nobody in a later round answers anew; here it keeps its reply. Adam goes on
    over the restart. Readout is the majority; there a further agent decides.

    Args:
        names: of the agents, one for each instance.
        turns: rounds.
        node_steps: steps of node dropout; 10 batches of 4 are the published 40 questions.
        drop: nodes that leave each round; 0 for edge dropout alone.
        prune, prune_every, prunings: see above.
        nuclear, frobenius, delta: :math:`\lambda`, :math:`\mu` and :math:`\delta`.
        spread, threshold, k: see :class:`~goa_torch.topology.learned.staged.Swarm`.
    """

    kinds = 2

    def __init__(self, names: Sequence[str], spread: float = 0.0, turns: int = 2, node_steps: int = 10, drop: int = 1,
                 prune: float = 0.25, prune_every: int = 5, prunings: int = 2, nuclear: float = 1.0,
                 frobenius: float = 1.0, delta: float = 0.1, threshold: float = 0.5, k: int | None = None,
                 weights: str = "ones", policy: str = "bernoulli") -> None:
        if not 0 <= drop < max(len(names), 1):
            raise UserError(f"agentdropout: drop = {drop} of {len(names)} agents; somebody must stay in each round")
        EdgeLogits.__init__(self, names, spread, 2 * turns - 1, k=k, threshold=threshold, policy="bernoulli")
        self.turns, self.node_steps, self.drop = turns, node_steps if drop else 0, drop
        self.prune, self.prune_every, self.prunings = prune, prune_every, prunings
        self.nuclear, self.frobenius, self.delta = nuclear, frobenius, delta
        left = torch.ones_like(self.logit, dtype=torch.bool)
        self.register_buffer("left", left & ~torch.eye(left.size(1), dtype=torch.bool))
        self.register_buffer("here", torch.ones(turns, left.size(1), dtype=torch.bool))  # [round, node]

    def settings(self) -> dict[str, Any]:
        names = ("spread", "turns", "node_steps", "drop", "prune", "prune_every", "prunings", "nuclear", "frobenius",
                 "delta")
        return {name: getattr(self, name) for name in names}

    def table(self, kind: int, turn: int) -> int:
        return turn - 1 if kind == 0 else self.turns + turn - 2

    def allowed(self, about: tuple[Tensor, Tensor, Tensor], kind: int, turn: int) -> Tensor:
        return self.left[self.table(kind, turn), about[0], about[1]]

    def present(self, about: tuple[Tensor, Tensor, Tensor], turn: int) -> Tensor:
        return self.here[turn - 1, about[2]]

    @property
    def dropping_nodes(self) -> bool:
        """Whether the first stage is still going on."""
        return self.node_steps > 0 and bool(self.here.all())

    def after_step(self, step: int) -> None:
        """Drops nodes after ``node_steps``, then the least likely edges by schedule."""
        if step == self.node_steps:
            self._drop_nodes()
        pruning, rest = divmod(step - self.node_steps, self.prune_every or 1)
        if self.prune_every and not rest and 1 <= pruning <= self.prunings:
            self.left &= ~least_likely(self.logit.detach(), self.left, self.prune)

    @torch.no_grad()
    def _drop_nodes(self) -> None:
        p = self.logit.sigmoid() * self.left
        for turn in range(1, self.turns + 1):
            degree = p[turn - 1].sum(0) + p[turn - 1].sum(1)
            gone = torch.sort(degree, stable=True).indices[: self.drop]
            self.here[turn - 1, gone] = False
            self.left[self.table(0, turn), gone] = False
            self.left[self.table(0, turn), :, gone] = False
            if turn > 1:  # who is not here now hears nothing of the last round
                self.left[self.table(1, turn), gone] = False
            if turn < self.turns:  # and is not heard in the next
                self.left[self.table(1, turn + 1), :, gone] = False
        self.logit.zero_()

    def penalty(self) -> Tensor:
        if self.dropping_nodes:
            return torch.zeros(())
        p, loss = self.logit.sigmoid() * self.left, torch.zeros(())
        for tables in (slice(0, self.turns), slice(self.turns, None)):
            if p[tables].numel():
                loss = loss + self.nuclear * torch.linalg.matrix_norm(p[tables], "nuc").mean()
                distance = torch.linalg.matrix_norm(self.left[tables].float() - p[tables])
                loss = loss + self.frobenius * (distance - self.delta).clamp_min(0).mean()
        return loss
