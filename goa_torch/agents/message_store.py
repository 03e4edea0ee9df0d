"""Prompts' keys and values, message by message, where messages are read independently of each other.

A parallel message's keys and values depend on the question before it and on nothing else, so every receiver of one
model can use them, whoever else it hears. :class:`MessageStore` keeps such messages one by one and puts a prompt's
beginning together from them: the question, then as many of its messages, in order, as are known.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .kv import BLOCK, PrefixStore


@dataclass(slots=True)
class _Piece:
    """A part of a prompt: its key, and where it ends."""

    key: Hashable
    start: int
    end: int


class _Joined:
    """Keys and values of pieces side by side, put together when they are asked for."""

    def __init__(self, held: Sequence[list[Tensor]]) -> None:
        self.held = held

    def __getitem__(self, number: int) -> Tensor:
        return torch.cat([tensors[number] for tensors in self.held], dim=2)


class MessageStore(PrefixStore):
    """A :class:`~goa_torch.agents.kv.PrefixStore` that knows parallel messages too. As there, only what at least two
    of the prompts it was told of share is kept, and the budget counts tokens; messages have their own, of equal size.
    """

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._messages: OrderedDict[Hashable, list[Tensor]] = OrderedDict()
        self._held = 0

    @staticmethod
    def block_keys(ids: Sequence[Hashable]) -> list[int]:
        pieces = _pieces(ids)
        if not pieces:
            return PrefixStore.block_keys(ids)
        return [hash((piece.key, block)) for piece in pieces
                for block in range(max(1, (piece.end - piece.start) // BLOCK))]

    def match(self, ids: Sequence[Hashable], keys: Sequence[int]) -> tuple[list[Tensor] | None, int]:
        pieces = _pieces(ids)
        if not pieces:
            return super().match(ids, keys)
        held, known = [], 0
        for piece in pieces:
            if piece.key not in self._messages:
                break
            self._messages.move_to_end(piece.key)
            held.append(self._messages[piece.key])
            known = piece.end
        if not held:  # the question may be known as the beginning of plain prompts
            question = [mark[0] for mark in ids[: pieces[0].end]]  # type: ignore[index]
            return super().match(question, PrefixStore.block_keys(question))
        return _Joined(held), min(known, len(ids) - 1)  # type: ignore[return-value]

    def put(self, ids: Sequence[Hashable], keys: Sequence[int], tensors: Callable[[int], list[Tensor]]) -> None:
        pieces = _pieces(ids)
        if not pieces:
            return super().put(ids, keys, tensors)
        fresh = [piece for piece in pieces if piece.key not in self._messages and self._shared(piece)]
        if not fresh:
            return None
        whole = tensors(fresh[-1].end)
        for piece in fresh:
            self._messages[piece.key] = [t[:, :, piece.start : piece.end].clone() for t in whole]
            self._held += piece.end - piece.start
        self._trim()
        return None

    def room(self, budget: int) -> None:
        super().room(budget)
        self._trim()

    def clear(self, *args, **kwargs) -> None:
        super().clear(*args, **kwargs)
        self._messages.clear()
        self._held = 0

    def _shared(self, piece: _Piece) -> bool:
        return self._seen.get(hash((piece.key, 0)), 0) > 1

    def _trim(self) -> None:
        while self._held > self.budget:
            self._held -= self._messages.popitem(last=False)[1][0].shape[2]


def _pieces(ids: Iterable[Hashable]) -> list[_Piece]:
    """The question and the messages of a prompt of parallel messages (see :meth:`RowEdges.marked`); none of another.

    A message goes by its tokens and positions and by the question's, not by its number or by what it stands beside.
    """
    runs: list[list] = []  # [message, start, end, what tokens and positions there are]
    for place, mark in enumerate(ids):
        if not isinstance(mark, tuple) or len(mark) < 3:
            if not runs:
                return []
            break
        token, position, message, *loud = mark
        if loud:  # from here on the receiver's own words, which hear how loud the messages are
            break
        if not runs or runs[-1][0] != message:
            runs.append([message, place, place, []])
        runs[-1][2] = place + 1
        runs[-1][3].append((token, position))
    if len(runs) < 2 or runs[0][0] != -1:
        return []
    question = tuple(runs[0][3])
    pieces = [_Piece(("question", question), runs[0][1], runs[0][2])]
    for message, start, end, said in runs[1:]:
        if message == -1:
            break
        pieces.append(_Piece((question, tuple(said)), start, end))
    return pieces
