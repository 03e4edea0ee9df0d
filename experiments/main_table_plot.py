"""Plot of main_table.py."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any


def draw_table(table: Mapping[str, Any]) -> bytes:
    """A PNG: accuracy of every method, one panel for each regime, bars are 95% intervals; the grey band is the interval
    of the methods' baseline, random peers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(row["method"] for found in table.values() for row in found["rows"]))
    figure = Figure(figsize=(2.3 * max(1, len(table)) + 2, 0.27 * len(labels) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, max(1, len(table)), sharey=True, squeeze=False)[0]
    for (regime, found), axes in zip(table.items(), panels):
        for row in found["rows"]:
            if row["difference"] is None:
                axes.axvspan(100 * row["low"], 100 * row["high"], color="0.9", zorder=0)
            below, above = max(0.0, row["accuracy"] - row["low"]), max(0.0, row["high"] - row["accuracy"])
            axes.errorbar(100 * row["accuracy"], labels.index(row["method"]), xerr=[[100 * below], [100 * above]],
                          fmt="o", color=colour(row), markersize=4, elinewidth=1, capsize=2)
        axes.set_title(f"{regime} ({found['questions']} x {found['seeds']})", fontsize=9)
        axes.set_xlabel("accuracy, %")
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(labels)), labels, fontsize=8)
    panels[0].invert_yaxis()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return file.getvalue()


def colour(row: Mapping[str, Any]) -> str:
    """One agent, votes, graphs, what was trained, and the bar of an oracle."""
    families = {"single": "0.45", "routed_single": "0.45", "iterate": "0.45", "self_consistency": "C1", "vote": "C1",
                "handoff": "C4", "goa": "C2", "random_nodup": "C0", "mad": "C0", "learned": "C3", "rumad": "C3"}
    return families.get(row["name"], "k")
