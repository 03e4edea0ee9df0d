"""Trains topologies with every estimator on Relay, then compares what was learned with graphs that were not.

    python experiments/learned_topology.py --quick          # two seeds of the main ones, in chain and adversarial
    python experiments/learned_topology.py                  # ten seeds, all of them: days

Each name in RUNS is a list of presets of learned_topology.yaml. First, every name gets the same trials of its learning
rate (times each of `--factors`; half the steps, a controller's seed of its own), of which the best on validation
questions is used (with --quick the first regime's for all). Everything can be killed: what is finished is not repeated,
what was begun goes on. `--only train --runs edge_gnn` does a part, `--only compare` the rest; `--jobs` trainings run at
a time, one for each processor by default. The folder gets `tuning.json`; one training for each regime, name and seed;
`curves_<regime>.png`, validation accuracy over what training cost; `training.json`, the same in figures: for every run
its best validation accuracy, and the tokens after which it first reached the accuracy `--reach` points below the best
run's; `compare_<regime>/`, the table of `goa bench` on test questions, where learned graphs stand beside untrained
copies, random peers, rings and everybody hearing everybody; and `seeds_<regime>.json`, the same over controller seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from learned_topology_jobs import TRIAL_SEED, Job, best_of, run_all
from learned_topology_seeds import over_seeds
from learned_topology_seeds import show as show_seeds

from goa_torch.bench import run_experiment
from goa_torch.topology.learned.checkpoint import topology_facts
from goa_torch.training.topology.curves import draw_curves, read_lines
from goa_torch.training.topology.training import read_training

HERE = Path(__file__).parent
#: Supervision is crossed, not mixed: what a debate is worth x soft or hard edges.
RUNS = ("edge_gnn", "edge_gnn+hybrid", "edge_gnn+score", "edge_gnn+gumbel", "edge_gnn+es", "edge_gnn+noisy",
        "edge_gnn+hybrid+reward", "edge_gnn+noisy+reward", "edge_gnn+score+reward", "edge_gnn+score_plain+reward",
        "edge_gnn+score_group+reward", "edge_gnn+es+reward", "edge_gnn+partial", "edge_logits", "edge_logits+score",
        "edge_logits+score+reward", "reliability", "gptswarm", "agentprune", "agentdropout", "gdesigner",
        "gdesigner+corrected")
QUICK = ("edge_gnn", "edge_gnn+hybrid", "edge_gnn+noisy", "edge_gnn+score", "edge_gnn+score+reward", "edge_gnn+es",
         "reliability")
REGIMES = ("chain", "adversarial", "redundant")
STAGED = ("gptswarm", "agentprune", "agentdropout", "gdesigner")


def main(arguments: Sequence[str] | None = None) -> Path:
    """Tunes, trains, draws and compares; returns the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=Path, default=HERE / "learned_topology.yaml")
    parser.add_argument("--out", type=Path, default=Path("runs") / "learned_topology")
    parser.add_argument("--runs", nargs="+", default=None, help="which of RUNS (presets joined by +)")
    parser.add_argument("--regimes", nargs="+", default=None, choices=REGIMES)
    parser.add_argument("--seeds", type=int, nargs="+", default=None, help="of controllers (0 to 9; 0 1 with --quick)")
    parser.add_argument("--only", choices=("train", "compare"), default=None, help="one half of it")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--factors", type=float, nargs="+", default=[0.3, 1.0, 3.0], help="of learning rates to try")
    parser.add_argument("--limit", type=int, default=None, help="test questions (1000; 200 with --quick)")
    parser.add_argument("--reach", type=float, default=0.01, help="how far below the best accuracy counts as reached")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="trainings at a time")
    parser.add_argument("--set", nargs="*", default=[], metavar="key=value", help="override keys of the training file")
    asked = parser.parse_args(arguments)
    names = asked.runs or (QUICK if asked.quick else RUNS)
    seeds = asked.seeds or ([0, 1] if asked.quick else range(10))
    regimes = asked.regimes or (REGIMES[:2] if asked.quick else REGIMES)

    def job(regime: str, name: str, seed: int, folder: Path, **how: Any) -> Job:
        preset = "+".join([name, *([regime] if regime != "chain" else []), *(["quick"] if asked.quick else [])])
        return Job(asked.training, preset, seed, folder, more=tuple(asked.set), **how)

    tuning = asked.out / "tuning"
    trials = {(regime, name, factor): job(regime, name, TRIAL_SEED, tuning / regime / f"{name}-{factor:g}",
                                          factor=factor, shorter=0.5)
              for regime in (regimes[:1] if asked.quick else regimes) for name in names for factor in asked.factors}
    if asked.only != "compare" and len(asked.factors) > 1:
        run_all(list(trials.values()), asked.jobs)
    chosen = {} if len(asked.factors) == 1 else tuned({key: trial.folder for key, trial in trials.items()})
    if chosen:
        (asked.out / "tuning.json").write_text(json.dumps(chosen, indent=2) + "\n", encoding="utf-8")
    figures: dict[str, Any] = {}
    for regime in regimes:
        rates = chosen.get(regime, chosen.get(regimes[0], {}))
        factors = {name: rates[name]["factor"] if name in rates else asked.factors[0] for name in names}
        jobs = {(name, seed): job(regime, name, seed, asked.out / regime / f"{name}-{seed}",
                                  factor=factors[name])
                for seed in seeds for name in names}
        if asked.only != "compare":
            run_all(list(jobs.values()), asked.jobs)
        folders = {key: each.folder for key, each in jobs.items() if each.finished}
        if asked.only == "train" or not folders:
            continue
        figures[regime] = measured(folders, asked.reach)
        curves = {f"{name} {seed}": read_lines(path / "curve.jsonl") for (name, seed), path in folders.items()}
        (asked.out / f"curves_{regime}.png").write_bytes(draw_curves(curves))
        (asked.out / "training.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        show(figures[regime], regime)
        overrides = [f"preset={regime}"] if regime != "chain" else []
        config = read_training(asked.training, [*overrides, *asked.set])
        path = asked.out / f"compare_{regime}.yaml"
        path.write_text(yaml.safe_dump(comparison(config, folders, asked.limit or (200 if asked.quick else 1000))))
        run_experiment(path, out=asked.out / f"compare_{regime}")
        rows = show_seeds(over_seeds(asked.out / f"compare_{regime}"), regime)
        (asked.out / f"seeds_{regime}.json").write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return asked.out


def tuned(trials: dict[tuple[str, str, float], Path]) -> dict[str, dict[str, Any]]:
    """For each regime and name the factor of the learning rate that did best on validation (among equals the one
    nearest to 1), and what each came to."""
    found: dict[str, dict[str, Any]] = {}
    for (regime, name, factor), folder in trials.items():
        if (folder / "summary.json").is_file():
            tried = found.setdefault(regime, {}).setdefault(name, {"factor": None, "tried": {}})["tried"]
            tried[f"{factor:g}"] = best_of(folder)["validation"]["accuracy"]
    for names in found.values():
        for facts in names.values():
            facts["factor"] = min((-accuracy, abs(math.log(float(factor))), float(factor))
                                  for factor, accuracy in facts["tried"].items())[2]
    return found


def measured(folders: dict[tuple[str, int], Path], reach: float) -> dict[str, dict[str, Any]]:
    """What each training came to, and the tokens and seconds after which it had reached the best of all, nearly."""
    lines = {key: [line for line in read_lines(path / "curve.jsonl") if "validation" in line]
             for key, path in folders.items()}
    best = max(line["validation"]["accuracy"] for curve in lines.values() for line in curve)
    figures = {}
    for (name, seed), path in folders.items():
        curve = lines[name, seed]
        there = next((line for line in curve if line["validation"]["accuracy"] >= best - reach), None)
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        figures[f"{name} {seed}"] = {
            "untrained": curve[0]["validation"]["accuracy"], "best": summary["best"]["validation"]["accuracy"],
            "tokens": summary["training"]["all_tokens"], "seconds": summary["training"]["seconds"],
            "reached_after_tokens": None if there is None else there["tokens"] + there["backward_tokens"],
            "reached_after_seconds": None if there is None else there["seconds"],
            "pays_after_questions": summary["pays_after_questions"]}
    return figures


def show(figures: dict[str, dict[str, Any]], regime: str) -> None:
    """The figures of a regime as a table."""
    print(f"\n{regime:34} untrained   best   training tokens   seconds   tokens until near the best of all")
    for name, facts in figures.items():
        reached = facts["reached_after_tokens"]
        print(f"{name:34} {facts['untrained']:8.1%} {facts['best']:7.1%} {facts['tokens']:16,.0f} "
              f"{facts['seconds']:9.0f}   {'never' if reached is None else f'{reached:,.0f}'}", flush=True)


def comparison(config: Any, folders: dict[tuple[str, int], Path], limit: int) -> dict[str, Any]:
    """The experiment file that compares deployed graphs on test questions, every one of in-degree k."""
    debate, task = config.debate, config.task
    shape = {"rounds": debate.rounds, "n": None}
    methods: list[dict[str, Any]] = [
        {"name": "random_nodup", **shape, "k": debate.k, "label": "random_nodup"},
        {"name": "vote"}, {"name": "ring_mad", **shape, "label": "ring"},
        {"name": "mad", **shape, "history": False, "label": "everybody"},
        {"name": "goa", "k": 3, "label": "goa"}, {"name": "handoff", "turns": 6, "label": "handoff"}]
    seen = set()
    for (name, seed), path in folders.items():
        kind, checkpoint = name.split("+")[0], str((path / "best").resolve())
        trained = {"name": kind if kind in STAGED else "learned", "checkpoint": checkpoint, "label": f"{name} {seed}"}
        if (kind, seed) not in seen:
            seen.add((kind, seed))
            untrained = ({"name": kind, **turns_of(checkpoint)} if kind in STAGED else
                         {"name": "learned", "controller": kind, "rounds": debate.rounds})
            methods.append({**untrained, "k": debate.k, "threshold": debate.threshold, "controller_seed": seed,
                            "label": f"{kind} untrained {seed}"})
        methods.append(trained)
    asked = {key: value for key, value in task.items() if key in ("name", "seed", "settings")}
    return {"pool": config.pool, "methods": methods, "tasks": [{**asked, "split": "test", "limit": limit}],
            "baseline": "random_nodup", "seeds": [0], "batch_questions": 200}


def turns_of(checkpoint: str) -> dict[str, Any]:
    """Settings of an untrained copy of a graph in which agents speak in turn."""
    settings = topology_facts(checkpoint)["settings"]
    return {key: settings[key] for key in ("turns", "preset") if key in settings}


if __name__ == "__main__":
    main()
