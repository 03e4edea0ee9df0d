"""The run folder: ``config.yaml``, and ``results.jsonl``, which several processes write and any may die writing."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..types import Usage
from .locks import held, try_lock

Record = dict[str, Any]


class Item(NamedTuple):
    """What one line of ``results.jsonl`` is the result of. ``part`` is ``test`` or ``validation``."""

    part: str
    method: str
    task: str
    question: str
    seed: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Item:
        return cls(*(record[name] for name in cls._fields))


class ResultFile:
    """``results.jsonl``: one line an item, the latest line of an item wins.

    A line is written by one ``write`` to a file opened for appending, under a lock that the system takes back when
    its holder dies. So lines of several processes never mix, and a last line without its end was torn by a death:
    the next writer cuts it off, a reader passes over it. Thread-safe.

    Args:
        path: made by the first :meth:`append`.
        sound: whether a line is a result; others are passed over.
    """

    def __init__(self, path: str | Path, sound: Callable[[Record], bool] = lambda record: True) -> None:
        self.path, self.sound = Path(path), sound
        self._lock = threading.Lock()

    def append(self, records: Iterable[Record]) -> None:
        """Adds lines; they are on disk when this returns."""
        lines = [(json.dumps(record, separators=(",", ":")) + "\n").encode("ascii") for record in records]
        if not lines:
            return
        with self._lock:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                with held(descriptor):
                    _cut_torn_line(descriptor)
                    for line in lines:
                        left = memoryview(line)
                        while left:  # one write, unless the disk takes only part of it
                            left = left[os.write(descriptor, left) :]
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def __iter__(self) -> Iterator[Record]:
        """Every whole line, oldest first. Lines that are not results (torn, or edited by hand) are passed over."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                    hash(Item.of(record))
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
                if self.sound(record):
                    yield record

    def latest(self, keep: Callable[[Record], Any] = lambda record: record) -> dict[Item, Any]:
        """What ``keep`` makes of the last line of each item. Lines hold whole transcripts: keep what is needed."""
        return {Item.of(record): keep(record) for record in self}


def sound(record: Record) -> bool:
    """Whether a line holds, each in its type, what tables and a run that goes on look for."""
    try:
        counts = [record[kind][name.name] for kind in ("usage", "paid") for name in fields(Usage)]
        agent = record["part"] != "validation" or isinstance(record["settings"]["agent"], str)
        stages = record["trace"].get("stages", [])
        return (agent and isinstance(record["correct"], bool) and isinstance(record["settings"], dict)
                and all(isinstance(record[name], str) for name in ("status", "pool", "question", "method", "task"))
                and all(isinstance(count, (int, float)) for count in (record["depth"], *counts))
                and all(isinstance(call["finish_reason"], str) for call in record["calls"])
                and all(isinstance(stage, dict) for stage in stages))
    except (KeyError, TypeError, AttributeError):
        return False


def resolved(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What a run wrote into its ``config.yaml`` about itself.

    Raises:
        UserError: if the file says nothing of the kind, or it was damaged.
    """
    try:
        own = config["resolved"]
        identity = own["identity"]
        labels = [method["label"] for method in identity["methods"]]
        counts = [task["questions"] for part in ("tasks", "validation") for task in identity.get(part, {}).values()]
        whole = (all(own["baselines"][label] in labels for label in labels) and isinstance(own.get("models", {}), dict)
                 and all(isinstance(number, int) for number in (*identity["seeds"], *counts, config["draws"])))
    except (KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise UserError(f"{path} is not the configuration of a run; restore it, or name another folder")
    return own


def _cut_torn_line(descriptor: int) -> None:
    end = os.fstat(descriptor).st_size
    if end == 0 or os.pread(descriptor, 1, end - 1) == b"\n":
        return
    start = end
    while start > 0:
        step = min(65536, start)
        newline = os.pread(descriptor, step, start - step).rfind(b"\n")
        if newline >= 0:
            os.ftruncate(descriptor, start - step + newline + 1)
            return
        start -= step
    os.ftruncate(descriptor, 0)


class RunFolder:
    """A folder that holds the results of one configuration, and of no other.

    Args:
        path: made by :meth:`open`, not before.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.results = ResultFile(self.path / "results.jsonl", sound)
        self._held: int | None = None

    def read_config(self) -> dict[str, Any] | None:
        """What ``config.yaml`` holds, ``None`` if there is none.

        Raises:
            UserError: if it cannot be read, or if the folder holds results without a configuration.
        """
        import yaml

        path = self.path / "config.yaml"
        if not path.exists():
            if self.results.path.exists():
                raise UserError(f"{self.path} holds results.jsonl but no config.yaml; restore it, or name another")
            return None
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            reason = " ".join(str(error).split())
            raise UserError(f"{path} cannot be read ({reason}); restore it, or name another folder") from None
        if not isinstance(config, dict):
            raise UserError(f"{path} is not the configuration of a run; restore it, or name another folder")
        return config

    def open(self, config: Mapping[str, Any]) -> None:
        """Makes the folder, takes it for this run and writes ``config.yaml``.

        Raises:
            UserError: if another run is writing there, or the folder cannot be made.
        """
        import yaml

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._held = try_lock(self.path / ".lock")
        except OSError as error:
            raise UserError(f"run folder {self.path}: {error.strerror}; give --out another folder") from None
        if self._held is None:
            raise UserError(f"run folder {self.path}: another run is writing there; wait for it or give --out another")
        text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, width=120)
        write_whole(self.path / "config.yaml", text)

    def read_reference(self) -> dict[str, Any]:
        """What ``reference.json`` holds (:func:`~goa_torch.bench.reference.relay_reference`), empty if there is none
        or it is damaged: it can be made again."""
        try:
            found = json.loads((self.path / "reference.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def close(self) -> None:
        """Lets other runs write there."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader, or a run that was killed meanwhile, finds the old one or the new one whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    os.replace(beside, path)


def changes(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two configurations differ, one line a place: ``methods[1].k: 2 there, 3 here``."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [(f"{path}.{key}" if path else str(key), old.get(key), new.get(key)) for key in keys]
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        longest = max(len(old), len(new))
        pairs = [(f"{path}[{i}]", *(side[i] if i < len(side) else None for side in (old, new))) for i in range(longest)]
    else:
        return [] if old == new else [f"{path}: {_short(old)} there, {_short(new)} here"]
    return [line for where, left, right in pairs for line in changes(left, right, where)]


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:37] + "..."
