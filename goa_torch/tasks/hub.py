"""Rows from the Hugging Face hub through ``datasets``; a hub that cannot be reached is noticed within seconds."""

from __future__ import annotations

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import UserError
from .task import Task

_TRUE = {"1", "on", "yes", "true"}


def hub_reachable(seconds: float = 8.0) -> bool:
    """Whether the hub (``HF_ENDPOINT`` if set) answers at all, through proxies if there are any. The probe runs in a
    thread of its own, because a name server that does not answer heeds no timeout."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    answered = threading.Event()

    def probe() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=seconds).close()
        except urllib.error.HTTPError:
            pass  # it answered
        except (OSError, ValueError):
            return
        answered.set()

    thread = threading.Thread(target=probe, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()


def offline_wanted() -> bool:
    """Whether the user asked for no network (``HF_HUB_OFFLINE``, ``HF_DATASETS_OFFLINE``)."""
    return any(os.environ.get(name, "").lower() in _TRUE for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))


def load_rows(task: Task, split: str) -> list[dict[str, Any]]:
    """The rows of a task's split, from the hub or, where that is out of reach, from the cache of ``datasets``.

    Raises:
        UserError: one line that says whether the hub is out of reach, the set gated, or not there.
    """
    import datasets
    from datasets.exceptions import DatasetNotFoundError, DatasetsError

    asked = offline_wanted()
    offline = asked or not hub_reachable()
    instead = "or name a file of questions (file=...)"
    page = f"https://huggingface.co/datasets/{task.hub}"
    try:
        with _offline(datasets, offline):
            rows = datasets.load_dataset(task.hub, task.config or None, split=task.splits[split])
    except DatasetNotFoundError as error:
        if "gated" in str(error):
            raise UserError(f"task {task.name!r}: {task.hub} is gated; accept its terms at {page} and log in "
                            f"(hf auth login), {instead}") from error
        raise UserError(f"task {task.name!r}: {task.hub} is not on the hub or not open to you; log in (hf auth login), "
                        f"{instead}") from error
    except (ConnectionError, DatasetsError, OSError, ValueError, RuntimeError) as error:
        if offline:
            why = "HF_HUB_OFFLINE is set" if asked else "the Hugging Face hub cannot be reached"
            raise UserError(f"task {task.name!r}: {why} and {task.source} is not in the cache "
                            f"of datasets; connect, {instead}") from error
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"task {task.name!r}: {task.hub} could not be loaded ({type(error).__name__}: {reason}); try "
                        f"again, {instead}") from error
    for name, feature in rows.features.items():
        if isinstance(feature, datasets.Image):
            rows = rows.cast_column(name, datasets.Image(decode=False))  # whether there is one is all that matters
    return list(rows)


@contextmanager
def _offline(datasets: Any, offline: bool) -> Iterator[None]:
    """``datasets`` told that there is no network: otherwise it waits minutes for one before it looks into its cache."""
    before = datasets.config.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = before or offline
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE = before
