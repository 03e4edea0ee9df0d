"""The main table: every family of methods, all regimes of Relay, equal calls (see main_table.yaml).

    python experiments/main_table.py --quick
    python experiments/main_table.py --gradient "runs/learned_topology/{regime}/edge_gnn-0/best"
    python experiments/main_table.py --merge

Trained topologies are rows of runs of their own (`<regime>_<row>`, the reply cache is shared), so that they can be
added when they are there; `{regime}` in a path stands for the regime, and a regime without its folder has no such row.
The folder gets a run for each regime, `table.md`, `table.csv`, `table.json` and `table.png`.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from main_table_plot import draw_table

from goa_torch import load_pool
from goa_torch.bench import run_experiment
from goa_torch.bench.store import RunFolder
from goa_torch.bench.summary import summarise
from goa_torch.errors import UserError
from goa_torch.methods.rumad import find_controller

HERE = Path(__file__).parent
QUICK = {"limit": 60, "seeds": [0]}


@dataclass(frozen=True)
class Regime:
    """A regime of Relay: its pool, the depths of its questions, and agents that an oracle would name."""

    pool: str
    depths: tuple[int, ...]
    honest: tuple[str, ...] | None = None


REGIMES = {
    "chain": Regime("relay", (1, 2, 3)),
    "null": Regime("relay", (1,)),
    "redundant": Regime("relay_redundant", (1, 2)),
    "harm": Regime("relay_harm", (1, 2), ("equal_a", "equal_b")),
    "adversarial": Regime("relay_adversarial", (1, 2, 3), ("biology", "code", "finance", "general", "law", "math")),
}
#: Rows of trained topologies: option, label, method and its settings beside the checkpoint.
TRAINED = {
    "gradient": ("gradient-learned", {"name": "learned", "k": 2, "rounds": 4}),
    "reinforce": ("REINFORCE-learned", {"name": "learned", "k": 2, "rounds": 4}),
    "rumad": ("PPO controller", {"name": "rumad", "rounds": 6}),
}
DEFAULTS = {"gradient": "runs/learned_topology/{regime}/edge_gnn-0/best",
            "reinforce": "runs/learned_topology/{regime}/edge_gnn+score+reward-0/best", "rumad": "relay"}
UNTRAINED = {"label": "untrained", "name": "learned", "controller": "edge_gnn", "k": 2, "rounds": 4}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs what is missing and merges; returns what `table.json` says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs") / "main_table")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--merge", action="store_true", help="only merge what is there")
    parser.add_argument("--regimes", nargs="+", choices=REGIMES, default=list(REGIMES))
    parser.add_argument("--limit", type=int, default=None, help="questions a depth (400; 60 with --quick)")
    parser.add_argument("--seeds", type=int, nargs="+", default=None, help="(0 to 4; 0 with --quick)")
    for option in TRAINED:
        parser.add_argument(f"--{option}", default=DEFAULTS[option], metavar="CHECKPOINT",
                            help=f"of the row {TRAINED[option][0]!r}; 'none' for no such row (%(default)s)")
    asked = parser.parse_args(arguments)
    base = yaml.safe_load((HERE / "main_table.yaml").read_text(encoding="utf-8"))
    limit = asked.limit or (QUICK["limit"] if asked.quick else base["tasks"][0]["limit"])
    seeds = asked.seeds or (QUICK["seeds"] if asked.quick else base["seeds"])
    asked.out.mkdir(parents=True, exist_ok=True)
    for regime in asked.regimes if not asked.merge else ():
        shape = {"limit": limit, "seeds": seeds, "cache": str((asked.out / "cache").resolve())}
        run(asked.out / regime, for_regime(base, regime) | {"baseline": base["baseline"]}, shape)
        trained = trained_rows(regime, vars(asked))
        if any(row["name"] == "learned" for row in trained.values()):
            trained["untrained"] = dict(UNTRAINED)
        for option, row in trained.items():
            run(asked.out / f"{regime}_{option}", for_regime(base, regime) | {
                "methods": [row], "validation": [], "baseline": row["label"]}, shape)
    table = merged(asked.out, base["baseline"])
    (asked.out / "table.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (asked.out / "table.md").write_text(markdown(table), encoding="utf-8")
    (asked.out / "table.csv").write_text(as_csv(table), encoding="utf-8")
    (asked.out / "table.png").write_bytes(draw_table(table))
    print(markdown(table))
    return table


def run(folder: Path, experiment: dict[str, Any], shape: Mapping[str, Any]) -> None:
    """Runs one experiment, whose file is kept beside its folder."""
    file = folder.with_suffix(".yaml")
    file.write_text(yaml.safe_dump(experiment | {"cache": shape["cache"]}, sort_keys=False), encoding="utf-8")
    print(f"\n{folder.name}", flush=True)
    limits = [f"tasks.{i}.limit={shape['limit']}" for i in range(len(experiment["tasks"]))]
    run_experiment(file, limits, seeds=list(shape["seeds"]), out=folder)


def for_regime(base: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The experiment of a regime: its pool and questions, calls in proportion to its number of agents."""
    regime, experiment = REGIMES[name], deepcopy(dict(base))
    share = len(load_pool(regime.pool)) / len(load_pool(base["pool"]))
    experiment["pool"] = regime.pool
    experiment["tasks"] = [{"name": "relay", "label": f"depth {d}", "limit": base["tasks"][0]["limit"],
                            "settings": {"regime": name, "depth": d}} for d in regime.depths]
    for task in experiment["validation"]:
        task["settings"] = {"regime": name, "depth": list(regime.depths)}
    for method in experiment["methods"]:
        for knob in ("calls", "n", "turns"):
            if isinstance(method.get(knob), int):
                method[knob] = round(method[knob] * share)
        if method["label"] == "oracle route" and regime.honest:
            method["agents"] = [list(regime.honest)]
    return experiment


