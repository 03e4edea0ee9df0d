"""Learning curves: one JSON line a step, and their picture over steps, tokens, calls and seconds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SEEDED = re.compile(r"(.+)[ -]\d+")
_AXES = (("steps", lambda line: line["step"]), ("calls", lambda line: line["calls"]),
         ("million tokens, backward ones included", lambda line: (line["tokens"] + line["backward_tokens"]) / 1e6),
         ("seconds", lambda line: line["seconds"]))


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Adds a line to a curve."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_lines(path: Path, until: int | None = None) -> list[dict[str, Any]]:
    """The lines of a curve, up to and including step ``until``; a last line that was cut off is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if until is None or line["step"] <= until:
            lines.append(line)
    return lines


def draw_curves(curves: Mapping[str, Sequence[Mapping[str, Any]]]) -> bytes:
    """A PNG: accuracy of the deployed graphs on validation questions over what training cost, a line for each name, in
    one colour where names differ in a seed at their end alone."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = {name: seeded[1] if (seeded := _SEEDED.fullmatch(name)) else name for name in curves}
    order = list(dict.fromkeys(kinds.values()))
    colours = colormaps["tab10" if len(order) <= 10 else "tab20"]
    figure = Figure(figsize=(13, 3), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (label, cost) in zip(figure.subplots(1, len(_AXES), sharey=True), _AXES):
        for name, lines in curves.items():
            checked = [line for line in lines if "validation" in line]
            axes.plot([cost(line) for line in checked], [line["validation"]["accuracy"] for line in checked], "o-",
                      markersize=3, linewidth=1, color=colours(order.index(kinds[name])), label=kinds[name])
        axes.set(xlabel=label)
    figure.axes[0].set(ylabel="validation accuracy")
    handles, names = figure.axes[0].get_legend_handles_labels()
    entries = dict(zip(reversed(names), reversed(handles)))  # the first line of each kind
    figure.legend([entries[kind] for kind in order], order, loc="outside right center", fontsize=7, frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130)
    return file.getvalue()
