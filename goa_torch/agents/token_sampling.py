r"""Next tokens by inverse CDF: one uniform per row and step, the same token whatever else is in the batch.

The flat inverse CDF (the first token whose cumulative probability exceeds u) is fragile: every boundary of the CDF
moves with the rounding of all tokens before it, and the thousands of boundaries in the tail of a vocabulary lie closer
together than that. On SmolLM2 in float32 a batch of 16 moves logits by 4e-5 against a batch of one, and 3e-4 of all
tokens at temperature 0.7 (1.2e-3 at 1.0) would come out different: one reply in 20. Here the CDF is inverted down a
binary tree over the vocabulary instead: at each node the branch is the inverse CDF of two outcomes,

.. math:: \text{right} \iff u_k \, (P_{left} + P_{right}) \ge P_{left},

where u_k is the k-th hash of the row's uniform. A branch depends on the *ratio* of two sums, so rounding of the rest
cancels and the share of changed tokens falls to the total variation between the two distributions times the depth of
the tree, about 1e-5.
The distribution is exactly the softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..randomness import uniforms

_CACHED = 2**17  # numbers worked on at a time
_LEAF = 256  # tokens under one leaf of the upper tree: sums over them are one vectorised pass
_SMALL = 1024  # vocabularies of this size and below are one tree


def next_tokens(logits: Tensor, temperature: Sequence[float], top_p: Sequence[float], streams: Sequence[int],
                steps: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-probability under the model (temperature 1, no cut).

    Args:
        logits: [rows, vocabulary]; any floating dtype, worked on in float32.
        temperature: for each row; 0 takes the likeliest token, ties to the smallest id.
        top_p: for each row; only the likeliest tokens that together reach this probability can be drawn (ties with the
            last of them stay in).
        streams, steps: what names each row's uniform.

    Shapes:
        tokens [rows] (int64), log-probabilities [rows] (float32, not a number if the row's logits are not).
    """
    hot = [t > 0 for t in temperature]
    top = logits.amax(dim=-1, keepdim=True)
    if not any(hot):
        _, total = _exponentials(logits, top, None)
        return logits.argmax(dim=-1), -total.log_()
    heat = torch.tensor([t if t > 0 else 1.0 for t in temperature], device=logits.device)
    p, total = _exponentials(logits, top, heat)
    cut = [row for row, (t, mass) in enumerate(zip(temperature, top_p)) if t > 0 and mass < 1]
    if cut:
        p[cut] = _nucleus(p[cut], torch.tensor([top_p[row] for row in cut], device=p.device))
    tokens = _draw(p, streams, steps)
    if not all(hot):
        tokens = torch.where(torch.tensor(hot, device=p.device), tokens, logits.argmax(dim=-1))
    picked = logits.gather(1, tokens[:, None]).float() - top.float()
    return tokens, picked[:, 0] - total.log_()


def _exponentials(logits: Tensor, top: Tensor, heat: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """exp((z - top) / heat) [rows, V], not wanted if ``heat`` is ``None``, and the sums of exp(z - top) [rows].

    A few rows at a time on a CPU, whose cache then holds them from one pass over the vocabulary to the next.
    """
    rows, size = logits.shape
    p = None if heat is None else torch.empty(rows, size, device=logits.device)
    total = torch.empty(rows, device=logits.device)
    warm = heat is not None and bool((heat != 1).any())
    together = max(1, _CACHED // size) if logits.device.type == "cpu" else rows
    for start in range(0, rows, together):
        some = slice(start, start + together)
        z = logits[some].float() - top[some]
        if warm:
            total[some] = z.exp().sum(dim=-1)
            torch.exp(z.div_(heat[some, None]), out=p[some])
        else:
            total[some] = z.exp_().sum(dim=-1)
            if p is not None:
                p[some] = z
    return p, total


def _nucleus(p: Tensor, top_p: Tensor) -> Tensor:
    """``p`` [rows, V] with everything outside the nucleus set to zero. Sorts only as many tokens as it takes."""
    mass = p.sum(dim=-1, keepdim=True) * top_p[:, None]
    k, size = 64, p.shape[-1]
    while True:
        k = min(k * 8, size)
        likeliest = p.topk(k, dim=-1).values
        reached = likeliest.double().cumsum(dim=-1) >= mass
        if k == size or bool(reached[:, -1].all()):
            break
    last = torch.where(reached.any(dim=-1), reached.int().argmax(dim=-1), k - 1)
    return p.masked_fill(p < likeliest.gather(1, last[:, None]), 0.0)


def _draw(p: Tensor, streams: Sequence[int], steps: Sequence[int]) -> Tensor:
    """A token for each row of unnormalised probabilities [rows, V]."""
    rows, size = p.shape
    leaf = _LEAF if size > _SMALL else 1
    whole = size // leaf * leaf
    sums = p if leaf == 1 else p[:, :whole].reshape(rows, -1, leaf).sum(dim=-1)
    if whole < size:
        sums = torch.cat([sums, p[:, whole:].sum(dim=-1, keepdim=True)], dim=1)
    upper, lower = _depth(sums.shape[1]), _depth(leaf)
    # One 53-bit uniform for each row and step; its hashes decide the branches.
    once = uniforms(np.asarray(streams, dtype=np.uint64), np.asarray(steps, dtype=np.uint64))
    words = (once * 2.0**53).astype(np.uint64)
    u = torch.from_numpy(uniforms(words[:, None], np.arange(upper + lower)[None])).to(p.device)
    chosen = _descend(sums, u[:, :upper])
    if leaf == 1:
        return chosen
    columns = chosen[:, None] * leaf + torch.arange(leaf, device=p.device)
    inside = columns < size
    under = p.gather(1, columns.clamp_max(size - 1)).masked_fill_(~inside, 0.0)
    return chosen * leaf + _descend(under, u[:, upper:])


def _depth(leaves: int) -> int:
    return max(leaves - 1, 0).bit_length()


def _descend(weights: Tensor, u: Tensor) -> Tensor:
    """The leaf each row reaches in a binary tree over ``weights`` [rows, n], branch k decided by ``u`` [rows, k]."""
    rows, depth = u.shape
    level = torch.nn.functional.pad(weights.double(), (0, 2**depth - weights.shape[1]))
    levels = []  # pairs of siblings, from the leaves up
    for _ in range(depth):
        pairs = level.view(rows, -1, 2)
        levels.append(pairs)
        level = level[:, 0::2] + level[:, 1::2]  # far faster than a sum over an axis of two
    row = torch.arange(rows, device=weights.device)
    node = torch.zeros(rows, dtype=torch.long, device=weights.device)
    for k in range(depth):
        left, right = levels[depth - 1 - k][row, node].unbind(dim=1)
        goes_right = (u[:, k] * (left + right) >= left) & (right > 0)
        node = 2 * node + goes_right
    return node
