"""How loudly the rows of a decoding batch hear their messages: edge weights beside the cache of keys and values.

A row may reuse another's prefill only where keys and values are the same, and with edge weights these depend on more
than tokens: :meth:`RowEdges.marked` says on what.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .chat_tokens import Encoded
from .edge_attention import EdgeBias, log_weight


@dataclass(frozen=True, slots=True, eq=False)
class RowEdges:
    """The edges of one prompt.

    Attributes:
        log_weight: of each token, 0 for what is no message.
        start: first token that hears the weights.
        message: number of the message of each token, -1 for none; empty unless messages are parallel.
        position: of each token; empty if tokens are numbered in order.
    """

    log_weight: list[float]
    start: int = 0
    message: tuple[int, ...] = ()
    position: tuple[int, ...] = ()

    @classmethod
    def of(cls, prompt: Encoded) -> RowEdges | None:
        """The edges of a prompt, ``None`` if it is plain text to the model."""
        if all(heard.plain for _, heard in prompt.heard):
            return None
        owner = torch.tensor(prompt.messages)
        weights = torch.tensor([float(heard.weight) for _, heard in prompt.heard])
        table = torch.cat([log_weight(weights), torch.zeros(1)])
        parallel = prompt.heard[0][1].parallel
        return cls(table[owner].tolist(), listening_from(prompt), tuple(prompt.messages) if parallel else (),
                   tuple(parallel_positions(owner[None])[0].tolist()) if parallel else ())

    def marked(self, ids: Sequence[int]) -> list[Hashable]:
        """``ids``, each with what else its key and value depend on."""
        loud = tuple((i, weight) for i, weight in enumerate(self.log_weight) if weight)
        marks: list[Hashable] = []
        for place, token in enumerate(ids):
            facts: tuple = ()
            if self.position:
                facts = (self.position[place], self.message[place])
            if place >= self.start:
                facts += (self.log_weight[place],) if not self.start else (loud,)
            marks.append((token, *facts) if any(facts) else token)
        return marks

    def followed_by(self, tokens: int) -> RowEdges:
        """The edges of the prompt with so many plain tokens after it."""
        if not tokens:
            return self
        more = tuple(self.positions(len(self.log_weight), len(self.log_weight) + tokens)) if self.position else ()
        return RowEdges([*self.log_weight, *[0.0] * tokens], self.start,
                        (*self.message, *[-1] * tokens) if self.message else (), (*self.position, *more))

    def positions(self, first: int, last: int) -> list[int]:
        """Positions of the tokens ``first`` to ``last`` of the row, those after the prompt counted on."""
        if not self.position:
            return list(range(first, last))
        known, beyond = self.position[first:last], max(first, len(self.position))
        shift = self.position[-1] + 1 - len(self.position)
        return [*known, *range(beyond + shift, last + shift)]


def listening_from(prompt: Encoded) -> int:
    """The first token of a prompt that hears its messages' weights: with scope ``receiver`` the one after the last
    message."""
    if not prompt.heard or prompt.heard[0][1].scope == "all":
        return 0
    return 1 + max(place for place, owner in enumerate(prompt.messages) if owner >= 0)


def parallel_positions(message: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """Position ids [rows, columns] for messages that are read independently of each other: every message begins where
    the first one does, and what is no message goes on after the longest.

    Args:
        message: [rows, columns] number of the message of each column, -1 for none.
        attention_mask: [rows, columns], 0 for left padding.
    """
    there = torch.ones_like(message, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    mine = (message >= 0) & there
    begun = mine.cumsum(1) > 0
    before = (there & ~begun).sum(1, keepdim=True)
    positions = there.cumsum(1) - 1
    longest = torch.zeros_like(before)
    for number in range(int(message.max()) + 1 if message.numel() else 0):
        member = mine & (message == number)
        positions = torch.where(member, before + member.cumsum(1) - 1, positions)
        longest = torch.maximum(longest, member.sum(1, keepdim=True))
    after = there & begun & ~mine
    return torch.where(after, before + longest + after.cumsum(1) - 1, positions).clamp_min(0)


class EdgeColumns:
    """The edges of the rows in a cache, laid out over its columns."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows: list[RowEdges | None] = []
        self._laid: tuple[Tensor, Tensor, Tensor | None] | None = None
        self._begin: list[int] = []

    def place(self, edges: RowEdges | None) -> None:
        """Adds a row."""
        self.rows.append(edges)
        self._laid = None

    def drop(self, row: int) -> None:
        """Removes a row; the last one takes its place."""
        self.rows[row] = self.rows[-1]
        self.rows.pop()
        self._laid = None

    def _lay_out(self, begin: list[int]) -> tuple[Tensor, Tensor, Tensor | None]:
        if self._laid is None or self._begin != begin:  # rows came, left or moved sideways
            weights, start = torch.zeros(len(begin), self.columns), torch.zeros(len(begin), dtype=torch.long)
            parallel = any(edges is not None and edges.message for edges in self.rows)
            message = torch.full((len(begin), self.columns), -1) if parallel else None
            for row, (edges, first) in enumerate(zip(self.rows, begin)):
                if edges is None:
                    continue
                weights[row, first : first + len(edges.log_weight)] = torch.tensor(edges.log_weight)
                start[row] = first + edges.start
                if message is not None and edges.message:
                    message[row, first : first + len(edges.message)] = torch.tensor(edges.message)
            self._laid, self._begin = (weights, start, message), list(begin)
        return self._laid

    def bias(self, begin: list[int], rows: slice, first: int, stop: int, device: torch.device) -> EdgeBias | None:
        """The bias of the ``rows`` over the columns ``first`` to ``stop``; ``None`` if they are plain."""
        if not any(edges is not None for edges in self.rows[rows]):
            return None
        weights, start, message = self._lay_out(begin)
        seen = slice(first, stop)
        message = None if message is None else message[rows, seen].to(device)
        return EdgeBias(weights[rows, seen].to(device), (start[rows] - first).to(device), message, message is not None)

    def positions(self, begin: list[int], rows: slice, start: int, end: int) -> Tensor | None:
        """Positions of the tokens in the columns ``start`` to ``end``; ``None`` if they are numbered in order."""
        if not any(edges is not None and edges.position for edges in self.rows[rows]):
            return None
        lines = []
        for edges, first in zip(self.rows[rows], begin[rows]):
            padding = max(0, first - start)
            here = start + padding - first
            known = range(here, end - first) if edges is None else edges.positions(here, end - first)
            lines.append([0] * padding + list(known))
        return torch.tensor(lines)
