"""Plots of why_random.py."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = {"random anew": "C0", "random fixed": "C4", "small world": "C2", "ring": "C3", "full": "0.3", "alone": "0.7"}
Row = Mapping[str, Any]


def percent(row: Row) -> str:
    """A row's accuracy, reach and difference as text."""
    low, high = row["interval"]
    less, more = row["difference_interval"]
    return (f"{100 * row['accuracy']:5.1f} [{100 * low:.0f}, {100 * high:.0f}] ({100 * row['reached']:3.0f})  "
            f"{100 * row['difference']:+5.1f} [{100 * less:+.0f}, {100 * more:+.0f}]")


def draw_theory(rows: Sequence[Row]) -> bytes:
    """Rounds of a hop, rounds until all have heard from all, and disagreement's factor, over the number of agents:
    dots are simulation with its 95% interval, lines theory."""
    figure, panels = _figure(1, 3, 11, 3.6)
    titles = {"hop": "rounds until one agent's news reaches another",
              "everyone": "rounds until all have heard from all", "factor": "factor of disagreement a round"}
    for (measure, title), axes in zip(titles.items(), panels[0]):
        for rule, colour in COLOURS.items():
            mine = [row for row in rows if row["rule"] == rule and row["measure"] == measure]
            said = [(row["n"], row["theory"]) for row in mine if row["theory"] is not None]
            known = [row for row in mine if "value" in row]
            if measure == "everyone" and rule == "random fixed":
                continue  # never
            if known:
                values = [row["value"] for row in known]
                error = [[max(0.0, row["value"] - row["low"]) for row in known],
                         [max(0.0, row["high"] - row["value"]) for row in known]]
                axes.errorbar([row["n"] for row in known], values, yerr=error, fmt="o", color=colour, markersize=4,
                              elinewidth=0.8)
            if said:
                axes.plot(*zip(*said), color=colour, linewidth=1.2)
            axes.plot([], [], "o-", color=colour, markersize=4, label=rule)
        axes.set_xscale("log")
        if measure != "factor":
            axes.set_ylim(0, 30)
        axes.set_xlabel("agents N, each hearing two (full: all)")
        axes.set_title(title, fontsize=9)
    handles, names = panels[0][2].get_legend_handles_labels()
    panels[0][2].legend(handles[:5], names[:5], frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.06),
                        title="dots: simulation, lines: theory", title_fontsize=8)
    return _png(figure)


def draw_measured(answer: Mapping[str, Any]) -> bytes:
    """Above: accuracy on Relay by rule after every round (chain at depths 2 to 4), dotted the share of questions whose
    work could have arrived. Below: accuracy over that share for all rules, depths and rounds; regime redundant; and
    accuracy over the number of agents."""
    figure, panels = _figure(2, 3, 11, 6.8)
    chain, equals = answer.get("chain", []), answer.get("redundant", [])
    for depth, axes in zip((2, 3, 4), panels[0]):
        for rule, colour in COLOURS.items():
            mine = [row for row in chain if row["method"] == rule and row["depth"] == depth]
            rounds = [row["rounds"] for row in mine]
            axes.plot(rounds, [100 * row["accuracy"] for row in mine], "o-", color=colour, markersize=3, label=rule)
            axes.plot(rounds, [100 * row["reached"] for row in mine], ":", color=colour, linewidth=1)
        axes.set_title(f"chain, depth {depth} (dotted: could arrive)", fontsize=9)
        axes.set_xlabel("rounds")
        axes.set_ylim(-2, 102)
    panels[0][0].set_ylabel("accuracy, %")
    panels[0][2].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(0, 0.7))  # where nothing is drawn
    scatter, redundant, size = panels[1]
    marks = {1: "o", 2: "s", 3: "^", 4: "D"}
    for row in chain:
        if row["rounds"] > 1 and row["method"] != "alone":
            scatter.plot(100 * row["reached"], 100 * row["accuracy"], marks[row["depth"]], color=COLOURS[row["method"]],
                         markersize=4, alpha=0.7)
    for depth, mark in marks.items():
        scatter.plot([], [], mark, color="0.4", markersize=4, label=f"depth {depth}")
    scatter.legend(frameon=False, fontsize=7)
    if "chain" in answer["explained"]:
        value, low, high = answer["explained"]["chain"]["correlation"]
        scatter.set_title(f"chain, all rules and rounds: r = {value:.2f} [{low:.2f}, {high:.2f}]", fontsize=9)
    scatter.set_xlabel("questions whose work could arrive, %")
    scatter.set_ylabel("accuracy, %")
    for rule, colour in COLOURS.items():
        mine = [row for row in equals if row["method"] == rule and row["depth"] == 2]
        redundant.plot([row["rounds"] for row in mine], [100 * row["accuracy"] for row in mine], "o-", color=colour,
                       markersize=3)
        redundant.fill_between([row["rounds"] for row in mine], *(
            [100 * row["interval"][end] for row in mine] for end in (0, 1)), color=colour, alpha=0.08)
    redundant.set_title("redundant, depth 2", fontsize=9)
    redundant.set_xlabel("rounds")
    sizes = sorted(answer["size"], key=int)
    for rule, colour in COLOURS.items():
        for depth, style in ((2, "-"), (3, "--")):
            mine = [row for n in sizes for row in answer["size"][n]
                    if row["method"] == rule and row["depth"] == depth and row["rounds"] == 12]
            if mine:
                size.errorbar([int(n) for n in sizes], [100 * row["accuracy"] for row in mine], yerr=[
                    [100 * (row["accuracy"] - row["interval"][0]) for row in mine],
                    [100 * (row["interval"][1] - row["accuracy"]) for row in mine]], fmt="o" + style, color=colour,
                    markersize=3, elinewidth=0.8)
    size.set_xscale("log", base=2)
    size.set_xticks([int(n) for n in sizes], sizes)
    size.set_title("three of N are needed; depth 2, dashed 3", fontsize=9)
    size.set_xlabel("agents N")
    return _png(figure)


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.ravel():
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def _png(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150)
    return file.getvalue()
