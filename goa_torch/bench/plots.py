"""Accuracy against cost: tokens, calls and sequential depth, with the front that nothing beats."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

_COSTS = (("tokens", "tokens a question"), ("calls", "calls a question"), ("depth", "sequential depth"))
_MARKS = "osD^vP*X<>hd"
#: Of more methods than this, only those on a front of the panel's row have a name and a colour.
_NAMED = 24


def draw_accuracy_cost(summary: Mapping[str, Any]) -> bytes:
    """A PNG: one row of panels for each task and their mean, one panel for each cost.

    Bars are 95% intervals. Filled marks, joined by the grey line, are the Pareto front: no other method is as good
    for less. Methods of equal cost are drawn side by side. Of many methods those that are on no front are grey.
    """
    import matplotlib

    # a dollar sign in a label is one; signs that the font lacks are drawn as boxes, which needs no warning
    with matplotlib.rc_context({"text.parse_math": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        return _draw(summary)


def _draw(summary: Mapping[str, Any]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    tables = [(task, table["rows"]) for task, table in summary["tasks"].items()]
    tables += [("mean over tasks", summary["macro"]["rows"])] if summary["macro"] else []
    named = _named([rows for _, rows in tables])
    legend_rows = -(-(len(named) + 2) // 4)
    figure = Figure(figsize=(11, 3.2 * len(tables) + 0.22 * legend_rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(tables), len(_COSTS), sharey="row", squeeze=False)
    for (title, rows), across in zip(tables, panels, strict=True):
        for (cost, name), axes in zip(_COSTS, across, strict=True):
            _panel(axes, rows, cost, named)
            axes.set_xlabel(name)
        across[0].set_ylabel(f"{title}\naccuracy, %")
    legend = {label: handle for handle, label in zip(*panels[0][0].get_legend_handles_labels(), strict=True)}
    handles, labels = list(legend.values()), list(legend)
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=8, frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return file.getvalue()


def _named(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The methods that a legend has room for: all, or those on some front."""
    methods = [row["method"] for row in tables[0]]
    if len(methods) <= _NAMED:
        return methods
    best = {row["method"] for rows in tables for row in rows if any(row[f"front_{cost}"] for cost, _ in _COSTS)}
    return [method for method in methods if method in best]


def _panel(axes: Any, rows: Sequence[Mapping[str, Any]], cost: str, named: Sequence[str]) -> None:
    from matplotlib import colormaps
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
    from matplotlib.transforms import ScaledTranslation

    colours = colormaps["tab10"].colors  # type: ignore[attr-defined]
    costs = [row[cost] for row in rows]
    front = sorted((row[cost], row["accuracy"]) for row in rows if row[f"front_{cost}"])
    axes.plot([x for x, _ in front], [100 * y for _, y in front], color="0.7", linewidth=2, zorder=1,
              label="Pareto front (filled)")
    shown = [row for row in rows if row["method"] in named]
    for row in rows:
        if row["method"] not in named:
            axes.plot(row[cost], 100 * row["accuracy"], ".", color="0.75", markersize=4, zorder=0, label="others")
    for row in shown:
        alike = [other["method"] for other in shown if abs(other[cost] - row[cost]) <= 0.02 * row[cost]]
        points = 7 * (alike.index(row["method"]) - (len(alike) - 1) / 2)
        beside = axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)
        accuracy, place = row["accuracy"], named.index(row["method"])
        colour = colours[place % len(colours)]
        below, above = max(0.0, accuracy - row["low"]), max(0.0, row["high"] - accuracy)
        axes.errorbar(row[cost], 100 * accuracy, yerr=[[100 * below], [100 * above]], fmt=_MARKS[place % len(_MARKS)],
                      color=colour, markerfacecolor=colour if row[f"front_{cost}"] else "white", markersize=6,
                      elinewidth=0.8, capsize=2, label=row["method"], zorder=2, transform=beside)
    axes.update_datalim([(x, 100 * y) for x, row in zip(costs, rows, strict=True) for y in (row["low"], row["high"])])
    if cost == "depth":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif min(costs) > 0 and max(costs) > 5 * min(costs):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.12, y=0.08)
    axes.autoscale_view()
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
