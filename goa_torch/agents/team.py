"""Rows shared among threads, each with a batch of its own.

On a CPU several threads that share every product gain little where products are small: they wait for each other after
each. Several batches side by side, one thread each, do not wait. But each of them reads the model's weights anew for
every token, which is most of the work of a small batch: once all have become small, they go on as one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import torch

from .kv import Layout, PrefixStore
from .ragged import RaggedModel
from .ragged_decoding import RaggedDecoder, Shelf
from .rows import Row

#: A thread of its own is worth its while for so many rows.
ROWS_A_THREAD = 16
#: Threads go on together once none of them has more rows left.
FEW_ROWS = 64


class Team:
    """Decoders side by side on one model, as many as there are threads and rows for.

    Args:
        model, layout, ends, prefill_tokens: as for :class:`~goa_torch.agents.ragged_decoding.RaggedDecoder`.
        prefixes: divided among the decoders.
    """

    def __init__(self, model: RaggedModel, layout: Layout, ends: frozenset[int], prefixes: PrefixStore,
                 prefill_tokens: int) -> None:
        self.model, self.layout, self.ends, self.prefill_tokens = model, layout, ends, prefill_tokens
        self.prefixes = prefixes
        self._decoders: list[RaggedDecoder] = []

    def run(self, rows: Sequence[Row], budget: int, told: Callable[[int], None] | None = None) -> None:
        """Generates; see :meth:`RaggedDecoder.run`."""
        left: list[Shelf] = []
        tail = Tail(self._count(rows))

        def work(number: int, decoder: RaggedDecoder, mine: list[Row], each: int) -> None:
            left.extend(decoder.run(mine, each, tail.reached_by(number)))
            tail.left[number] = 0

        self._divide(rows, told, work, budget)
        if left:
            [decoder] = self._members(1)
            decoder.told = told
            decoder.finish(left, budget)

    def score(self, rows: Sequence[Row], budget: int) -> None:
        """Scores; see :meth:`RaggedDecoder.score`."""
        self._divide(rows, None, lambda _, decoder, mine, each: decoder.score(mine, each), budget)

    def _count(self, rows: Sequence[Row]) -> int:
        return max(1, min(torch.get_num_threads(), len(rows) // ROWS_A_THREAD))

    def _divide(self, rows: Sequence[Row], told: Callable[[int], None] | None,
                work: Callable[[int, RaggedDecoder, list[Row], int], None], budget: int) -> None:
        threads, count = torch.get_num_threads(), self._count(rows)
        decoders, stop, lock = self._members(count), threading.Event(), threading.Lock()

        def tell(tokens: int) -> None:
            if stop.is_set():
                raise InterruptedError("another thread of the batch was interrupted")
            if told is not None:
                with lock:
                    told(tokens)

        for decoder in decoders:
            decoder.told = tell
        if count == 1:
            work(0, decoders[0], list(rows), budget)
            return

        def serve(number: int, decoder: RaggedDecoder, mine: list[Row]) -> None:
            torch.set_num_threads(max(1, threads // count))
            work(number, decoder, mine, budget // count)

        try:
            with ThreadPoolExecutor(count) as pool:
                futures = [pool.submit(serve, *each) for each in zip(range(count), decoders, _share(rows, count))]
                try:
                    wait(futures, return_when=FIRST_EXCEPTION)
                finally:  # also after Ctrl-C: nobody goes on for a caller who has left
                    stop.set()
        finally:
            torch.set_num_threads(threads)  # part of that setting is shared by all threads
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, InterruptedError)), errors[0])

    def _members(self, count: int) -> list[RaggedDecoder]:
        for store in self.prefixes.parts(count)[len(self._decoders) :]:
            self._decoders.append(RaggedDecoder(self.model, self.layout, self.ends, store, self.prefill_tokens))
        return self._decoders[:count]


class Tail:
    """Tells decoders side by side when each of them has few rows left.

    Attributes:
        left: rows that each still has; ``None`` while some wait for a place.
    """

    def __init__(self, decoders: int) -> None:
        self.left: list[int | None] = [None] * decoders

    def reached_by(self, number: int) -> Callable[[int], bool] | None:
        """For a decoder: told how many rows it has left, whether all have few. One alone has nobody to ask."""
        if len(self.left) == 1:
            return None

        def reached(rows: int) -> bool:
            self.left[number] = rows
            return all(each is not None and each <= FEW_ROWS for each in self.left)

        return reached


def _share(rows: Sequence[Row], count: int) -> list[list[Row]]:
    """``rows`` in parts of about equal work. Prompts that begin alike stay together, and from call to call (where all
    begin with their question, say) questions stay with the same part, which knows their beginnings."""
    ordered = sorted(rows, key=lambda row: row.ids)
    whole = sum(row.need for row in ordered)
    parts: list[list[Row]] = [[] for _ in range(count)]
    done = 0
    for row in ordered:
        parts[min(count - 1, done * count // max(1, whole))].append(row)
        done += row.need
    return parts
