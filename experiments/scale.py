"""Pools of up to a thousand agents: what selecting from them costs and finds, and how Graph-of-Agents does with them.

    python experiments/scale.py             # selection: half a minute on an idle machine
    goa bench experiments/scale.yaml        # Graph-of-Agents on such pools: see experiments/README.md
    python experiments/scale.py --run runs/scale --out runs/scale

Selection: pools of `--sizes` agents are made by copying those of `--pool`. Printed are, for `--questions` questions of
depth 1 to 4: the share of the needed experts (domains of the layers) that lists of `--lists` agents hold, for each
search, for the same search without variety, and for lists drawn by lot; and the milliseconds that one question waits,
asked alone, for the search, and for the whole selection beside that from the pool as it is. With `--run`, the curves of
a run of scale.yaml are drawn as well. `--out` keeps figures and pictures.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goa_torch.agents.calls import Recorder
from goa_torch.agents.many import grow_pool
from goa_torch.agents.pool import Pool
from goa_torch.agents.pools import load_pool
from goa_torch.errors import UserError
from goa_torch.nn.selection import TopK
from goa_torch.nn.shortlist import SEARCHES, Shortlist
from goa_torch.tasks import load_questions
from goa_torch.types import Question

_ALONE = 40  # questions that are asked one by one, for the time of one


def recall(lists: Sequence[Sequence[Any]], questions: Sequence[Question]) -> float:
    """Mean share of a question's domains that have an expert on its list."""
    return float(np.mean([np.mean([domain in {agent.card.domain for agent in some}
                                   for domain in set(question.metadata["domains"])])
                          for some, question in zip(lists, questions, strict=True)]))


def by_lot(pool: Pool, size: int, questions: Sequence[Question]) -> list[list[Any]]:
    """Lists of ``size`` agents drawn uniformly, always the same."""
    rng = np.random.default_rng(0)
    return [[pool.agents[i] for i in rng.choice(len(pool), min(size, len(pool)), replace=False)] for _ in questions]


def waited(select: Any, pool: Pool, questions: Sequence[Question]) -> float:
    """Median milliseconds of selecting for one question, asked alone."""
    seconds = []
    for question in questions[:_ALONE]:
        began = time.perf_counter()
        select([question], pool, Recorder([question], 0, pool.sampling))
        seconds.append(time.perf_counter() - began)
    return 1000 * float(np.median(seconds))


def selection(pool: Pool, sizes: Sequence[int], lengths: Sequence[int], questions: Sequence[Question]
              ) -> list[dict[str, Any]]:
    """A row for each size of the pool and search."""
    rows = []
    whole = waited(TopK(3), pool, questions)
    for size in sizes:
        many = grow_pool(pool, size)
        rows.append({"agents": size, "search": "by lot",
                     "recall": {n: recall(by_lot(many, n, questions), questions) for n in lengths}})
        for by in SEARCHES:
            for variety in (0.5, 0.0):
                found = {}
                for n in lengths:
                    recorder = Recorder(questions, 0, many.sampling)
                    found[n] = recall(Shortlist(n, by, variety)(questions, many, recorder), questions)
                row = {"agents": size, "search": by + ("" if variety else ", no variety"), "recall": found}
                if variety:
                    short = Shortlist(6, by)
                    row |= {"search_ms": waited(short, many, questions), "whole_ms": whole,
                            "select_ms": waited(TopK(3, shortlist=short), many, questions)}
                rows.append(row)
    return rows


def show(rows: Sequence[dict[str, Any]], lengths: Sequence[int]) -> None:
    print("agents  search                  " + "".join(f"{f'list of {n}':>11}" for n in lengths)
          + "  search, ms  selection, ms  (pool as it is, ms)")
    for row in rows:
        times = f"{row['search_ms']:12.1f}{row['select_ms']:15.1f}{row['whole_ms']:21.1f}" if "search_ms" in row else ""
        found = "".join(f"{row['recall'][n]:>11.3f}" for n in lengths)
        print(f"{row['agents']:>6}  {row['search']:<24}{found}{times}")


def curve(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Points of a run of scale.yaml: accuracy in the mean of depths, and cost, by kind of pool, method and size."""
    points = []
    for row in summary["macro"]["rows"]:
        label, _, pool = row["method"].partition(" @ ")
        size = re.search(r"size=(\d+)", pool)
        points.append({"label": label, "kind": "22 cards" if "many" in pool else "6 cards",
                       "agents": int(size[1]) if size else 6, **{name: row[name] for name in (
                           "accuracy", "low", "high", "calls", "tokens", "seconds", "unparsed_choices")}})
    return points


def draw(points: Sequence[dict[str, Any]], path: Path) -> None:
    """Accuracy, calls, tokens and seconds over the number of agents."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 4)
    labels = list(dict.fromkeys(point["label"] for point in points))
    names = (("accuracy", "accuracy, % (mean of depths 1-3)"), ("calls", "calls a question"),
             ("tokens", "tokens a question"), ("seconds", "seconds a question (batched)"))
    for axes, (name, title) in zip(panels, names):
        for number, label in enumerate(labels):
            for kind, line, marker in (("6 cards", "-", "o"), ("22 cards", "--", "s")):
                mine = sorted((p for p in points if p["label"] == label and p["kind"] == kind),
                              key=lambda p: p["agents"])
                scale = 100 if name == "accuracy" else 1
                x = [p["agents"] * 1.07 ** (number - 1) for p in mine]  # beside each other: some are equal
                y = np.array([scale * p[name] for p in mine])
                spread = None
                if name == "accuracy" and mine:
                    spread = np.array([[scale * (p["accuracy"] - p["low"]), scale * (p["high"] - p["accuracy"])]
                                       for p in mine]).clip(0).T
                axes.errorbar(x, y, yerr=spread, color=f"C{number}", linestyle=line, marker=marker, markersize=4,
                              capsize=2, linewidth=1.2, label=f"{label}, {kind} in the pool")
        axes.set(xscale="log", xlabel="agents in the pool", ylabel=title)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        if name == "tokens":
            axes.set_yscale("log")
        else:
            axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    handles, shown = panels[0].get_legend_handles_labels()
    figure.legend(handles, shown, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="relay", help="a pool of Relay, or a file (pools/relay_many.yaml)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--lists", type=int, nargs="+", default=[1, 2, 3, 4, 6, 12])
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--run", type=Path, help="run folder of scale.yaml, for the curves")
    parser.add_argument("--out", type=Path, help="folder for selection.json and scale.png")
    arguments = parser.parse_args(words)
    if arguments.run is not None and not (arguments.run / "summary.json").is_file():
        parser.error(f"--run: {arguments.run} holds no summary.json; run goa bench experiments/scale.yaml first")
    try:
        pool = load_pool(arguments.pool)
        questions = load_questions("relay", depth=(1, 2, 3, 4), limit=arguments.questions)
        pool.check()
        rows = selection(pool, arguments.sizes, arguments.lists, questions)
    except UserError as error:
        parser.error(str(error))
    show(rows, arguments.lists)
    out = arguments.out
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "selection.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.run is not None:
        points = curve(json.loads((arguments.run / "summary.json").read_text(encoding="utf-8")))
        draw(points, (out or arguments.run) / "scale.png")
        print(f"curves: {(out or arguments.run) / 'scale.png'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
