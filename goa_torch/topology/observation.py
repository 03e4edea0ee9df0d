"""What a controller sees of a debate: who agrees with whom, and little else (RUMAD, arXiv 2602.23864)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..agents.base import EMBED
from ..errors import UserError, unknown
from ..nn.trust import tfidf_similarity
from ..randomness import stream
from .gating import largest, present
from .uncertainty import token_uncertainty, votes

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..state import State

SIMILARITIES = ("tfidf", "embed")
_CARD_BITS = 8


@dataclass(frozen=True)
class ObservationConfig:
    """What is observed of each of N agents: a row of N similarities, then the chosen planes and features.

    Attributes:
        similarity: how alike two replies are: the cosine of their ``tfidf`` vectors, or of what the meta-LLM (or
            ``embedder``) ``embed`` makes of them.
        signs: whether signs count as words of TF-IDF too: operators and brackets of formulas or programs.
        mixing: lambda, the share of similarity; the rest is 1 where two answers are the same. Not published: .5 (?).
        planes: more matrices [agent, agent]: ``card`` (TF-IDF cosine of agent i's card and agent j's reply).
        features: more columns: ``round`` (share of the rounds that are over), ``answered`` (1 if the reply has an
            answer), ``changed`` (1 if the reply is not that of the round before), ``length`` (of the reply over the
            question's, at most 1 for twice as long), ``surprise`` (1 - exp of the mean token log-probability),
            ``card`` (8 signs that name the card), ``place`` (one column an agent: for a fixed number of them).
        rounds: answers of each agent in a whole debate, for ``round``.
        embedder: name of the agent whose model embeds; the meta-LLM by default.
    """

    similarity: str = "tfidf"
    signs: bool = False
    mixing: float = 0.5
    planes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    rounds: int = 6
    embedder: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "planes", tuple(self.planes))
        object.__setattr__(self, "features", tuple(self.features))
        if self.similarity not in SIMILARITIES:
            raise unknown("similarity", self.similarity, SIMILARITIES, "observation")
        if not 0 <= self.mixing <= 1:
            raise UserError(f"observation: mixing must lie in [0, 1], not {self.mixing!r}")
        for kind, given, known in (("plane", self.planes, _PLANES), ("feature", self.features, _FEATURES)):
            for name in given:
                if name not in known:
                    raise unknown(kind, name, known, "observation")

    def matrices(self) -> int:
        """P, the number of [agent, agent] matrices."""
        return 1 + len(self.planes)

    def columns(self, n: int) -> int:
        """F, the number of features of an agent among ``n``."""
        return sum({"card": _CARD_BITS, "place": n}.get(name, 1) for name in self.features)

    def width(self, n: int) -> int:
        """Columns of an observation of ``n`` agents: P n + F."""
        return self.matrices() * n + self.columns(n)

    def check(self, pool: Pool) -> None:
        """Raises :class:`UserError` if the pool's model cannot embed and has to."""
        if self.similarity == "embed":
            embedder = pool.meta if self.embedder is None else pool[self.embedder]
            embedder.model.need(EMBED, "observation with similarity = 'embed'")


def observe(state: State, config: ObservationConfig) -> tuple[Tensor, Tensor]:
    r"""The observation [B, N, P N + F] in [-1, 1], and which of the N places hold an agent [B, N].

    The first matrix is similarity and agreement,

    .. math:: x_{ij} = \lambda \cos(r_i, r_j) + (1 - \lambda) [a_i = a_j],

    where an agent without an answer agrees with nobody, itself included, and a failed reply resembles nobody.
    ``state.round`` is the round that is about to be talked in (from 1).
    """
    n = largest(state)
    here = present(state.batch, state.num_graphs, n)
    columns = [_padded(state, _agreement(state, config), n)]
    columns += [_padded(state, _PLANES[name](state, config), n) for name in config.planes]
    flat = [_FEATURES[name](state, config, n) for name in config.features]
    if flat:
        features = torch.zeros(state.num_graphs, n, sum(part.size(1) for part in flat))
        features[here] = torch.cat(flat, dim=1).float()
        columns.append(features)
    return torch.cat(columns, dim=2).clamp(-1, 1), here


def _padded(state: State, matrices: list[Tensor], n: int) -> Tensor:
    dense = torch.zeros(state.num_graphs, n, n)
    for question, matrix in enumerate(matrices):
        dense[question, : len(matrix), : len(matrix)] = matrix
    return dense


# --------------------------------------------------------------------------- matrices


def _agreement(state: State, config: ObservationConfig) -> list[Tensor]:
    similar = _tfidf(state, config) if config.similarity == "tfidf" else _embedded(state, config)
    matrices = []
    for question, alike in enumerate(similar):
        nodes = state.nodes_of(question)
        same = torch.zeros(len(nodes), len(nodes))
        for group in votes(state, question, nodes):
            places = torch.tensor([node - nodes[0] for node in group])
            same[places[:, None], places] = 1
        matrices.append(config.mixing * alike + (1 - config.mixing) * same)
    return matrices


def _texts(state: State, question: int) -> tuple[str, ...]:
    return tuple(state.replies[node].text or "" for node in state.nodes_of(question))


@lru_cache(maxsize=65536)
def _cosines(texts: tuple[str, ...], signs: bool) -> Tensor:
    return tfidf_similarity(texts, r"\w+|[^\w\s]" if signs else r"\w+").float()


def _tfidf(state: State, config: ObservationConfig) -> list[Tensor]:
    return [_cosines(_texts(state, question), config.signs) for question in range(state.num_graphs)]


def _embedded(state: State, config: ObservationConfig) -> list[Tensor]:
    embedder = state.pool.meta if config.embedder is None else state.pool[config.embedder]
    texts = sorted({reply.text for reply in state.replies if reply.text})
    place = {text: number for number, text in enumerate(texts)}
    vectors = embedder.model.embed(texts).float() if texts else torch.zeros(0, 1)
    vectors = torch.cat([vectors, vectors.new_zeros(1, vectors.size(1))])  # the last row: nothing was said
    matrices = []
    for question in range(state.num_graphs):
        rows = vectors[[place.get(text, len(texts)) for text in _texts(state, question)]]
        matrices.append(rows @ rows.t())
    return matrices


def _card_plane(state: State, config: ObservationConfig) -> list[Tensor]:
    matrices = []
    for question in range(state.num_graphs):
        texts = _texts(state, question)
        cards = tuple(str(state.agent_of(node).card) for node in state.nodes_of(question))
        matrices.append(_cosines((*cards, *texts), config.signs)[: len(cards), len(cards) :])
    return matrices


_PLANES: dict[str, Callable[[State, ObservationConfig], list[Tensor]]] = {"card": _card_plane}


# --------------------------------------------------------------------------- features, each [n, columns]


def _round(state: State, config: ObservationConfig, n: int) -> Tensor:
    return torch.full((state.num_nodes, 1), min(1.0, max(0, state.round - 1) / max(1, config.rounds - 1)))


def _answered(state: State, config: ObservationConfig, n: int) -> Tensor:
    return torch.tensor([[float(reply.answer is not None)] for reply in state.replies]).reshape(-1, 1)


def _changed(state: State, config: ObservationConfig, n: int) -> Tensor:
    before = state.history[-2] if len(state.history) > 1 else state.replies
    return torch.tensor([[float(new.text != old.text)] for new, old in zip(state.replies, before)]).reshape(-1, 1)


def _length(state: State, config: ObservationConfig, n: int) -> Tensor:
    shares = [len(reply.text or "") / max(1, len(state.question_of(node).text)) / 2
              for node, reply in enumerate(state.replies)]
    return torch.tensor(shares).reshape(-1, 1)


def _surprise(state: State, config: ObservationConfig, n: int) -> Tensor:
    nats = torch.tensor([[token_uncertainty(reply)] for reply in state.replies]).reshape(-1, 1)
    return 1 - torch.exp(-nats)


def _card(state: State, config: ObservationConfig, n: int) -> Tensor:
    return torch.tensor([_signs(str(state.agent_of(node).card)) for node in range(state.num_nodes)]
                        ).reshape(-1, _CARD_BITS)


@lru_cache(maxsize=1024)
def _signs(card: str) -> tuple[float, ...]:
    name = stream("card", card)
    return tuple(1.0 if name >> bit & 1 else -1.0 for bit in range(_CARD_BITS))


def _place(state: State, config: ObservationConfig, n: int) -> Tensor:
    return torch.eye(n)[[state.local(node) for node in range(state.num_nodes)]]


_FEATURES: dict[str, Callable[[State, ObservationConfig, int], Tensor]] = {
    "round": _round, "answered": _answered, "changed": _changed, "length": _length, "surprise": _surprise,
    "card": _card, "place": _place,
}
