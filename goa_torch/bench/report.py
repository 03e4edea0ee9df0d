"""Writes what a run folder's results come to; can be done again at any time, also of a run that goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import UserError
from .plots import draw_accuracy_cost
from .store import RunFolder, resolved, write_whole
from .summary import summarise
from .tables import csv_table, markdown


def write_report(folder: str | Path) -> dict[str, Any]:
    """Writes ``summary.json``, ``table.md``, ``table.csv`` and ``accuracy_cost.png`` and returns the summary.

    Raises:
        UserError: if ``folder`` is not a run folder.
    """
    run = RunFolder(folder)
    config = run.read_config()
    if config is None:
        raise UserError(f"{run.path} is not a run folder: it has no config.yaml of a run")
    resolved(config, run.path / "config.yaml")
    summary = summarise(config, run.results, run.read_reference())
    write_whole(run.path / "summary.json", json.dumps(summary, indent=1) + "\n")
    write_whole(run.path / "table.md", markdown(summary))
    write_whole(run.path / "table.csv", csv_table(summary))
    if summary["tasks"]:
        write_whole(run.path / "accuracy_cost.png", draw_accuracy_cost(summary))
    return summary
