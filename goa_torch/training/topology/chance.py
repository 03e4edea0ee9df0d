"""How edges are drawn while a topology is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from ... import randomness
from ...types import Topology

if TYPE_CHECKING:
    from ...state import State
    from ...topology.learned.base import LearnedTopology

#: ``soft``: all edges, weight 2 sigma(logit). ``hard``: on or off, off ones are not in the prompt. ``gumbel``: on or
#: off, off ones in the prompt with weight 0, straight-through. ``noisy``: soft with Gaussian noise on the logits.
Mode = Literal["soft", "hard", "gumbel", "noisy"]


def lots(state: State, edge_index: Tensor, seed: int, round: int, draw: int, purpose: str = "edges") -> Tensor:
    """[E] a number in (0, 1) for each edge, from the stream (seed, question, round, draw); the edge's place in its
    question is the counter."""
    names = [randomness.stream(seed, question.task, question.id, purpose, round, draw) for question in state.questions]
    start = state.ptr[state.batch]
    local = (edge_index - start[edge_index[0]]).numpy().astype(np.uint64)
    counter = local[0] * np.uint64(1 << 20) + local[1]
    graph = state.batch[edge_index[0]].numpy()
    drawn = randomness.uniforms(np.array(names, dtype=np.uint64)[graph], counter)
    return torch.from_numpy(drawn).clamp(1e-12, 1 - 1e-12)


def draw_edges(controller: LearnedTopology, state: State, round: int, mode: Mode, seed: int, draw: int,
               sigma: float = 1.0, temperature: float = 0.5) -> Topology:
    """A topology of one round; ``log_prob`` [B] is that of what was drawn, differentiable in the controller (0 for
    ``soft`` and ``gumbel``, which draw nothing or nothing that is scored).

    Args:
        sigma: deviation of the noise of ``noisy``.
        temperature: of the relaxed Bernoulli variables of ``gumbel`` (Jang et al. 2017, Maddison et al. 2017).
    """
    edge_index = controller.candidates(state)
    logit = controller.logits(state, round, edge_index)
    graph = state.batch[edge_index[0]]
    log_prob = logit.new_zeros(state.num_graphs)
    if mode == "soft":
        return Topology(edge_index, 2 * logit.sigmoid(), log_prob=log_prob)
    u = lots(state, edge_index, seed, round, draw).to(logit.dtype)
    if mode == "noisy":
        noise = torch.special.ndtri(u.double()).to(logit.dtype)
        z = (logit + sigma * noise).detach()
        log_prob = log_prob.index_add(0, graph, -((z - logit) / sigma).square() / 2)
        return Topology(edge_index, 2 * z.sigmoid(), log_prob=log_prob)
    if mode == "gumbel":
        relaxed = ((logit + u.logit()) / temperature).sigmoid()
        on = (relaxed > 0.5).to(logit.dtype)
        return Topology(edge_index, on + relaxed - relaxed.detach(), log_prob=log_prob)
    on = u < logit.sigmoid()
    each = torch.where(on, logit, -logit)
    log_prob = log_prob.index_add(0, graph, torch.nn.functional.logsigmoid(each))
    return Topology(edge_index[:, on], torch.ones(int(on.sum())), log_prob=log_prob)
