"""Replies that outlive the process: one SQLite file, shared by methods, seeds, runs and processes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from ..types import Reply, Usage
from .locks import locked

#: Part of every key: raise it when what a stored reply means changes.
FORMAT = 1
_BATCH = 500  # keys in one query; SQLite allows 999 variables everywhere
_T = TypeVar("_T")


class DiskCache:
    """A :class:`~goa_torch.agents.calls.ReplyCache` in ``folder/replies.sqlite``.

    A key is the SHA-256 of the format version and of what makes two calls identical (see
    :func:`~goa_torch.agents.calls.reply_key`: model and revision, dtype and device kind, messages, sampling, stream);
    a value is JSON, never pickled code. Several threads and processes may use one folder at the same time (write-ahead
    log; a local disk, not a network file system). A file that is damaged is moved aside with a warning, never trusted
    and never deleted; a reply that cannot be read is asked for again.

    Args:
        folder: made if it is not there.
        warn: receives one line when something had to be moved aside.
    """

    def __init__(self, folder: str | Path, warn: Callable[[str], None] | None = None) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "replies.sqlite"
        self._warn = warn or (lambda line: print(line, file=sys.stderr))
        self._lock = threading.Lock()
        self._connection = self._open()

    def __repr__(self) -> str:
        return f"DiskCache({str(self.folder)!r})"

    def __enter__(self) -> DiskCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self._do(lambda db: int(db.execute("SELECT count(*) FROM replies").fetchone()[0]))

    @property
    def size(self) -> int:
        """Bytes on disk, the write-ahead log included."""
        parts = (Path(f"{self.path}{end}") for end in ("", "-wal", "-shm"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]:
        """The reply of each key, ``None`` where there is none."""
        names = [key_hash(key) for key in keys]

        def query(db: sqlite3.Connection) -> dict[bytes, str]:
            found: dict[bytes, str] = {}
            for some in _batches(names):
                marks = ",".join("?" * len(some))
                found.update(db.execute(f"SELECT key, value FROM replies WHERE key IN ({marks})", some).fetchall())
            return found

        found = self._do(query)
        return [reply_from_json(found[name]) if name in found else None for name in names]

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None:
        """Keeps replies; on disk when this returns. The latest of a key wins."""
        rows = [(key_hash(key), reply_to_json(reply)) for key, reply in items]
        if rows:
            self._do(lambda db: db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?)", rows))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _do(self, action: Callable[[sqlite3.Connection], _T]) -> _T:
        """``action`` in one transaction; once more on a fresh file if the old one turns out to be damaged."""
        with self._lock:
            try:
                with self._connection:
                    return action(self._connection)
            except sqlite3.DatabaseError as error:
                if not _damaged(error):
                    raise
                self._connection.close()
                self._connection = self._open(suspect=error)
                with self._connection:
                    return action(self._connection)

    def _open(self, suspect: sqlite3.DatabaseError | None = None) -> sqlite3.Connection:
        with locked(self.folder / "lock"):  # so that two processes do not both move a file aside, or each other's
            try:
                return self._connect(thorough=suspect is not None)
            except sqlite3.DatabaseError as error:
                if not _damaged(error):
                    raise
                aside = self._move_aside()
                self._warn(f"reply cache {self.path} is damaged ({error}); moved to {aside.name}, starting afresh")
                return self._connect(thorough=False)

    def _connect(self, thorough: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
        with ExitStack() as undo:
            undo.callback(connection.close)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            with connection:
                connection.execute("CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, value TEXT NOT NULL)")
                connection.execute("SELECT key, value FROM replies LIMIT 1").fetchone()
            if thorough:
                verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if verdict != "ok":
                    raise sqlite3.DatabaseError(f"malformed: {verdict}")
            undo.pop_all()
        return connection

    def _move_aside(self) -> Path:
        number = 1
        while (aside := self.folder / f"replies.damaged-{number}.sqlite").exists():
            number += 1
        os.replace(self.path, aside)
        for end in ("-wal", "-shm"):
            Path(f"{self.path}{end}").unlink(missing_ok=True)  # belongs to the damaged file, would damage a fresh one
        return aside


def key_hash(key: Hashable) -> bytes:
    """The name of a key on disk. Its ``repr`` must be stable, as that of tuples of text and numbers is."""
    return hashlib.sha256(f"{FORMAT}\n{key!r}".encode("utf-8", "surrogatepass")).digest()


def reply_to_json(reply: Reply) -> str:
    """A reply without what belongs to the question that asked (its ``answer``)."""
    return json.dumps({"text": reply.text, "finish_reason": reply.finish_reason, "reasoning": reply.reasoning,
                       "error": reply.error, "log_prob": reply.log_prob, "usage": asdict(reply.usage)})


def reply_from_json(value: str) -> Reply | None:
    """The reply of :func:`reply_to_json`, or ``None`` if ``value`` is not one."""
    try:
        stored = json.loads(value)
        return Reply(**{**stored, "usage": Usage(**stored["usage"])})
    except (ValueError, TypeError, KeyError):
        return None


def _damaged(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is no (whole) database or holds a foreign table; a full disk or a held lock is not damage."""
    text = str(error)
    return any(sign in text for sign in ("malformed", "not a database", "no such column", "no such table",
                                         "unsupported file format"))


def _batches(names: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(names), _BATCH):
        yield names[start : start + _BATCH]
