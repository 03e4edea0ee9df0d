"""The result lines of a run, the latest of each item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..bench.store import Item, Record, RunFolder, resolved
from ..errors import UserError


def read_run(folder: str | Path, part: str = "test") -> tuple[dict[str, Any], list[Record]]:
    """A run's ``config.yaml`` and its result lines of ``test`` or ``validation`` questions, one an item, in the order
    of the file.

    Raises:
        UserError: if the folder is not that of a run, or holds no such lines.
    """
    run = RunFolder(folder)
    config = run.read_config()
    if config is None:
        raise UserError(f"{run.path} is not a run folder: it has no config.yaml of a run")
    resolved(config, run.path / "config.yaml")
    latest: dict[Item, Record] = {}
    for line in run.results:
        if line["part"] == part:
            latest[Item.of(line)] = line
    if not latest:
        raise UserError(f"{run.path} holds no results of {part} questions yet; goa bench makes them")
    return config, list(latest.values())
