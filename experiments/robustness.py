"""What a run of robustness.yaml says, as matrices: accuracy on the clean pool, and the drop under each adversary.

    python experiments/robustness.py runs/robustness

Reads `summary.json` of the run folder, writes `drops.png` and `drops.md` beside it.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_LABEL = re.compile(r"(?P<method>.*) @ (?P<place>[^(]*)(\(kind=(?P<kind>.*)\))?")
Cells = dict[tuple[str, str, str], dict[str, Any]]


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args(words)
    summary = json.loads((args.folder / "summary.json").read_text(encoding="utf-8"))
    blocks = []
    for number, (task, table) in enumerate(summary["tasks"].items()):
        cells = read(table["rows"])
        blocks.append(markdown(f"{task}: {table['questions']} questions x {len(summary['seeds'])} seeds", cells))
        draw(task, cells, args.folder / (f"drops_{number}.png" if number else "drops.png"))
    text = "\n\n".join(blocks)
    (args.folder / "drops.md").write_text(text + "\n", encoding="utf-8")
    print(text)


def read(rows: list[dict[str, Any]]) -> Cells:
    """Rows by method, placement and kind of adversary; kind is empty for the clean pool."""
    found = {}
    for row in rows:
        label = _LABEL.fullmatch(row["method"])
        if label is None:
            raise SystemExit(f"row {row['method']!r} is none of robustness.yaml")
        found[label["method"], label["place"], label["kind"] or ""] = row
    return found


def _axes(cells: Cells) -> tuple[list[str], list[tuple[str, str]]]:
    return list(dict.fromkeys(m for m, _, _ in cells)), list(dict.fromkeys((p, k) for _, p, k in cells if k))


def markdown(title: str, cells: Cells) -> str:
    """Accuracy on the clean pool, then differences to it with their intervals; bold where Holm's p is below .05."""
    methods, adversaries = _axes(cells)
    clean = next(place for _, place, kind in cells if not kind)
    lines = [f"## {title}", "", "| adversaries | " + " | ".join(methods) + " |", "| --- |" + " ---: |" * len(methods)]
    accuracy = [cells[m, clean, ""] for m in methods]
    lines.append("| none: accuracy, % | " + " | ".join(
        f"{100 * r['accuracy']:.1f} [{100 * r['low']:.0f}, {100 * r['high']:.0f}]" for r in accuracy) + " |")
    for place, kind in adversaries:
        shown = []
        for method in methods:
            row = cells[method, place, kind]
            gap = f"{100 * row['difference']:+.1f}"
            if row["difference_low"] is not None:
                gap += f" [{100 * row['difference_low']:+.0f}, {100 * row['difference_high']:+.0f}]"
            shown.append(f"**{gap}**" if row["p_holm"] is not None and row["p_holm"] < 0.05 else gap)
        lines.append(f"| {place}: {kind} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def draw(task: str, cells: Cells, path: Path) -> None:
    """A heat map of drops in points, a row for each adversary; bold where Holm's p is below .05."""
    methods, adversaries = _axes(cells)
    drops = np.array([[100 * cells[m, place, kind]["difference"] for m in methods] for place, kind in adversaries])
    limit = max(10.0, float(np.abs(drops).max()))
    figure = Figure(figsize=(1.6 + 0.95 * len(methods), 1.4 + 0.3 * len(adversaries)), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    image = axis.imshow(drops, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    for y, (place, kind) in enumerate(adversaries):
        for x, method in enumerate(methods):
            row = cells[method, place, kind]
            sure = row["p_holm"] is not None and row["p_holm"] < 0.05
            axis.text(x, y, f"{drops[y, x]:+.0f}", ha="center", va="center", fontsize=9,
                      fontweight="bold" if sure else "normal",
                      color="white" if abs(drops[y, x]) > 0.6 * limit else "black")
    clean = next(place for _, place, kind in cells if not kind)
    axis.set_xticks(range(len(methods)), [f"{m}\n{100 * cells[m, clean, '']['accuracy']:.0f} %" for m in methods])
    axis.set_yticks(range(len(adversaries)), [f"{place}: {kind}" for place, kind in adversaries])
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for y in range(1, len(adversaries)):
        if adversaries[y][0] != adversaries[y - 1][0]:
            axis.axhline(y - 0.5, color="black", linewidth=1)
    axis.set_xlabel(f"{task}: difference to the clean pool (accuracy below the name), points")
    figure.colorbar(image, ax=axis, fraction=0.04, pad=0.02)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
