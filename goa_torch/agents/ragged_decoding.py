"""The decoding loop over rows of any length (see :mod:`goa_torch.agents.ragged`).

Rows of similar length share a shelf; all shelves advance together, so that there is one batch, with one tail of long
replies, whatever the prompts' lengths. Otherwise as :mod:`goa_torch.agents.decoding`: finished rows leave at once,
waiting ones take their places, and what prompts share is read once. The last few rows go on by several tokens a
forward pass where they can guess them (see :mod:`goa_torch.agents.lookup`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor

from .kv import BLOCK, SPARE_COLUMNS, Layout, PrefixStore, RowCache
from .lookup import FewRows
from .ragged import Piece, RaggedModel
from .rows import KEPT_BYTES, SCORED_LOGITS, SHARED_TOKENS, Row, draw

#: A shelf takes rows that need at least this share of its columns, or at most so many columns less.
SIMILAR, ALIKE = 0.7, 48
#: The last so many rows of a batch guess their next tokens: what they compute costs less than reading the weights.
GUESSING_ROWS = 8


@dataclass(slots=True, eq=False)
class Shelf:
    """Rows of similar length.

    Attributes:
        cache: their keys and values.
        waiting: rows that have no place yet.
        active: rows in the order of their places.
    """

    cache: RowCache
    waiting: list[Row]
    active: list[Row] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.cache.rows - len(self.active)

    @property
    def opens(self) -> bool:
        """Whether rows should enter: not one by one, since small batches are read slowly."""
        return bool(self.waiting) and (not self.active or self.free >= max(1, self.cache.rows // 4))

    def drop_finished(self) -> None:
        for place in reversed(range(len(self.active))):
            if self.active[place].finish is not None:
                self.cache.drop(place)
                self.active[place] = self.active[-1]
                self.active.pop()


class RaggedDecoder:
    """Runs rows through a :class:`~goa_torch.agents.ragged.RaggedModel`, in one thread.

    Args:
        model: the forward pass.
        layout: what the model keeps for each token.
        ends: tokens that end a reply.
        prefixes: prompts kept for later ones that start the same way.
        prefill_tokens: most tokens read in one forward pass.
        told: called with the number of tokens generated since the last call.
    """

    def __init__(self, model: RaggedModel, layout: Layout, ends: Collection[int], prefixes: PrefixStore,
                 prefill_tokens: int, told: Callable[[int], None] | None = None) -> None:
        self.model, self.layout, self.ends, self.prefixes = model, layout, ends, prefixes
        self.prefill_tokens, self.told = prefill_tokens, told
        self._buffers: list[Tensor] = []

    @torch.no_grad()
    def run(self, rows: Sequence[Row], budget: int, enough: Callable[[int], bool] | None = None) -> list[Shelf]:
        """Generates: fills ``new``, ``log_prob``, ``finish``, ``error`` and ``cached`` of each row, with at most
        ``budget`` tokens on the shelves.

        Args:
            enough: asked before each token, once nobody waits for a place, with the number of rows that go on; if so,
                their shelves are returned, for :meth:`finish`.
        """
        self._expect(rows)
        waiting = sorted(rows, key=lambda row: -row.need)
        while waiting:
            try:
                lots = _that_fit(_similar(waiting), budget)
                for number, similar in enumerate(lots, start=1):
                    shelves = self._shelves(similar, budget)
                    if self._serve(shelves, enough if number == len(lots) else None):
                        return [shelf for shelf in shelves if shelf.active]
            except RuntimeError as error:
                budget = self._less(error, waiting, budget)
            waiting = [row for row in waiting if row.finish is None]
        return []

    @torch.no_grad()
    def finish(self, shelves: Sequence[Shelf], budget: int) -> None:
        """Goes on where one or more decoders of the same model have left their shelves."""
        rows = [row for shelf in shelves for row in shelf.active]
        try:
            self._serve(shelves)
        except RuntimeError as error:
            budget = self._less(error, rows, budget)
            self.run([row for row in rows if row.finish is None], budget)

    @torch.no_grad()
    def score(self, rows: Sequence[Row], budget: int) -> None:
        """Fills the log-probabilities of each row's last tokens."""
        self._expect(rows)
        waiting = sorted(rows, key=lambda row: -row.need)
        vocabulary = self.model.model.get_output_embeddings().weight.shape[0]
        while waiting:
            most = max(1, min(budget // waiting[0].need, SCORED_LOGITS // (vocabulary * max(r.tail for r in waiting))))
            try:
                wave = self._next_wave(waiting, most)
                cache = self._cache(wave)
                for row, logits in zip(wave, self._read([(cache, row) for row in wave]).split([r.tail for r in wave])):
                    row.score(logits)
            except RuntimeError as error:
                budget = self._less(error, waiting, budget)
            waiting = [row for row in waiting if row.finish is None]

    def _expect(self, rows: Sequence[Row]) -> None:
        if self.prefixes.budget:
            for row in rows:
                row.keys = self.prefixes.block_keys(row.marked)
            self.prefixes.expect(row.keys for row in rows)

    def _less(self, error: RuntimeError, waiting: Sequence[Row], budget: int) -> int:
        """A smaller budget if ``error`` says that memory ran out; other errors are raised again. The longest row fails
        if there was no room for anything beside it."""
        if not should_reduce_batch_size(error):
            raise error
        self.prefixes.clear(parts=False)
        self._buffers = []
        left = [row for row in waiting if row.finish is None]
        if len(left) == 1 or budget < 2 * left[0].need:
            left[0].fail(f"out of memory with 1 row of {left[0].need} tokens")
            return budget
        return min(budget, sum(row.need for row in left)) // 2

    # ------------------------------------------------------------------ the loop

    def _serve(self, shelves: Sequence[Shelf], enough: Callable[[int], bool] | None = None) -> bool:
        """Until every row of ``shelves`` is finished, or ``enough`` says so; whether it did."""
        while any(shelf.waiting or shelf.active for shelf in shelves):
            while opening := [shelf for shelf in shelves if shelf.opens]:
                self._admit(opening)
            if not any(shelf.waiting for shelf in shelves):
                rows = sum(len(shelf.active) for shelf in shelves)
                if enough is not None and enough(rows):
                    return True
                if enough is None and 0 < rows <= GUESSING_ROWS:
                    self._guess(shelves)
                    return False
            self._step([shelf for shelf in shelves if shelf.active])
        return False

    def _shelves(self, groups: Sequence[Sequence[Row]], budget: int) -> list[Shelf]:
        """Room for ``groups`` of similar rows, all of them where ``budget`` allows, else each its share."""
        columns = [max(row.need for row in group) + SPARE_COLUMNS for group in groups]
        share = min(1.0, budget / sum(len(group) * wide for group, wide in zip(groups, columns)))
        return [Shelf(RowCache(self.layout, max(1, int(share * len(group))), wide),
                      sorted(group, key=lambda row: -len(row.ids))) for group, wide in zip(groups, columns)]

    def _cache(self, wave: Sequence[Row]) -> RowCache:
        """A shelf for scoring. A small one leaves its memory to the next: clearing it anew would take a tenth of the
        time of a small model."""
        cache = RowCache(self.layout, len(wave), max(len(row.ids) for row in wave), self._buffers)
        self._buffers = cache.buffers if sum(b.nbytes for b in cache.buffers) <= KEPT_BYTES else []
        cache.end = cache.columns
        return cache

    def _admit(self, shelves: Sequence[Shelf]) -> None:
        """Reads as many waiting rows as one forward pass takes, and draws their first tokens."""
        places = {id(row): shelf for shelf in shelves for row in shelf.waiting[: shelf.free]}
        wave = self._next_wave([row for shelf in shelves for row in shelf.waiting[: shelf.free]], len(places))
        pairs = [(places[id(row)], row) for row in wave]
        for shelf in shelves:
            mine = [row for home, row in pairs if home is shelf]
            longest, cache = max((len(row.known) for row in mine), default=0), shelf.cache
            if mine and (not shelf.active or longest > cache.end):
                cache.widen(max(longest, cache.end - cache.first) + SPARE_COLUMNS)
                cache.realign(max(longest, *(cache.end - begin for begin in cache.begin), 0))
        logits = self._read([(shelf.cache, row) for shelf, row in pairs])
        for shelf, row in pairs:
            shelf.waiting.remove(row)
            shelf.active.append(row)
        self._draw(wave, logits, shelves)

    def _next_wave(self, waiting: Sequence[Row], most: int) -> list[Row]:
        """Rows to read together, none of which could reuse what another reads: those wait for the next wave, which
        finds the shared beginning among the prefixes."""
        wave: list[Row] = []
        coming: set[int] = set()
        total = 0
        for row in waiting:
            if len(wave) == most:
                break
            known = self.prefixes.match([*row.marked, *row.new], row.keys)[1]
            if BLOCK * sum(1 for key in row.keys if key in coming) >= known + SHARED_TOKENS:
                continue
            compute = len(row.known) - min(known, len(row.known) - row.tail - 1)
            if wave and total + compute > self.prefill_tokens:
                break
            wave.append(row)
            total += compute
            if len(row.ids) <= self.prefixes.budget:
                coming.update(row.keys)
        return wave

    def _read(self, wave: Sequence[tuple[RowCache, Row]]) -> Tensor:
        """Places rows on their shelves; logits after the last token of each, or those that predict its ``tail``,
        [sum of them, V]."""
        pieces: list[Piece] = []
        ids: list[int] = []
        positions: list[Tensor] = []
        wanted: list[Tensor] = []
        for cache, row in wave:
            tensors, known = self.prefixes.match([*row.marked, *row.new], row.keys)
            tokens = row.known
            reused = min(known, len(tokens) - row.tail - 1) if known else 0
            cache.place(len(tokens), tensors, reused)
            if not row.new:
                row.cached = reused
            place = len(cache.begin) - 1
            pieces.append(Piece(cache, slice(place, place + 1), len(tokens) - reused))
            ids += tokens[reused:]
            positions.append(torch.arange(reused, len(tokens)))
            wanted.append(torch.arange(len(ids) - row.tail - 1, len(ids) - 1) if row.tail else
                          torch.tensor([len(ids) - 1]))
        logits = self.model.forward(torch.tensor(ids), torch.cat(positions), pieces, torch.cat(wanted))
        for (cache, row), piece in zip(wave, pieces):
            if row.keys and not row.new:
                self.prefixes.put(row.marked, row.keys, partial(cache.snapshot, piece.rows.start))
        return logits

    def _step(self, shelves: Sequence[Shelf]) -> None:
        """One more token for each row."""
        for shelf in shelves:
            shelf.cache.extend()
        rows = [row for shelf in shelves for row in shelf.active]
        if not rows:
            return
        pieces = [Piece(shelf.cache, slice(0, len(shelf.active)), 1) for shelf in shelves]
        ids = torch.tensor([row.new[-1] for row in rows])
        positions = torch.tensor([len(row.ids) + len(row.new) - 1 for row in rows])
        self._draw(rows, self.model.forward(ids, positions, pieces, None), shelves)

    def _guess(self, shelves: Sequence[Shelf]) -> None:
        """Until every row of ``shelves`` is finished, several tokens at once."""
        few = FewRows(self.layout, [(shelf.cache, place, row) for shelf in shelves
                                    for place, row in enumerate(shelf.active)])
        while few.rows:
            drawn = few.step(self.model, self.ends)
            if self.told is not None:
                self.told(drawn)

    def _draw(self, rows: Sequence[Row], logits: Tensor, shelves: Sequence[Shelf]) -> None:
        draw(rows, logits, self.ends)
        for shelf in shelves:
            shelf.drop_finished()
        if self.told is not None:
            self.told(len(rows))


def _similar(rows: Iterable[Row]) -> list[list[Row]]:
    """``rows``, longest first, cut where one needs much less than the longest of its group."""
    groups: list[list[Row]] = []
    for row in rows:
        if not groups or row.need < min(SIMILAR * groups[-1][0].need, groups[-1][0].need - ALIKE):
            groups.append([])
        groups[-1].append(row)
    return groups


def _that_fit(groups: list[list[Row]], budget: int) -> list[list[list[Row]]]:
    """Lots of groups; one row of each group of a lot fits the budget at once (or the lot is one group)."""
    lots: list[list[list[Row]]] = []
    room = 0
    for group in groups:
        wide = max(row.need for row in group) + SPARE_COLUMNS
        if not lots or wide > room:
            lots.append([])
            room = budget
        lots[-1].append(group)
        room -= wide
    return lots
