"""A picture of who heard whom: nodes, weighted arrows in every round, and the readout."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .console import plain
from .show_trace import node_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle

SUFFIXES = (".svg", ".png", ".pdf")
_COLOURS = ("#1f6fb4", "#d9661f", "#2b8a3e", "#7b4fb0")
_GOLD = "#b8860b"
_PANELS = 9  # more rounds than this are too small to read


def check_plot_path(path: Path) -> None:
    """Raises :class:`UserError` unless a plot can be written to ``path``."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"--plot {path}: choose a file that ends in {', '.join(SUFFIXES)}")


def plot_trace(trace: dict[str, Any], title: str, path: Path) -> None:
    """Draws ``trace`` to ``path``. Two rounds with different edges (there and back) share a picture, otherwise each
    round gets a panel of its own; of more than nine rounds the last nine are drawn.

    Arrows run from sender to receiver, as wide as their weight. Circles grow with the relevance of their node, are
    grey where it was dropped and have a second, golden ring where the readout reads them.
    """
    import matplotlib

    # the same trace gives the same file; text stays text; a dollar sign in a question is one
    style = {"svg.hashsalt": "goa", "svg.fonttype": "none", "text.parse_math": False}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # viewers of an SVG have other fonts
        figure = _figure(trace, title)
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=150)


def _figure(trace: dict[str, Any], title: str) -> Figure:
    from matplotlib.figure import Figure

    drawn = [stage for stage in trace["stages"] if stage["stage"] == "pass"][-_PANELS:]
    panels = [drawn] if len(drawn) <= 2 and _distinct(drawn) else [[stage] for stage in drawn]
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = 7.0 if len(panels) == 1 else 4.6
    figure = Figure(figsize=(size * columns, size * rows + 0.6), layout="constrained")
    for number, axis in enumerate(figure.subplots(rows, columns, squeeze=False).flatten()):
        axis.set_axis_off()
        if number < len(panels):
            _draw(axis, trace, panels[number], readout=number == len(panels) - 1)
    figure.suptitle("\n".join(textwrap.wrap(title, 60 * columns)[:3]), fontsize=11)
    return figure


def _distinct(rounds: Sequence[dict[str, Any]]) -> bool:
    """Whether no edge comes twice, so that all can be drawn over each other."""
    edges = [(sender, receiver) for stage in rounds for sender, receiver, _ in stage["edges"]]
    return len(edges) == len(set(edges))


def _draw(axis: Axes, trace: dict[str, Any], rounds: Sequence[dict[str, Any]], readout: bool) -> None:
    names = node_names(trace)
    scores = next((stage for stage in trace["stages"] if stage["stage"] == "score"), None)
    relevance = scores["relevance"] if scores else [None] * len(names)
    kept = scores["kept"] if scores else [True] * len(names)
    places = _places(relevance, len(names))
    nodes = [_node(axis, *facts) for facts in zip(names, places, relevance, kept, strict=True)]
    for number, stage in enumerate(rounds):
        _arrows(axis, stage, nodes, _COLOURS[number % len(_COLOURS)])
    if readout:
        _readout(axis, trace, nodes, names)
    if rounds:
        handles = [_handle(stage, _COLOURS[number % len(_COLOURS)]) for number, stage in enumerate(rounds)]
        axis.legend(handles=handles, loc="upper left", fontsize=8, frameon=False)
    axis.set_xlim(-1.6, 1.6)
    axis.set_ylim(-2.0, 1.6)
    axis.set_aspect("equal")


def _places(relevance: Sequence[float | None], n: int) -> list[tuple[float, float]]:
    """Places on a circle, the most relevant node on top, the others clockwise in their order."""
    order = sorted(range(n), key=lambda v: -(relevance[v] or 0.0))
    places = [(0.0, 0.0)] * n
    for rank, node in enumerate(order):
        angle = math.pi / 2 - 2 * math.pi * rank / max(n, 1)
        places[node] = (math.cos(angle), math.sin(angle)) if n > 1 else (0.0, 0.3)
    return places


