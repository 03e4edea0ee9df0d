"""Rows of `goa bench` that differ in a controller's seed alone, as one row each.

    python experiments/learned_topology_seeds.py runs/learned_topology/compare_chain

Accuracy of each kind of row over its seeds, and its difference to random peers and to the untrained copies of the same
seeds: hierarchical bootstrap over questions and seeds (:func:`goa_torch.bench.statistics.resampled_means`).
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goa_torch.bench.statistics import accuracy_interval, percentile_interval, resampled_means

BASELINE = "random_nodup"


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Prints the tables of the folders; returns all of their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    rows = []
    for folder in parser.parse_args(arguments).folders:
        rows += show(over_seeds(folder), folder.name)
    return rows


def over_seeds(folder: Path) -> list[dict[str, Any]]:
    """One row for each label without its seed: `accuracy`, `to_random` and `to_untrained`, each with its interval, in
    percent and points; accuracies of the `seeds`; `tokens` a question."""
    right: dict[str, dict[tuple[str, int], bool]] = defaultdict(dict)
    tokens: dict[str, list[int]] = defaultdict(list)
    for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        right[result["method"]][result["question"], result["seed"]] = bool(result["correct"])
        tokens[result["method"]].append(result["usage"]["prompt_tokens"] + result["usage"]["completion_tokens"])
    questions = sorted(right[BASELINE])
    groups: dict[str, dict[int, str]] = defaultdict(dict)
    for label in right:
        named = re.fullmatch(r"(.+) (\d+)", label)
        groups[named[1] if named else label][int(named[2]) if named else 0] = label

    def matrix(name: str, seeds: Sequence[int]) -> np.ndarray:
        """[questions, controller seeds]; a row without seeds is the same for all."""
        labels = [groups[name].get(seed, groups[name][min(groups[name])]) for seed in seeds]
        return np.array([[right[label][question] for label in labels] for question in questions], dtype=float)

    rows = []
    for name, labels in groups.items():
        seeds = sorted(labels)
        mine, kind = matrix(name, seeds), name.split("+")[0].split(" ")[0]
        [means] = resampled_means([mine]).T
        rows.append({
            "name": name, "accuracy": 100 * mine.mean(), "interval": _percent(accuracy_interval(mine, means)),
            "seeds": (100 * mine.mean(axis=0)).tolist(), "to_random": _difference(mine, matrix(BASELINE, seeds)),
            "to_untrained": _difference(mine, matrix(f"{kind} untrained", seeds))
            if set(seeds) <= set(groups.get(f"{kind} untrained", ())) and "untrained" not in name else None,
            "tokens": float(np.mean([np.mean(tokens[label]) for label in labels.values()]))})
    return rows


def show(rows: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Prints the table, and gives it back."""
    print(f"\n{where}, over controller seeds: accuracy %, differences in points, 95% intervals")
    for row in rows:
        low, high = row["interval"]
        print(f"{row['name']:26} {row['accuracy']:5.1f} [{low:.1f}, {high:.1f}]  {_points(row['to_random'])} to random"
              f"{'' if row['to_untrained'] is None else ', ' + _points(row['to_untrained']) + ' to untrained'}"
              f"  {row['tokens']:,.0f} tokens  ({', '.join(f'{seed:.1f}' for seed in row['seeds'])})", flush=True)
    return rows


def _difference(one: np.ndarray, other: np.ndarray) -> list[float]:
    [means] = resampled_means([one - other]).T
    return [100 * float((one - other).mean()), *_percent(percentile_interval(means))]


def _percent(interval: Sequence[float]) -> list[float]:
    return [100 * value for value in interval]


def _points(difference: Sequence[float]) -> str:
    return f"{difference[0]:+.1f} [{difference[1]:+.1f}, {difference[2]:+.1f}]"


if __name__ == "__main__":
    main()
