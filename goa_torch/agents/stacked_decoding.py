"""Replies of several small models of one shape in one decoding loop (see :mod:`goa_torch.agents.stacked`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..types import Chat, Reply, Sampling
from .calls import Exchange
from .edge_rows import EdgeColumns
from .rows import draw
from .stacked import LlamaStack, stackable

if TYPE_CHECKING:
    from .calls import Item
    from .hf import HFModel
    from .rows import Row

#: Most rows of all models together in one loop; columns are added so many at a time.
ROWS, COLUMNS = 384, 16


class StackedExchange(Exchange):
    """An exchange in which small models of one shape speak together instead of one after the other."""

    @staticmethod
    def _ask(items: list[Item]) -> list[Reply]:
        spoken: dict[int, list[int]] = {}
        for number, (model, _, how) in enumerate(items):
            if isinstance(how, Sampling):
                spoken.setdefault(id(model), []).append(number)
        replies: dict[int, Reply] = {}
        for group in stackable([items[numbers[0]][0] for numbers in spoken.values()]):
            asked = [spoken[id(model)] for model in group]
            told = generate_stacked(group, [[items[n][1] for n in numbers] for numbers in asked],
                                    [[items[n][2] for n in numbers] for numbers in asked])
            replies.update((n, reply) for numbers, said in zip(asked, told) for n, reply in zip(numbers, said))
        rest = [number for number in range(len(items)) if number not in replies]
        replies.update(zip(rest, Exchange._ask([items[number] for number in rest])))
        return [replies[number] for number in range(len(items))]


def generate_stacked(models: Sequence[HFModel], chats: Sequence[Sequence[Chat]],
                     samplings: Sequence[Sequence[Sampling]]) -> list[list[Reply]]:
    """What ``models``, all of one shape, reply to their ``chats``: as ``model.generate`` of each."""
    started = time.perf_counter()
    prepared = [model.rows(mine, how) for model, mine, how in zip(models, chats, samplings)]
    stack = LlamaStack([model.module for model in models])
    waiting = [sorted((row for row in rows if row.finish is None), key=lambda row: len(row.ids))
               for rows, _ in prepared]
    each = max(1, ROWS // len(models))
    for start in range(0, max(map(len, waiting)), each):
        _run(stack, models, [rows[start : start + each] for rows in waiting])
    seconds = (time.perf_counter() - started) / len(models)
    return [model.replies(rows, thinking, seconds) for model, (rows, thinking) in zip(models, prepared)]


class _Columns:
    """Keys and values of all rows, which end at the same column; what lies right of it is masked, and finite."""

    def __init__(self, layers: int) -> None:
        self.end = 0
        self.held: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def room(self, columns: int) -> None:
        """Widens what is held to so many columns."""
        self.held = [tuple(torch.nn.functional.pad(t, (0, 0, 0, columns - t.shape[2])) for t in pair)
                     for pair in self.held]

    def keep(self, rows: Tensor) -> None:
        self.held = [(key[rows], value[rows]) for key, value in self.held]

    def update(self, key: Tensor, value: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        if self.held[layer] is None:
            self.held[layer] = key, value
        else:
            for held, new in zip(self.held[layer], (key, value)):
                held[:, :, self.end - new.shape[2] : self.end] = new
        return self.held[layer]


@torch.no_grad()
def _run(stack: LlamaStack, models: Sequence[HFModel], listed: Sequence[list[Row]]) -> None:
    """Decodes the rows of each model to their end. A model with fewer rows than the others has blank ones."""
    device, ends = stack.embedding.device, [model.ends for model in models]
    pad = models[0].tokenizer.pad_token_id or 0
    each = max(map(len, listed))
    rows: list[Row | None] = [row for mine in listed for row, _ in zip_longest(mine, range(each))]
    longest = max(len(row.ids) for row in rows if row is not None)
    begin = [longest - 1 if row is None else longest - len(row.ids) for row in rows]
    edges = _edges(rows, longest)
    ids = torch.tensor([[pad] * first + (row.ids if row is not None else [pad]) for first, row in zip(begin, rows)])
    cache = _Columns(len(stack.layers))
    cache.end = columns = longest
    tokens = ids
    while True:
        column = torch.arange(columns)[None]
        first = torch.tensor(begin)[:, None]
        there = (column >= first) & (column < cache.end)
        here = slice(0, len(rows)), cache.end - tokens.shape[1], cache.end
        positions = edges.positions(begin, *here) if edges is not None else None
        if positions is None:
            positions = (torch.arange(here[1], here[2])[None] - first).clamp_min(0)
        bias = None if edges is None else edges.bias(begin, here[0], 0, longest, device)
        logits = stack(tokens.to(device), there.to(device), positions.to(device), bias, cache, logits_to_keep=1).logits
        going = [number for number, row in enumerate(rows) if row is not None and row.finish is None]
        for end in {ends[number // each] for number in going}:  # one, unless models end replies in different ways
            speak = [number for number in going if ends[number // each] == end]
            draw([rows[number] for number in speak], logits[speak, -1], end)
        for model, count in zip(models, _counts(going, each, len(models))):
            if model.on_tokens is not None and count:
                model.on_tokens(count)
        going = [number for number in going if rows[number].finish is None]
        if not going:
            return
        most = max(_counts(going, each, len(models)))
        if 4 * most <= 3 * each:  # finished rows leave, as far as all models have some
            chosen = []
            for model in range(len(models)):
                mine = range(model * each, (model + 1) * each)
                left = set(going) & set(mine)
                chosen += sorted([*left, *[number for number in mine if number not in left][: most - len(left)]])
            rows, begin, each = [rows[n] for n in chosen], [begin[n] for n in chosen], most
            cache.keep(torch.tensor(chosen, device=device))
            edges = _edges(rows, longest)
        cache.end += 1
        if cache.end > columns:
            columns += COLUMNS
            cache.room(columns)
        tokens = torch.tensor([[row.new[-1] if row is not None and row.new else pad] for row in rows])


def _edges(rows: Sequence[Row | None], columns: int) -> EdgeColumns | None:
    if all(row is None or row.edges is None for row in rows):
        return None
    edges = EdgeColumns(columns)
    for row in rows:
        edges.place(None if row is None else row.edges)
    return edges


def _counts(numbers: Sequence[int], each: int, models: int) -> list[int]:
    """How many of the rows ``numbers`` belong to each model."""
    counts = [0] * models
    for number in numbers:
        counts[number // each] += 1
    return counts
