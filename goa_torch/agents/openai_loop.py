"""An event loop in a thread of its own, so that blocking code can run many requests side by side."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines from any thread, also where a loop runs already (a notebook), on one loop that is kept.

    The loop starts with the first coroutine; :meth:`close` cancels what is pending, and a later :meth:`run` starts
    anew. Ctrl-C in the thread that waits cancels what it waits for.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of ``coroutine``.

        Raises:
            InterruptedError: :meth:`close` was called meanwhile.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started())
        try:
            while not future.done():  # in slices: an endless wait cannot be interrupted on every platform
                concurrent.futures.wait([future], timeout=0.5)
            return future.result()
        except concurrent.futures.CancelledError:
            raise InterruptedError(f"{self.name}: closed while calls were pending") from None
        finally:
            future.cancel()  # nothing happens to one that is done

    def close(self, last: Callable[[], Coroutine[Any, Any, Any]] | None = None) -> None:
        """Cancels pending coroutines, runs ``last`` (gives back what lives on the loop) and ends the thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or not thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(_wind_up(last), loop)
        thread.join(timeout=5)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), daemon=True, name=self.name)
                self._thread.start()
                weakref.finalize(self, _stop, loop)  # a model nobody holds any more leaves no thread behind
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


async def _wind_up(last: Callable[[], Coroutine[Any, Any, Any]] | None) -> None:
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    try:
        if last is not None:
            await last()
    finally:
        asyncio.get_running_loop().stop()
