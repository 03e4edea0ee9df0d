"""What the runs of random_routing.yaml say about horizons, stopping rules and whether random peers are as good.

    python experiments/random_routing.py runs/random_redundant runs/random_chain

Writes into each run folder, from its recorded runs and without a new call: `horizons.png` (accuracy after every round),
`stopping.png` (accuracy over tokens for each rule of routing and of stopping, the Pareto front marked) and `routing.md`
(the tables and the equivalence tests).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from goa_torch.bench.horizons import RULES, Horizons, equivalence, read_horizons
from goa_torch.bench.statistics import pareto_front

_MARKS = "os^DvP*X<>"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--reference", default="random", help="label of the method that the others are compared with")
    parser.add_argument("--margin", type=float, default=0.02, help="what counts as equivalent")
    args = parser.parse_args(words)
    for folder in args.folders:
        found = read_horizons(folder)
        draw_horizons(found, folder / "horizons.png")
        draw_stopping(found, folder / "stopping.png")
        text = "\n\n".join(tables(task, debates, args.reference, args.margin) for task, debates in found.items())
        (folder / "routing.md").write_text(text + "\n", encoding="utf-8")
        print(f"# {folder}\n\n{text}\n")


def groups(debates: Horizons) -> dict[str, list[int]]:
    """Rows of all questions, and of each depth."""
    names = sorted({question.category for question in debates.questions})
    parts = {name: [i for i, q in enumerate(debates.questions) if q.category == name] for name in names}
    return ({"all": list(range(len(debates.questions)))} if len(names) > 1 else {}) | parts


def tables(task: str, debates: Horizons, reference: str, margin: float) -> str:
    """Markdown: horizons, equivalence with the reference, stopping rules."""
    runs = next(iter(debates.at.values()))[0].correct.shape
    seeds = [f"## {task}: {runs[0]} questions x {runs[1]} seeds", ""]
    shown = [0, 1, 2, 4, 7, 10, 13]
    lines = seeds + ["| rule | " + " | ".join(f"T = {t + 1}" for t in shown) + " | thousand tokens, T = 14 |",
                     "| --- |" + " ---: |" * (len(shown) + 1)]
    for label, at in debates.at.items():
        cells = [f"{100 * at[t].correct.mean():.1f}" if t < len(at) else "" for t in shown]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {at[-1].tokens.mean() / 1000:.2f} |")
    lines += ["", f"Difference to {reference} in points [90%], p of equivalence within {100 * margin:g} points (TOST), "
              "and the least margin within which equivalence would be shown:", "",
              "| rule | round 3 | p | within | last round | p | within |", "| --- |" + " ---: |" * 6]
    for label, at in debates.at.items():
        if label != reference:
            cells = []
            for t in (2, None):
                mine, other = (x[min(t, len(x) - 1)] if t is not None else x[-1] for x in (at, debates.at[reference]))
                e = equivalence(mine, other, margin)
                same = e.p is None
                cells += [f"{100 * e.difference:+.1f}" if same else
                          f"{100 * e.difference:+.1f} [{100 * e.low:+.1f}, {100 * e.high:+.1f}]",
                          "-" if same else f"{e.p:.3f}", f"{100 * e.within:.1f}"]
            lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", "Stopping rules: accuracy in % / thousand tokens / rounds of talking:", "",
              "| rule | " + " | ".join(RULES) + " |", "| --- |" + " ---: |" * len(RULES)]
    for label, under in debates.under.items():
        lines.append(f"| {label} | " + " | ".join(
            f"{100 * o.correct.mean():.1f} / {o.tokens.mean() / 1000:.2f} / {o.rounds.mean():.1f}"
            for o in under.values()) + " |")
    return "\n".join(lines)


def draw_horizons(found: dict[str, Horizons], path: Path) -> None:
    """Accuracy over rounds: a panel for all questions and one for each depth; bands are 95% intervals of the first
    method listed."""
    panels = [(task, name, debates, rows) for task, debates in found.items() for name, rows in groups(debates).items()]
    figure, axes = _figure(len(panels), 3.6)
    for axis, (task, name, debates, rows) in zip(axes, panels, strict=True):
        for number, (label, at) in enumerate(debates.at.items()):
            outcomes = [outcome.of(rows) for outcome in at]
            means = [100 * outcome.correct.mean() for outcome in outcomes]
            if len(at) == 1:
                axis.axhline(means[0], color="0.4", linestyle=":", linewidth=1.2, label=label)
                continue
            x = np.arange(1, len(at) + 1)
            axis.plot(x, means, color=f"C{number}", marker=_MARKS[number % len(_MARKS)], markersize=3.5, linewidth=1.2,
                      label=label)
            if number == 0:
                low, high = zip(*(outcome.interval()[1:] for outcome in outcomes), strict=True)
                axis.fill_between(x, 100 * np.array(low), 100 * np.array(high), color="C0", alpha=0.12, linewidth=0)
        axis.set_title(name if len(found) == 1 else f"{task}: {name}", fontsize=10)
        axis.set_xlabel("answers of each agent (T)")
        axis.set_xticks(range(1, 15, 2))
    axes[0].set_ylabel("accuracy, %")
    _save(figure, axes[0], path)


def draw_stopping(found: dict[str, Horizons], path: Path) -> None:
    """Accuracy over tokens: colours are rules of routing, marks rules of stopping; filled ones are on the front."""
    figure, axes = _figure(len(found), 4.6, 7.5)
    for axis, (task, debates) in zip(axes, found.items(), strict=True):
        points = [(label, rule, o.tokens.mean(), 100 * o.correct.mean()) for label, under in debates.under.items()
                  for rule, o in under.items()]
        points = list({(label, x, y): (label, rule, x, y) for label, rule, x, y in reversed(points)}.values())
        front = pareto_front([x for *_, x, _ in points], [y for *_, y in points])
        best = sorted((x, y) for (*_, x, y), on in zip(points, front, strict=True) if on)
        axis.plot(*zip(*best, strict=True), color="0.7", linewidth=2, zorder=1)
        labels, rules = list(debates.under), list(RULES)
        for (label, rule, x, y), on in zip(points, front, strict=True):
            colour = f"C{labels.index(label)}"
            axis.plot(x, y, _MARKS[rules.index(rule)], color=colour, markerfacecolor=colour if on else "none",
                      markersize=6, zorder=2)
        for number, label in enumerate(labels):
            axis.plot([], [], "s", color=f"C{number}", label=label)
        for number, rule in enumerate(rules):
            axis.plot([], [], _MARKS[number], color="0.3", markerfacecolor="none", label=rule)
        axis.plot([], [], color="0.7", linewidth=2, label="Pareto front (filled)")
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_xlabel("tokens a question")
        axis.set_title(task, fontsize=10)
    axes[0].set_ylabel("accuracy, %")
    _save(figure, axes[0], path)


def _figure(panels: int, height: float, width: float = 3.1):
    figure = Figure(figsize=(max(7.5, width * panels), height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for axis in axes:
        axis.grid(alpha=0.3, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes)


def _save(figure, axis, path: Path) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
