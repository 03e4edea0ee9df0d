"""What learned topologies see of a node: numbers about its reply, and bags of the character n-grams of texts."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...randomness import stream
from ..uncertainty import token_uncertainty, votes

if TYPE_CHECKING:
    from ...state import State

#: What :func:`reply_numbers` holds, in order.
NUMBERS = ("speaks", "answers", "agreement", "certainty", "length", "repeats the question", "unchanged", "round")


def reply_numbers(state: State, round: int) -> Tensor:
    r"""[n, 8] about each node's latest reply, all of the order of 1: whether it speaks; whether it holds an answer; the
    share of agents with the same answer; :math:`e^{-u}` of its mean token surprise u (0 if unknown); the logarithm of
    its length over the question's; whether it only repeats the question; whether it is what it said before; the round
    over 10."""
    share = torch.zeros(state.num_nodes)
    for question in range(state.num_graphs):
        n = max(len(state.nodes_of(question)), 1)
        for group in votes(state, question):
            share[group] = len(group) / n
    rows = []
    before = state.history[-2] if len(state.history) > 1 else state.initial
    for node, reply in enumerate(state.replies):
        asked, text = state.question_of(node).text, reply.text or ""
        surprise = token_uncertainty(reply)
        rows.append([
            float(not reply.failed), float(reply.answer is not None), float(share[node]),
            math.exp(-surprise) if math.isfinite(surprise) else 0.0, math.log((1 + len(text)) / (1 + len(asked))),
            float(text.strip() == asked.strip()), float(text == before[node].text), round / 10])
    return torch.tensor(rows, dtype=torch.float32).view(state.num_nodes, len(NUMBERS))


@lru_cache(maxsize=1 << 16)
def ngrams(text: str, buckets: int, longest: int = 4) -> tuple[int, ...]:
    """Buckets of the n-grams (2 to ``longest`` characters, 512 at most) of a text and of its whole words."""
    text = f" {text[:512]} "
    grams = [text[i : i + n] for n in range(2, longest + 1) for i in range(len(text) - n + 1)][:512] or [" "]
    return tuple(stream("ngram", gram) % buckets for gram in grams)


def bags(texts: list[str], buckets: int) -> tuple[Tensor, Tensor]:
    """Input and offsets of an ``nn.EmbeddingBag``, one bag a text."""
    grams = [ngrams(text, buckets) for text in texts]
    offsets = torch.tensor([0, *(len(g) for g in grams)][:-1], dtype=torch.long).cumsum(0)
    return torch.tensor([i for g in grams for i in g], dtype=torch.long), offsets