def trained_rows(regime: str, asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows of the checkpoints that are there, by option."""
    rows = {}
    for option, (label, method) in TRAINED.items():
        checkpoint = asked[option].format(regime=regime)
        if checkpoint == "none":
            continue
        try:
            folder = find_controller(checkpoint) if option == "rumad" else Path(checkpoint)
        except UserError:
            folder = Path(checkpoint)
        if folder.is_dir():
            rows[option] = {"label": label, **method, "checkpoint": str(folder.resolve())}
        else:
            print(f"{regime}: no checkpoint {checkpoint}, so no row {label!r}", flush=True)
    return rows


def merged(out: Path, baseline: str) -> dict[str, Any]:
    """By regime the rows of all its run folders, on the questions and seeds that every method has answered, each depth
    weighing the same."""
    table = {}
    for regime in REGIMES:
        folders = [out / regime, *(out / f"{regime}_{option}" for option in (*TRAINED, "untrained"))]
        parts = [(config, folder) for folder in map(RunFolder, folders) if (config := folder.read_config())]
        if not parts:
            continue
        config = deepcopy(parts[0][0])
        own = config["resolved"]
        for more, _ in parts[1:]:
            own["identity"]["methods"] += more["resolved"]["identity"]["methods"]
            seeds = more["resolved"]["identity"]["seeds"]
            own["identity"]["seeds"] = [seed for seed in own["identity"]["seeds"] if seed in seeds]
        own["baselines"] = {method["label"]: _budgeted(baseline, own["identity"]["methods"])
                            for method in own["identity"]["methods"]}
        summary = summarise(config, (line for _, folder in parts for line in folder.results))
        macro = summary["macro"] or next(iter(summary["tasks"].values()), None)
        if macro:
            count = sum(task["questions"] for task in summary["tasks"].values())
            table[regime] = {"questions": count, "seeds": len(summary["seeds"]), "rows": macro["rows"], "depths": {
                task: {row["method"]: row["accuracy"] for row in found["rows"]}
                for task, found in summary["tasks"].items()}, "best": summary["best"]}
    return table


def _budgeted(label: str, methods: Sequence[Mapping[str, Any]]) -> str:
    return label if any(method["label"] == label for method in methods) else methods[0]["label"]


def names(table: Mapping[str, Any]) -> list[str]:
    """Labels of all rows, in order."""
    return list(dict.fromkeys(row["method"] for found in table.values() for row in found["rows"]))


def markdown(table: Mapping[str, Any]) -> str:
    """Two tables: accuracy with intervals, calls and tokens; differences to random peers."""
    lines = ["| method | " + " | ".join(f"{regime} ({found['questions']} x {found['seeds']})"
                                        for regime, found in table.items()) + " | calls | tokens |",
             "|---" * (len(table) + 3) + "|"]
    by = {regime: {row["method"]: row for row in found["rows"]} for regime, found in table.items()}
    for name in names(table):
        cells = [_accuracy(by[regime].get(name)) for regime in table]
        rows = [by[regime][name] for regime in table if name in by[regime]]
        lines.append(f"| {name} | {' | '.join(cells)} | {_span(rows, 'calls')} | {_span(rows, 'tokens')} |")
    lines += ["", "Difference in points, paired by question and seed [95%]:", "",
              "| method | " + " | ".join(table) + " |", "|---" * (len(table) + 1) + "|"]
    for name in names(table):
        lines.append(f"| {name} | " + " | ".join(_difference(by[regime].get(name)) for regime in table) + " |")
    return "\n".join(lines) + "\n"


def _accuracy(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{100 * row['accuracy']:.1f} [{100 * row['low']:.0f}, {100 * row['high']:.0f}]"


def _difference(row: Mapping[str, Any] | None) -> str:
    if row is None or row["difference"] is None:
        return "-" if row is None else "baseline"
    low, high = row["difference_low"], row["difference_high"]
    return f"{100 * row['difference']:+.1f}" + ("" if low is None else f" [{100 * low:+.0f}, {100 * high:+.0f}]")


def _span(rows: Sequence[Mapping[str, Any]], cost: str) -> str:
    values = [round(row[cost]) for row in rows]
    return f"{min(values):,}" if min(values) == max(values) else f"{min(values):,} to {max(values):,}"


def as_csv(table: Mapping[str, Any]) -> str:
    """One line for each regime and method."""
    file = io.StringIO()
    fields = ("accuracy", "low", "high", "difference", "difference_low", "difference_high", "p_holm", "calls", "tokens",
              "depth", "questions", "seeds")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("regime", "method", *fields))
    for regime, found in table.items():
        writer.writerows((regime, row["method"], *(row[field] for field in fields)) for row in found["rows"])
    return file.getvalue()


if __name__ == "__main__":
    main()
