"""How a run says how far it is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ..agents.calls import ReplyCache
from ..types import Reply, Usage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

QUIET_SECONDS = 15.0


class Meter:
    """A reply cache that counts what was paid for and hands on to another cache, if there is one.

    Attributes:
        paid: usage of the calls that models served in this process (failed ones are not put into caches and so not
            in here; results have them).
    """

    def __init__(self, cache: ReplyCache | None = None) -> None:
        self.cache = cache
        self.paid = Usage()

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]:
        return self.cache.get(keys) if self.cache is not None else [None] * len(keys)

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None:
        rows = list(items)
        self.paid = sum((reply.usage for _, reply in rows), self.paid)
        if self.cache is not None:
            self.cache.put(rows)


class Progress:
    """Counts results, calls and tokens, and shows them.

    Args:
        console: where to; ``None`` shows nothing.
        total: results wanted in all.
        done: results that were there at the start.
        meter: counts tokens.
        title: what is being done.
    """

    def __init__(self, console: Console | None, total: int, done: int, meter: Meter, title: str) -> None:
        self.console, self.total, self.done, self.meter, self.title = console, total, done, meter, title
        self.calls = self.shared = 0
        self._at_start = done
        self._before = meter.paid
        self._began = self._said = time.monotonic()
        self._lock = threading.Lock()
        self._bar: RichProgress | None = None

    def __enter__(self) -> Progress:
        if self.console is not None and self.console.is_terminal:
            self._bar = self._make_bar()
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total, completed=self.done, note="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self.console is not None and kind is None and self.done > self._at_start:
            self.console.print(self.line())

    def batch(self, calls: int, shared: int) -> None:
        """A batch of calls was served (see :class:`~goa_torch.agents.calls.Exchange`)."""
        with self._lock:
            self.calls += calls
            self.shared += shared
        self._show()

    def finished(self, results: int) -> None:
        """So many more results are on disk."""
        with self._lock:
            self.done += results
        self._show()

    def note(self) -> str:
        """Tokens a second and calls: ``715 tokens/s, 1,204 calls (37% shared)``."""
        seconds = max(time.monotonic() - self._began, 1e-9)
        tokens = self.meter.paid.completion_tokens - self._before.completion_tokens
        share = f" ({self.shared / self.calls:.0%} shared)" if self.calls else ""
        return f"{tokens / seconds:,.0f} tokens/s, {self.calls:,} calls{share}"

    def line(self) -> str:
        """Everything in one line."""
        seconds, fresh = time.monotonic() - self._began, self.done - self._at_start
        left = f", about {clock(seconds / fresh * (self.total - self.done))} left" if 0 < fresh < self.total else ""
        return f"{self.title}: {self.done:,} of {self.total:,} results, {self.note()}, {clock(seconds)}{left}"

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=self.note())
        elif self.console is not None:
            with self._lock:
                if time.monotonic() - self._said < QUIET_SECONDS:
                    return
                self._said = time.monotonic()
            self.console.print(self.line())

    def _make_bar(self) -> RichProgress:
        from rich import progress as rich

        return rich.Progress(
            rich.TextColumn("{task.description}"), rich.BarColumn(bar_width=24), rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(), rich.TextColumn("left"), rich.TimeRemainingColumn(elapsed_when_finished=False),
            rich.TextColumn("{task.fields[note]}"), console=self.console, speed_estimate_period=3600,
        )


def clock(seconds: float) -> str:
    """``75`` as ``1:15``, ``3675`` as ``1:01:15``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
