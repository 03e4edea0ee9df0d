"""Learning curves: whatever a training wrote, one JSON line a step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: What counts steps, the first that a file has.
STEPS = ("update", "step", "iteration", "epoch")
#: Files that are no curves.
_OTHERS = {"results.jsonl"}
_MOST_POINTS = 400


def curves_of(folder: Path) -> list[dict[str, Any]]:
    """The curves in the ``*.jsonl`` files of a folder: one panel a quantity, one series a file and part of the data.

    Nested numbers (``{"train": {"accuracy": .5}}``) are series (``train``) of the quantity (``accuracy``). Files whose
    lines count no steps are no curves. A series of many points is thinned by taking means of neighbours.
    """
    panels: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        if path.name in _OTHERS:
            continue
        lines = list(_lines(path))
        step = next((name for name in STEPS if lines and isinstance(lines[0].get(name), (int, float))), None)
        if step is None:
            continue
        for line in lines:
            if not isinstance(line.get(step), (int, float)):
                continue
            for keys, value in _numbers({key: value for key, value in line.items() if key != step}):
                panel = panels.setdefault(keys[-1], {"quantity": keys[-1], "step": step, "series": {}})
                series = " ".join((path.stem, *keys[:-1])) if path.stem not in ("curve", "log") else " ".join(keys[:-1])
                panel["series"].setdefault(series or "training", []).append((line[step], value))
    return [panel | {"series": [{"name": name, "points": _thinned(points)}
                                for name, points in panel["series"].items()]}
            for panel in panels.values() if any(len(points) > 1 for points in panel["series"].values())]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines that are mappings; a last line that was cut off is left out."""
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


def _numbers(line: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    for key, value in line.items():
        if isinstance(value, dict):
            yield from _numbers(value, (*above, str(key)))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            yield (*above, str(key)), float(value)


def _thinned(points: list[tuple[float, float]]) -> list[list[float]]:
    size = -(-len(points) // _MOST_POINTS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [[sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)] for group in groups]
