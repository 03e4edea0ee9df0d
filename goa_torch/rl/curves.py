"""Learning curves: one JSON line an update, and their picture."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PANELS = (("return", "return an episode"), ("accuracy", "accuracy"), ("tokens", "tokens an episode"),
           ("calls", "calls an episode"))


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to a curve."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_curve(path: Path, until: int | None = None) -> list[dict[str, Any]]:
    """The lines of a curve, up to and including update ``until``; a last line that was cut off is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if until is None or line["update"] <= until:
            lines.append(line)
    return lines


def draw_curve(lines: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """A PNG: return, accuracy, tokens and calls by update. Points are what the policy comes to without chance on
    validation questions, the line what it came to while it explored on training questions."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.8), layout="constrained")
    FigureCanvasAgg(figure)
    explored = [line for line in lines if "train" in line]
    checked = [line for line in lines if "validation" in line]
    for axes, (name, label) in zip(figure.subplots(1, len(_PANELS)), _PANELS):
        axes.plot([line["update"] for line in explored], [line["train"][name] for line in explored], color="0.7",
                  linewidth=1, label="training, with chance")
        axes.plot([line["update"] for line in checked], [line["validation"][name] for line in checked], "o-",
                  markersize=3, label="validation, without")
        axes.set(xlabel="update", ylabel=label)
    axes.legend(fontsize=7, frameon=False)
    figure.suptitle(title, fontsize=10)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()
