"""File locks that end with the process that holds them, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Waits for the exclusive lock on ``path`` (made if it is not there) and holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with held(descriptor):
            yield
    finally:
        os.close(descriptor)


@contextmanager
def held(descriptor: int) -> Iterator[None]:
    """Waits for the exclusive lock on an open file and holds it.

    It is given back by name, not by closing: a process forked meanwhile has the file open too.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def try_lock(path: str | Path) -> int | None:
    """The exclusive lock on ``path`` as a descriptor to close, or ``None`` if another process holds it.

    A record lock: children forked by its holder do not keep it when the holder is killed.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        os.close(descriptor)
        return None
    return descriptor