def _node(axis: Axes, name: str, place: tuple[float, float], relevance: float | None, kept: bool) -> Circle:
    from matplotlib.patches import Circle

    radius = 0.24 if relevance is None else 0.2 + 0.05 * min(relevance, 2.0)
    circle = Circle(place, radius, facecolor="#e8f0fb" if kept else "#eeeeee", zorder=3, linewidth=1.3,
                    edgecolor="#274b7a" if kept else "#999999", linestyle="-" if kept else "--")
    axis.add_patch(circle)
    label = name if relevance is None else f"{name}\nS = {relevance:.2f}"
    axis.text(*place, label if kept else f"{label}\ndropped", ha="center", va="center", fontsize=8, zorder=4,
              color="#1b2b40" if kept else "#777777")
    return circle


def _arrows(axis: Axes, stage: dict[str, Any], nodes: Sequence[Circle], colour: str) -> None:
    labelled = not _all_ones(stage)
    for sender, receiver, weight in stage["edges"]:
        if sender == receiver:
            _loop(axis, nodes[sender], weight, colour)
        else:
            _arrow(axis, nodes[sender], nodes[receiver], weight, colour, f"{weight:.2f}" if labelled else "")


def _arrow(axis: Axes, sender: Circle, receiver: Circle, weight: float, colour: str, label: str) -> None:
    from matplotlib.patches import FancyArrowPatch

    bend, start, end = 0.18, sender.center, receiver.center
    axis.add_patch(FancyArrowPatch(start, end, connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", patchA=sender,
                                   patchB=receiver, shrinkA=1, shrinkB=2, mutation_scale=13, color=colour,
                                   linewidth=_width(weight), zorder=2, alpha=0.85))
    if label:
        # arc3 puts the control point of its Bezier curve off the middle by bend * (dy, -dx)
        dx, dy = end[0] - start[0], end[1] - start[1]
        x, y = (start[0] + end[0]) / 2 + bend * dy, (start[1] + end[1]) / 2 - bend * dx
        t = 0.4  # a little nearer to the sender: labels of arrows that cross in the middle stay apart
        where = [(1 - t) ** 2 * a + 2 * t * (1 - t) * c + t**2 * b
                 for a, c, b in zip(start, (x, y), end, strict=True)]
        axis.text(*where, label, fontsize=7.5, color=colour, ha="center", va="center", zorder=5,
                  bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85})


def _loop(axis: Axes, node: Circle, weight: float, colour: str) -> None:
    from matplotlib.patches import Circle

    away = math.hypot(*node.center) or 1.0
    reach = 1 + node.radius / away
    axis.add_patch(Circle((node.center[0] * reach, node.center[1] * reach), 0.11, fill=False, linewidth=_width(weight),
                          edgecolor=colour, zorder=2, alpha=0.85))


def _width(weight: float) -> float:
    return 0.6 + 1.6 * min(max(weight, 0.0), 3.0)


def _readout(axis: Axes, trace: dict[str, Any], nodes: Sequence[Circle], names: Sequence[str]) -> None:
    from matplotlib.patches import Circle

    stage = next((stage for stage in reversed(trace["stages"]) if stage["stage"] == "readout"), None)
    if stage is None:
        return
    for sender, _ in stage["edges"]:
        axis.add_patch(Circle(nodes[sender].center, nodes[sender].radius + 0.035, fill=False, edgecolor=_GOLD,
                              linewidth=1.8, zorder=3))
    heard = ", ".join(f"{names[sender]} {weight:.2f}" for sender, weight in stage["edges"]) or "nobody"
    said = stage["answer"] if stage["answer"] is not None else stage["text"] or "no answer"
    text = " ".join(plain(said).split())
    label = f"read out ({stage['by']}) from {heard}\n{textwrap.shorten(text, 70, placeholder=' ...')}"
    axis.text(0, -1.75, label, ha="center", va="center", fontsize=8.5, zorder=4, wrap=True,
              bbox={"boxstyle": "round,pad=0.4", "facecolor": "#fff6df", "edgecolor": _GOLD})


def _all_ones(stage: dict[str, Any]) -> bool:
    return all(math.isclose(weight, 1.0, rel_tol=1e-6) for _, _, weight in stage["edges"])


def _handle(stage: dict[str, Any], colour: str) -> Any:
    from matplotlib.lines import Line2D

    note = " (nobody talks)" if not stage["edges"] else " (all weights 1)" if _all_ones(stage) else ""
    return Line2D([], [], color=colour, label=f"round {stage['round']}{note}")
