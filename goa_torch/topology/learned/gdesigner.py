"""G-Designer: a graph for every question, decoded from embeddings of the question and of the agents' cards."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.nn import MLP, GCNConv, SAGEConv

from ...agents.base import EMBED
from ...errors import UserError
from ...nn.edges import to_dense
from ...types import Topology
from ..graphs import both_ways, graph_edges, graph_names
from .features import ngrams
from .turns import Lots, Turns

if TYPE_CHECKING:
    from ...state import State

PRESETS, EMBEDDINGS = ("paper", "corrected", "released"), ("ngrams", "meta")
#: Least and most probability of an edge of the preset ``paper``, whose low-rank matrix may leave [0, 1].
CLIP = 0.01


class GDesigner(Turns):
    r"""G-Designer's graph (Zhang et al. 2024, arXiv 2410.11782): a graph network over the agents, joined by a simple
    *anchor* graph and by a virtual task node, and a decoder of edges. A node's features are the embedding of its card
    beside that of the question, the task node's that of the question alone.

    ``paper``: a variational encoder, a decoder that sees sender, receiver and task, and a low-rank refinement,

    .. math:: h \sim \mathcal{N}(\mathrm{GCN}_\mu(x), e^{2\, \mathrm{GCN}_\sigma(x)}), \quad
              S_{ij} = \sigma(\mathrm{FFN}(h_j, h_i, h_{task})), \quad p = \tilde S = Z Z^\top S Z Z^\top,

    Z the first ``rank`` left singular vectors of S (a constant to the gradient), with the loss

    .. math:: -\log p(G)\, u(G) + \tfrac12 \|S - \tilde S\|_F^2 + \tfrac12 \|A_{anchor} - \tilde S\|_F^2
              + \zeta \|\tilde S\|_* + \kappa\, \mathrm{KL}(q(h) \,\|\, \mathcal{N}(0, 1)).

    ``released``, the published code: no task node and no variance, :math:`z = \mathrm{MLP}(\mathrm{GCN}(x))`, logits
    :math:`z z^\top` scaled to [-1, 1] over a question's whole matrix, so that they are symmetric and every p lies in
    [.27, .73]; the MLP is not trained.

    ``corrected``: directed, free to reach 0 and 1, every parameter trains: the paper's decoder, :math:`\ell_{ij} =
    \mathrm{FFN}(h_j, h_i, h_{task})`, over the means of the complete graph (SAGEConv, since a GCN gives all nodes of a
    complete graph the same h), without its other terms.

    All apply to other agents and any number of them, if embeddings have the same length.

    Readings (?): W of the paper's :math:`\tilde S = Z W Z^\top` is :math:`Z^\top S Z`, the nearest to S, and other
    terms act on the networks through it; with edges drawn, the temperature of its relaxed sketch has no part. The
    anchor is a chain in the order of names (there: of roles, by hand). The weight of the KL term is ours, one round the
    code's default. A rank much below N breaks any acyclic anchor (a chain has rank N - 1), so that by default the
    nuclear norm alone lowers it. Texts are embedded by frozen hashed n-grams (there: a sentence encoder), or by the
    meta-LLM. Readout is the majority; there a further agent decides.

    Args:
        preset: see above.
        dim: length of embeddings; with ``embedding`` = ``meta`` the width of that model.
        hidden: width of everything inside.
        embedding: ``ngrams``, hashed and frozen, or ``meta``: the meta-LLM's ``embed``.
        anchor: a directed acyclic graph (:func:`goa_torch.topology.graphs.graph_names`) or ``complete``; by default
            ``chain``, in ``corrected`` ``complete``.
        turns: rounds, of one law.
        rank: of the refinement; by default not limited, which leaves S as it is.
        nuclear, kl: :math:`\zeta` and :math:`\kappa` of ``paper``.
        threshold, k: of the deployed graph, see :class:`~goa_torch.topology.learned.turns.Turns`.
    """

    def __init__(self, preset: str = "paper", dim: int = 384, hidden: int = 16, embedding: str = "ngrams",
                 anchor: str | None = None, turns: int = 1, rank: int | None = None, nuclear: float = 0.1,
                 kl: float = 0.01, threshold: float = 0.5, k: int | None = None, weights: str = "ones",
                 policy: str = "bernoulli") -> None:
        super().__init__(k=k, threshold=threshold, policy="bernoulli")
        anchors = (*graph_names(directed=True), "complete")
        for name, value, known in (("preset", preset, PRESETS), ("embedding", embedding, EMBEDDINGS),
                                   ("anchor", anchor, (None, *anchors))):
            if value not in known:
                raise UserError(f"gdesigner: {name} = {value!r}; choose one of {', '.join(str(k) for k in known if k)}")
        self.preset, self.dim, self.hidden, self.embedding = preset, dim, hidden, embedding
        self.anchor = anchor or ("complete" if preset == "corrected" else "chain")
        self.turns, self.rank, self.nuclear, self.kl = turns, rank, nuclear, kl
        conv = SAGEConv if preset == "corrected" else GCNConv
        self.enter = conv(2 * dim, hidden)
        if preset == "released":
            self.mean = conv(hidden, dim)
            self.decode = MLP([dim, hidden, hidden], norm=None).requires_grad_(False)
        else:
            self.mean = conv(hidden, hidden)
            self.decode = MLP([3 * hidden, hidden, 1], norm=None)
        if preset == "paper":
            self.deviation = conv(hidden, hidden)

    def settings(self) -> dict[str, Any]:
        names = ("preset", "dim", "hidden", "embedding", "anchor", "turns", "rank", "nuclear", "kl")
        return {name: getattr(self, name) for name in names}

    # ------------------------------------------------------------------ what a run looks like

    def embedded(self, state: State, texts: list[str]) -> Tensor:
        """[texts, dim] of unit length, frozen."""
        if self.embedding == "ngrams":
            return torch.stack([hashed(text, self.dim) for text in texts]) if texts else torch.zeros(0, self.dim)
        state.pool.meta.model.need(EMBED, "gdesigner with embedding = 'meta'")
        found = state.pool.meta.model.embed(texts).float()
        if found.size(1) != self.dim:
            raise UserError(f"gdesigner: model {state.pool.meta.model.name!r} embeds texts in {found.size(1)} numbers, "
                            f"not {self.dim}; set dim = {found.size(1)}")
        return found

    def features(self, state: State) -> Tensor:
        """[n + B, 2 dim] of agents and, after them, of each question's task node."""
        cards = [str(state.agent_of(node).card) for node in range(state.num_nodes)]
        asked = self.embedded(state, [question.text for question in state.questions])
        card = self.embedded(state, list(dict.fromkeys(cards)))
        row = {text: number for number, text in enumerate(dict.fromkeys(cards))}
        card = card[torch.tensor([row[text] for text in cards], dtype=torch.long)]
        return torch.cat([torch.cat([card, torch.zeros_like(asked)]), torch.cat([asked[state.batch], asked])], dim=1)

    def anchor_edges(self, state: State) -> Tensor:
        """[2, E] the anchor graph of every question, nodes in the order of names."""
        parts = [torch.empty(2, 0, dtype=torch.long)]
        for question, first in enumerate(state.ptr[:-1].tolist()):
            n = int(state.ptr[question + 1]) - first
            if n:
                parts.append(first + graph_edges(self.anchor, n, directed=self.anchor != "complete"))
        return torch.cat(parts, dim=1)

    def encode(self, state: State, lots: Lots | None) -> tuple[Tensor, Tensor]:
        """[n + B, hidden] of agents and tasks, drawn with ``lots`` in the preset ``paper``; and the KL term [B]."""
        x, anchor = self.features(state), self.anchor_edges(state)
        node, task = torch.arange(state.num_nodes), state.num_nodes + state.batch
        edges = [anchor] if self.preset == "released" else [both_ways(anchor), torch.stack([node, task]),
                                                            torch.stack([task, node])]
        edge_index = torch.cat(edges, dim=1).unique(dim=1)
        h = self.enter(x, edge_index).relu()
        mean = self.mean(h, edge_index)
        if self.preset != "paper":
            return mean, torch.zeros(state.num_graphs)
        spread = self.deviation(h, edge_index).clamp(-10, 10)  # logarithm of the standard deviation
        owner = torch.cat([state.batch, torch.arange(state.num_graphs)])
        each = (mean.square() + (2 * spread).exp() - 2 * spread - 1).sum(1) / 2
        count = torch.bincount(owner, minlength=state.num_graphs)
        kl = torch.zeros(state.num_graphs).index_add(0, owner, each) / count
        if lots is None:
            return mean, kl
        first = state.ptr[:-1].clamp_max(max(state.num_nodes - 1, 0))  # a task node draws as its first agent, but apart
        noise = [self._noise(state, lots, node, "latent"), self._noise(state, lots, first, "latent task")]
        return mean + spread.exp() * torch.cat(noise), kl

    def _noise(self, state: State, lots: Lots, nodes: Tensor, purpose: str) -> Tensor:
        """[nodes, hidden] standard normal; a pair is (node, place in the code) instead of (sender, receiver)."""
        if not state.num_nodes:
            return torch.zeros(nodes.numel(), self.hidden)
        place = state.ptr[state.batch[nodes]][:, None] + torch.arange(self.hidden)
        u = lots(torch.stack([nodes[:, None].expand_as(place), place]).flatten(1), 0, purpose)
        return torch.special.ndtri(u).float().view(-1, self.hidden)

    def read(self, state: State, edge_index: Tensor, lots: Lots | None) -> Tensor:
        """[E] the logit of each edge, in every round."""
        h, kl = self.encode(state, lots)
        sender, receiver = edge_index
        if self.preset == "released":
            z = self.decode(h[: state.num_nodes])
            return _scaled((z[sender] * z[receiver]).sum(1), z.square().sum(1), state.batch[sender], state.batch,
                           state.num_graphs)
        logit = self.decode(torch.cat([h[receiver], h[sender], h[state.num_nodes + state.batch[sender]]], dim=1))[:, 0]
        return self._refined(state, edge_index, logit, kl) if self.preset == "paper" else logit

    def scores(self, about: Tensor, kind: int, turn: int) -> Tensor:
        return about

    def _refined(self, state: State, edge_index: Tensor, logit: Tensor, kl: Tensor) -> Tensor:
        """[E] the logits of the low-rank sketch; leaves the paper's loss with the state."""
        local = edge_index - state.ptr[state.batch[edge_index[0]]]
        sketch = to_dense(Topology(edge_index, logit.sigmoid()), state.batch, state.num_graphs)  # [B, receiver, sender]
        if not sketch.numel():
            return logit
        low = sketch
        if self.rank is not None:
            left = torch.linalg.svd(sketch.detach()).U[:, :, : self.rank]
            onto = left @ left.transpose(1, 2)
            low = onto @ sketch @ onto
        anchor = self.anchor_edges(state)
        wanted = to_dense(Topology(anchor, torch.ones(anchor.size(1))), state.batch, state.num_graphs)
        loss = ((sketch - low).square().sum((1, 2)) + (wanted - low).square().sum((1, 2))) / 2
        self._penalise(state, (loss + self.nuclear * _nuclear(low) + self.kl * kl).mean())
        return low[state.batch[edge_index[0]], local[1], local[0]].clamp(CLIP, 1 - CLIP).logit()


def _nuclear(matrices: Tensor) -> Tensor:
    """[B] nuclear norms; singular vectors are constants, which leaves the gradient as it is and finite at 0."""
    left, _, right = torch.linalg.svd(matrices.detach())
    return (left.transpose(1, 2) @ matrices @ right.transpose(1, 2)).diagonal(dim1=1, dim2=2).sum(1)


def _scaled(logit: Tensor, own: Tensor, graph: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    """Logits of edges, scaled to [-1, 1] over the matrix of each question; ``own`` [n] is its diagonal."""
    values, owner = torch.cat([logit, own]), torch.cat([graph, batch])
    low = values.new_zeros(num_graphs).scatter_reduce(0, owner, values, "amin", include_self=False)
    high = values.new_zeros(num_graphs).scatter_reduce(0, owner, values, "amax", include_self=False)
    return 2 * (logit - low[graph]) / (high - low)[graph].clamp_min(1e-12) - 1


@lru_cache(maxsize=1 << 14)
def hashed(text: str, dim: int) -> Tensor:
    """[dim] the logarithms of one plus the counts of hashed character n-grams, scaled to unit length."""
    counts = torch.bincount(torch.tensor(ngrams(text, dim)), minlength=dim).float().log1p()
    return counts / counts.norm().clamp_min(1e-12)
