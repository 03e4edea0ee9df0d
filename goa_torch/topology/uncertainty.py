"""How unsure agents are, from three sources behind one name, and peers drawn by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from ..nn.confidence import stated_confidence
from ..nn.readout import tally
from ..types import Reply
from .positions import Positions, lots, peers_topology

if TYPE_CHECKING:
    from ..state import State
    from ..types import Topology

Source = Literal["agreement", "tokens", "stated"]
SOURCES: tuple[str, ...] = ("agreement", "tokens", "stated")


def token_uncertainty(reply: Reply) -> float:
    """Minus the mean log-probability of the reply's tokens, in nats; infinite if the model does not tell."""
    if reply.log_prob is None or reply.usage.completion_tokens < 1:
        return math.inf
    return -reply.log_prob / reply.usage.completion_tokens


def votes(state: State, question: int, nodes: Sequence[int] | None = None) -> list[list[int]]:
    """The nodes of a question (or those of ``nodes``) that gave an answer, grouped by it; unparsed, unfinished and
    failed replies abstain."""
    nodes = [v for v in (state.nodes_of(question) if nodes is None else nodes) if state.replies[v].answer is not None]
    answers = [state.replies[v].answer for v in nodes]
    groups = tally(answers, [1.0] * len(nodes), state.questions[question])
    return [[nodes[place] for place in places] for _, _, places in groups]


def uncertainty(state: State, source: Source = "agreement") -> Tensor:
    r"""How unsure each node is of its latest reply, [n] >= 0.

    Args:
        source: ``agreement``: :math:`1 - n_{a} / n`, the share of the question's agents that gave another answer or
            none (1 for who abstains); ``tokens``: minus the mean token log-probability, in nats (infinite if
            unknown); ``stated``: 1 minus the confidence the reply states (1 if it states none).
    """
    if source == "tokens":
        return torch.tensor([token_uncertainty(reply) for reply in state.replies], dtype=torch.float64)
    if source == "stated":
        stated = [stated_confidence(reply.text) for reply in state.replies]
        return torch.tensor([1.0 if level is None else 1 - level for level in stated], dtype=torch.float64)
    unsure = torch.ones(state.num_nodes, dtype=torch.float64)
    for question in range(state.num_graphs):
        n = len(state.nodes_of(question))
        for group in votes(state, question):
            unsure[group] = 1 - len(group) / n
    return unsure


def answer_entropy(state: State) -> Tensor:
    r"""Entropy of each question's answer distribution over its n agents, divided by :math:`\log n`, [B] in [0, 1].

    Who abstains counts as an answer that nobody shares, so that silence is never agreement. A lone agent has 0 if it
    answered, else 1.
    """
    entropy = torch.ones(state.num_graphs, dtype=torch.float64)
    for question in range(state.num_graphs):
        n = len(state.nodes_of(question))
        groups = [len(group) for group in votes(state, question)]
        shares = [size / n for size in groups] + [1 / n] * (n - sum(groups))
        if n > 1:
            entropy[question] = max(0.0, -math.fsum(p * math.log(p) for p in shares)) / math.log(n)
        elif groups:
            entropy[question] = 0.0
    return entropy


#: Graphs of more nodes than this are drawn without a matrix of all pairs.
_DENSE = 1024


def _gumbel(lot: Tensor) -> Tensor:
    """A standard Gumbel draw for each lot in [0, 1)."""
    return -torch.log(-torch.log(lot.clamp(1e-12, 1 - 1e-12)))


class UncertaintyGuided(nn.Module):
    r"""Each round, each receiver hears k different peers, drawn without replacement with probability falling in the
    peer's uncertainty (arXiv 2609.27150; the form is unpublished (?)),

    .. math:: p(i) \propto \exp(-u_i / T),

    by the Gumbel-top-k trick (Kool et al. 2019, arXiv 1903.06059): the k largest of :math:`-u_i / T + G_{ij}`. Above
    1024 agents the same distribution is drawn in O(N k) memory.

    Args:
        k: in-degree.
        source: see :func:`uncertainty`.
        temperature: T; large is uniform, small always hears the surest.
    """

    def __init__(self, k: int = 2, source: Source = "agreement", temperature: float = 0.25) -> None:
        super().__init__()
        self.k = k
        self.source = source
        self.temperature = temperature

    def forward(self, state: State, round: int) -> Topology:
        places = Positions.by_name(state)
        n = int(places.size.max()) if places.size.numel() else 0
        k = max(0, min(self.k, n - 1))
        logits = -uncertainty(state, self.source).clamp_max(1e6) / self.temperature
        if n > _DENSE:
            return self._large(state, places, logits, k, round)
        column = torch.arange(n)
        there = column < places.size[:, None]
        peer = places.node_at[(places.start[:, None] + column).clamp_max(max(state.num_nodes - 1, 0))]  # [n, N]
        lot = lots(state, "uncertainty", round, places.position[:, None] * (1 << 20) + column)
        score = logits[peer] + _gumbel(lot)
        score = score.masked_fill(~there | (column == places.position[:, None]), -math.inf)
        best = score.topk(k, dim=1)
        return peers_topology(places, best.indices, best.values > -math.inf)

    def _large(self, state: State, places: Positions, logits: Tensor, k: int, round: int) -> Topology:
        """The same distribution without an N x N matrix: peers one after the other in proportion to their weights, and
        again where one comes up twice. Who has not found k in 8 (k + 1) draws (a few peers hold all the weight) takes
        the k largest of a Gumbel race."""
        peers = torch.full((state.num_nodes, k), -1)
        for start in torch.unique(places.start).tolist():
            size = int(places.size[start])
            mine = slice(start, start + size)
            wanted, weight = min(k, size - 1), logits[places.node_at[mine]]
            mass = torch.softmax(weight, 0).cumsum(0)
            heard, found, open_ = peers[mine], torch.zeros(size, dtype=torch.long), torch.arange(size if wanted else 0)
            for draw in range(8 * (k + 1)):
                if not open_.numel():
                    break
                lot = lots(state, "uncertainty", round, (open_ << 20) + draw, open_ + start)
                drawn = torch.searchsorted(mass, lot * mass[-1], right=True).clamp_max(size - 1)
                fresh = (drawn != open_) & (heard[open_] != drawn[:, None]).all(dim=1)
                rows = open_[fresh]
                heard[rows, found[rows]] = drawn[fresh]
                found[rows] += 1
                open_ = open_[found[open_] < wanted]
            for node in open_.tolist():
                race = weight + _gumbel(lots(state, "uncertainty", round, (torch.full((size,), node) << 20) + (1 << 19)
                                             + torch.arange(size), mine))
                race[node] = -math.inf
                heard[node, :wanted] = race.topk(wanted).indices
        return peers_topology(places, peers, torch.arange(k) < (places.size - 1)[:, None])

    def extra_repr(self) -> str:
        return f"k={self.k}, source={self.source!r}, temperature={self.temperature}"
