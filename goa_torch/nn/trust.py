"""Trust in replies that resemble the others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .readout import VoteReadout

if TYPE_CHECKING:
    from ..state import State


def tfidf_similarity(texts: Sequence[str], pattern: str = r"\w+") -> Tensor:
    r"""Cosine similarity of the texts' TF-IDF vectors, [n, n],

    .. math:: x_{tw} = \mathrm{tf}_{tw} \left( \ln \frac{1 + n}{1 + \mathrm{df}_w} + 1 \right),

    smoothed and lower-cased as scikit-learn's ``TfidfVectorizer`` does by default, but over words of any length, since
    answers are short. A text without words resembles nobody. ``pattern`` says what a word is.
    """
    counts = [Counter(re.findall(pattern, text.lower())) for text in texts]
    vocabulary = {word: column for column, word in enumerate(sorted(set().union(*counts)))} if counts else {}
    df = Counter(word for count in counts for word in count)
    idf = {word: math.log((1 + len(texts)) / (1 + texts_with)) + 1 for word, texts_with in df.items()}
    rows = [[0.0] * len(vocabulary) for _ in texts]
    for row, count in zip(rows, counts):
        for word, times in count.items():
            row[vocabulary[word]] = times * idf[word]
    vectors = torch.tensor(rows, dtype=torch.float64).reshape(len(texts), len(vocabulary))
    vectors = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return vectors @ vectors.t()


def trust(state: State, question: int, outlier: float = 1.5) -> dict[int, float]:
    """Each node's mean similarity to the question's other replies; 0 for outliers, those that lie more than ``outlier``
    standard deviations below the mean. A lone reply is trusted fully."""
    nodes = [v for v in state.nodes_of(question) if state.replies[v].text is not None]
    if len(nodes) < 2:
        return dict.fromkeys(nodes, 1.0)
    similarity = tfidf_similarity([state.replies[v].text for v in nodes])
    mean = (similarity.sum(dim=1) - similarity.diagonal()) / (len(nodes) - 1)
    least = mean.mean() - outlier * mean.std(unbiased=False) - 1e-9
    return {v: float(value) if value >= least else 0.0 for v, value in zip(nodes, mean)}


class TrustReadout(VoteReadout):
    """The cluster of equal answers with most trust, see :func:`trust`. If nobody is trusted, a plain majority.

    Args:
        outlier: standard deviations below the mean at which a reply counts nothing.
    """

    by = "trust"

    def __init__(self, outlier: float = 1.5) -> None:
        super().__init__()
        self.outlier = outlier

    def weigh(self, state: State, question: int, voters: Sequence[tuple[int, float]]) -> list[float]:
        levels = trust(state, question, self.outlier)
        trusted = any(value > 0 for value in levels.values())
        return [levels[node] if trusted else 1.0 for node, _ in voters]
