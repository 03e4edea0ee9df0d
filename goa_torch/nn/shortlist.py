"""Few agents out of many, by their cards and without asking anybody: what a meta-LLM then chooses from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from torch import nn

from .. import randomness
from ..agents.base import EMBED
from ..errors import unknown

if TYPE_CHECKING:
    from ..agents.base import Agent
    from ..agents.calls import Recorder
    from ..agents.pool import Pool
    from ..types import Question

#: What cards and questions are compared by.
SEARCHES = ("words", "embedding")


class Shortlist(nn.Module):
    r"""The ``size`` agents whose cards go best with a question, and not all for the same reason: one after the other by
    maximal marginal relevance (`Carbonell and Goldstein 1998 <https://doi.org/10.1145/290941.291025>`_),

    .. math:: \arg\max_{c \notin L} \; (1 - v) \cos^+(q, c) - v \max_{l \in L} \cos^+(c, l),

    so that a thousand copies of one card do not fill the list (:math:`\cos^+`: below 0 is as strange as 0). Of agents
    with the same card some are drawn from the stream (seed, question), which spreads questions over copies. Cards are
    read once for a pool.

    Args:
        size: agents at most.
        by: ``words``: TF-IDF vectors over words, numbers and signs, no model; ``embedding``: the embedder's vectors
            (mean hidden states) less the mean of all cards'. Embedding a question is recorded as a call that generates
            nothing; cards are embedded outside any question's cost.
        variety: v in [0, 1]; 0 ranks by similarity alone.
        embedder: name of the agent whose model embeds; the meta-LLM by default.
    """

    def __init__(self, size: int, by: str = "words", variety: float = 0.5, embedder: str | None = None) -> None:
        super().__init__()
        if by not in SEARCHES:
            raise unknown("search", by, SEARCHES, "shortlist")
        self.size = size
        self.by = by
        self.variety = variety
        self.embedder = embedder

    def check(self, pool: Pool, method: str) -> None:
        """Raises :class:`UserError` if the pool's model cannot embed and has to."""
        if self.by == "embedding":
            self._agent(pool).model.need(EMBED, f"{method} with shortlist_by = 'embedding'")

    def forward(self, questions: Sequence[Question], pool: Pool, recorder: Recorder) -> list[list[Agent]]:
        """For each question the agents, sorted by name as cards are shown."""
        agents = [pool.agents[i] for i in pool.canonical]
        if len(agents) <= self.size:
            return [agents] * len(questions)
        groups: dict[str, list[Agent]] = {}
        for agent in agents:
            groups.setdefault(str(agent.card), []).append(agent)
        texts = tuple(sorted(groups))
        cards, queries = self._vectors(texts, questions, pool, recorder)
        alike = _cosines(queries, cards)  # [B, U]
        stock = np.array([len(groups[text]) for text in texts])
        lists = []
        for question, relevance in zip(questions, alike):
            counts = Counter(self._ranked(relevance, cards, stock))
            names = (recorder.seed, question.task, question.id, "shortlist")
            chosen = [agent for place, count in counts.items()
                      for agent in _drawn(groups[texts[place]], count, randomness.stream(*names, texts[place]))]
            lists.append(sorted(chosen, key=lambda agent: agent.name))
        return lists

    def _ranked(self, relevance: np.ndarray, cards: np.ndarray, stock: np.ndarray) -> list[int]:
        """Places of cards in the order in which they are taken, each at most as often as there are agents of it."""
        left, likeness = stock.copy(), np.zeros(len(stock))
        taken: list[int] = []
        while len(taken) < self.size:
            value = np.where(left > 0, (1 - self.variety) * relevance - self.variety * likeness, -np.inf)
            place = int(np.argmax(value))
            taken.append(place)
            left[place] -= 1
            likeness = np.maximum(likeness, _cosines(cards, cards[place]))
        return taken

    def _agent(self, pool: Pool) -> Agent:
        return pool.meta if self.embedder is None else pool[self.embedder]

    def _vectors(self, texts: tuple[str, ...], questions: Sequence[Question], pool: Pool, recorder: Recorder
                 ) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of the cards [U, d] and of the questions [B, d]."""
        if self.by == "words":
            vectorise, cards = pool.searched("words", texts, lambda: _tfidf(texts))
            return cards, np.stack([vectorise(question.text) for question in questions])
        agent = self._agent(pool)
        mean, cards = pool.searched(agent.model.fingerprint, texts, lambda: _centred(agent, texts))
        vectors = recorder.embed(agent, range(len(questions)), [question.text for question in questions], "select")
        return cards, _unit(vectors.double().numpy() - mean)

    def extra_repr(self) -> str:
        return f"size={self.size}, by={self.by!r}, variety={self.variety}"


def _drawn(agents: list[Agent], count: int, stream: int) -> list[Agent]:
    """``count`` of ``agents`` (sorted by name), uniformly."""
    if count == len(agents):
        return agents
    lots = randomness.uniforms([stream], np.arange(len(agents)))
    return [agents[i] for i in np.argsort(lots, kind="stable")[:count]]


def _words(text: str) -> list[str]:
    """Words, numbers and single signs, in small letters."""
    return re.findall(r"[^\W\d_]+|\d+|[^\w\s]", text.lower())


def _tfidf(texts: Sequence[str]) -> tuple[Callable[[str], np.ndarray], np.ndarray]:
    """What turns a text into a TF-IDF vector of unit length (smoothed as scikit-learn does by default; words that no
    card holds do not count), and the vectors of ``texts``."""
    df = Counter(word for text in texts for word in set(_words(text)))
    column = {word: place for place, word in enumerate(sorted(df))}
    idf = {word: np.log((1 + len(texts)) / (1 + count)) + 1 for word, count in df.items()}

    def vectorise(text: str) -> np.ndarray:
        vector = np.zeros(len(column))
        for word, times in Counter(_words(text)).items():
            if word in column:
                vector[column[word]] = times * idf[word]
        return _unit(vector)

    return vectorise, np.stack([vectorise(text) for text in texts])


def _centred(agent: Agent, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the texts' embeddings, and what is left without it, of unit length: hidden states share a large part
    that tells texts apart by nothing (Mu and Viswanath 2018, arXiv 1702.01417)."""
    vectors = agent.model.embed(texts).double().numpy()
    mean = vectors.mean(axis=0)
    return mean, _unit(vectors - mean)


def _cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Of unit vectors; not negative, and rounded so that arithmetic decides no tie."""
    return np.round(np.maximum(left @ right.T, 0), 6)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
