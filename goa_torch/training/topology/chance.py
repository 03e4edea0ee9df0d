"""How edges are drawn while a topology is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import softmax

from ... import randomness
from ...topology.learned.base import strongest
from ...types import Topology

if TYPE_CHECKING:
    from ...state import State
    from ...topology.learned.base import LearnedTopology

#: ``soft``: all edges, as loud as they are likely. ``hard``: on or off, off ones are not in the prompt. ``gumbel``: on
#: or off, off ones in the prompt with weight 0, straight-through. ``noisy``: soft with Gaussian noise on the logits.
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
    receiver, graph = edge_index[1], state.batch[edge_index[0]]
    log_prob = logit.new_zeros(state.num_graphs)
    if mode == "soft":
        return Topology(edge_index, controller.loudness(logit, receiver), log_prob=log_prob)
    u = lots(state, edge_index, seed, round, draw).to(logit.dtype)
    if mode == "noisy":
        noise = torch.special.ndtri(u.double()).to(logit.dtype)
        z = (logit + sigma * noise).detach()
        log_prob = log_prob.index_add(0, graph, -((z - logit) / sigma).square() / 2)
        return Topology(edge_index, controller.loudness(z, receiver), log_prob=log_prob)
    ranked = logit - (-u.log()).log()  # Gumbel noise: the k largest are a draw without replacement
    if mode == "gumbel":
        if controller.policy == "top_k":
            relaxed = controller.k * softmax(ranked / temperature, receiver)
            on = strongest(ranked.detach(), receiver, controller.k).to(logit.dtype)
        else:
            relaxed = ((logit + u.logit()) / temperature).sigmoid()
            on = (relaxed > 0.5).to(logit.dtype)
        return Topology(edge_index, on + relaxed - relaxed.detach(), log_prob=log_prob)
    if controller.policy == "top_k":
        on = strongest(ranked.detach(), receiver, controller.k)
        each = plackett_luce(logit, ranked.detach(), receiver, on)
        log_prob = log_prob.index_add(0, graph[on], each)
        return Topology(edge_index[:, on], torch.ones(int(on.sum())), log_prob=log_prob)
    on = u < logit.sigmoid()
    each = torch.where(on, logit, -logit)
    log_prob = log_prob.index_add(0, graph, torch.nn.functional.logsigmoid(each))
    return Topology(edge_index[:, on], torch.ones(int(on.sum())), log_prob=log_prob)


def plackett_luce(logit: Tensor, ranked: Tensor, receiver: Tensor, on: Tensor) -> Tensor:
    r"""[edges that are on] log-probability that each was drawn when it was, without replacement, in falling order of
    ``ranked``: :math:`\ell_e - \log \sum_{e' \text{ not drawn before } e} e^{\ell_{e'}}` over the edges of its
    receiver."""
    chosen = on.nonzero().flatten()
    if not chosen.numel():
        return logit[chosen]
    size = int(receiver.max()) + 1
    top = logit.new_full((size,), -torch.inf).scatter_reduce(0, receiver, logit.detach(), "amax")
    odds = (logit - top[receiver]).exp()
    total = logit.new_zeros(size).index_add(0, receiver, odds)
    same = receiver[chosen][:, None] == receiver[chosen][None]
    before = same & (ranked[chosen][None] > ranked[chosen][:, None])  # [drawn, drawn]: column was drawn before row
    left = total[receiver[chosen]] - (before * odds[chosen][None]).sum(1)
    return logit[chosen] - top[receiver[chosen]] - left.clamp_min(torch.finfo(logit.dtype).tiny).log()
