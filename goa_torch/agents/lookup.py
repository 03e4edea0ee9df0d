"""Several tokens a forward pass for the last few rows of a batch, by guessing.

A step of few rows takes as long as reading the model's weights from memory, however little is computed with them. So
each row guesses its next tokens and reads them all at once, as if they were its own: where a text repeats itself, or
its prompt, it goes on as it did the last time ("prompt lookup"). The tokens are then drawn one by one as ever, each
from the logits after the one before and by the same named draw; a guess is worth something as long as it is what is
drawn, and the first one that differs ends the pass. A reply is therefore what it would be without guesses, at any
temperature; only the number of forward passes changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import torch

from .kv import SPARE_COLUMNS, Layout, RowCache
from .ragged import Piece, RaggedModel
from .rows import Row, draw

#: How many tokens at the end of a text are looked up, the first that are found.
LENGTHS = (2, 1)
#: How many tokens a row guesses.
GUESSES = 3
#: Guessing ends where, after so many turns of a row, fewer tokens a turn have come of it: a guess costs time too.
TRIES, WORTHWHILE = 128, 1.25


class Lookup:
    """A text that guesses how it goes on.

    Attributes:
        tokens: the text.
    """

    def __init__(self, tokens: Iterable[int]) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            for length in LENGTHS:
                if length <= len(self.tokens):
                    self._after[tuple(self.tokens[-length:])] = len(self.tokens)
            self.tokens.append(token)

    def guess(self, count: int) -> list[int]:
        """``count`` tokens: what followed the latest earlier occurrence of the text's end, again and again if that is
        less; the last token once more if there is none. The text must not be empty."""
        found = (self._after.get(tuple(self.tokens[-length:])) for length in LENGTHS)
        start = next((place for place in found if place is not None), len(self.tokens) - 1)
        return [self.tokens[start + i % (len(self.tokens) - start)] for i in range(count)]


class FewRows:
    """Rows that go on at their own pace: all begin in the first column of one shelf, and each ends where it is.

    Args:
        layout: what the model keeps for each token.
        rows: shelves and places of rows that have drawn their first token; what is there is copied.

    Attributes:
        rows: those that are not finished, in the order of their places.
    """

    def __init__(self, layout: Layout, rows: Sequence[tuple[RowCache, int, Row]]) -> None:
        self.rows = [row for _, _, row in rows]
        self._texts = {row: Lookup(row.known) for row in self.rows}
        self._guesses, self._turns, self._drawn = GUESSES, 0, 0
        self._cache = RowCache(layout, len(rows), max(row.need for row in self.rows) + GUESSES)
        self._cache.widen(max(len(row.known) for row in self.rows) + SPARE_COLUMNS)
        for shelf, place, row in rows:
            length = len(row.known) - 1  # the last token is still to be read
            self._cache.end = length
            self._cache.place(length, shelf.snapshot(place, length), length)
        self._cache.end = self._cache.columns

    def step(self, model: RaggedModel, ends: Collection[int]) -> int:
        """One forward pass, which gives each row at least one token; how many they were altogether. ``ends`` are the
        tokens that end a reply."""
        rows, queries = list(self.rows), 1 + self._guesses
        guesses = [self._texts[row].guess(self._guesses) for row in rows]
        before = [len(row.new) for row in rows]
        stops = [len(row.known) - 1 + queries for row in rows]
        if max(stops) > self._cache.columns:
            self._cache.widen(max(stops) + SPARE_COLUMNS)
            self._cache.end = self._cache.columns
        ids = torch.tensor([[row.new[-1], *guess] for row, guess in zip(rows, guesses)])
        piece = Piece(self._cache, slice(0, len(rows)), queries, stops)
        logits = model.forward(ids.flatten(), piece.columns.flatten(), [piece], None).view(len(rows), queries, -1)
        going, drawn = list(range(len(rows))), 0
        for number in range(queries):
            draw([rows[i] for i in going], logits[going, number], ends)
            drawn += len(going)
            going = [i for i in going if rows[i].finish is None
                     and guesses[i][number : number + 1] == rows[i].new[-1:]]
            if not going:
                break
        for row, count in zip(rows, before):
            self._texts[row].extend(row.new[count:])
        self._weigh(len(rows), drawn)
        self._drop_finished()
        return drawn

    def _weigh(self, turns: int, drawn: int) -> None:
        """Ends guessing where it is not worth its while."""
        self._turns, self._drawn = self._turns + turns, self._drawn + drawn
        if self._turns >= TRIES and self._drawn < WORTHWHILE * self._turns:
            self._guesses = 0

    def _drop_finished(self) -> None:
        for place in reversed(range(len(self.rows))):
            if self.rows[place].finish is not None:
                self._cache.drop(place)
                self.rows[place] = self.rows[-1]
                self.rows.pop()
