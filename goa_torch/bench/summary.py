"""From result lines to the numbers of a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from . import statistics
from .diagnostics import diagnostics, mean_reference
from .records import FAILED, UNFINISHED, UNPARSED, errors, usage_of
from .store import Item, Record

#: Cost columns of a row and the line field each is the mean of, per question and seed.
_COSTS = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds", "retries")
#: What did not go as meant: calls that failed, judges and choices of agents that could not be read, messages cut.
_INCIDENTS = ("failed_calls", "unparsed_judges", "unparsed_choices", "cut_messages")


def summarise(config: Mapping[str, Any], records: Iterable[Record], reference: Mapping[str, Any] | None = None
              ) -> dict[str, Any]:
    """Everything ``summary.json`` says.

    Accuracies, differences and costs are taken over the questions that every method has answered with every seed, so
    that each comparison is paired; of a run that is not finished, the others are counted as ``left_out``.

    Args:
        config: what a run's ``config.yaml`` holds.
        records: every line, oldest first. The latest of an item counts, and what it paid includes what the lines it
            replaces had paid.
        reference: what :func:`~goa_torch.bench.reference.relay_reference` found, by task.
    """
    identity = config["resolved"]["identity"]
    lines = _latest(records)
    tests = [line for line in lines if line["part"] == "test"]
    by_item = {(line["task"], line["method"], line["question"], line["seed"]): line for line in tests}
    tables = {task: _Table(task, identity, by_item) for task in identity["tasks"]}
    wanted = sum(t["questions"] for t in identity["tasks"].values()) * len(identity["methods"]) * len(identity["seeds"])
    present = sum(len(table.present) for table in tables.values())
    options = {"baselines": config["resolved"]["baselines"], "draws": config["draws"], "margin": config["margin"]}
    filled = {task: table for task, table in tables.items() if table.questions}
    found = {task: diagnostics(table.lines, identity["tasks"][task], config["draws"], (reference or {}).get(task))
             for task, table in filled.items()}
    return {
        "complete": present == wanted,
        "results": present,
        "wanted": wanted,
        "seeds": identity["seeds"],
        "margin": config["margin"],
        "failed": sum(line["status"] == FAILED for line in tests),
        "with_failed_calls": sum(bool(line["errors"]) for line in lines),
        "commonest_error": _commonest(error for line in lines for error in line["errors"]),
        "best": best_agents(lines),
        "tasks": {
            task: {"questions": len(table.questions), "left_out": identity["tasks"][task]["questions"] -
                   len(table.questions), "rows": _rows([table], **options), "diagnostics": found[task]}
            for task, table in filled.items()
        },
        "macro": {"tasks": list(filled), "rows": _rows(list(filled.values()), **options), "diagnostics": {
            "reference": mean_reference([rows["reference"] for rows in found.values()])}} if len(filled) > 1 else None,
        "totals": {kind: _total(tests, kind) for kind in ("usage", "paid")},
        "validation_totals": {kind: _total([x for x in lines if x["part"] != "test"], kind) for kind in
                              ("usage", "paid")},
    }


def best_agents(records: Iterable[Record]) -> dict[str, dict[str, Any]]:
    """By pool: the agent with the best accuracy on validation questions (ties: the first by name), and how good."""
    outcomes: dict[str, dict[str, list[bool]]] = {}
    for line in records:
        if line["part"] == "validation":
            agents = outcomes.setdefault(line["pool"], {})
            agents.setdefault(line["settings"]["agent"], []).append(line["correct"])
    best = {}
    for pool, agents in outcomes.items():
        scores = {agent: sum(right) / len(right) for agent, right in sorted(agents.items())}
        chosen = max(scores, key=scores.__getitem__)
        best[pool] = {"agent": chosen, "accuracy": scores[chosen], "results": len(agents[chosen]), "scores": scores}
    return best


def _latest(records: Iterable[Record]) -> list[Record]:
    latest: dict[Item, Record] = {}
    for record in records:
        item, line = Item.of(record), slim(record)
        if (before := latest.get(item)) is not None:
            line = line | {"paid": asdict(usage_of(before, "paid") + usage_of(line, "paid"))}
        latest[item] = line
    return list(latest.values())


class _Table:
    """The lines of one task on the grid methods x questions x seeds."""

    def __init__(self, task: str, identity: Mapping[str, Any], by_item: Mapping[tuple, Record]) -> None:
        self.task = task
        self.methods: list[Mapping[str, Any]] = identity["methods"]
        self.seeds: list[int] = sorted(identity["seeds"])
        labels = [method["label"] for method in self.methods]
        self.present = [key for key in by_item if key[0] == task and key[1] in labels and key[3] in self.seeds]
        ids = sorted({question for _, _, question, _ in self.present})
        self.questions = [q for q in ids if all((task, m, q, s) in by_item for m in labels for s in self.seeds)]
        self.lines = {m: [by_item[task, m, q, s] for q in self.questions for s in self.seeds] for m in labels}
        self.correct = {m: np.array([line["correct"] for line in self.lines[m]], dtype=np.float64).reshape(
            len(self.questions), len(self.seeds)) for m in labels}

    def resampled(self, pairs: Sequence[tuple[str, str | None]], draws: int) -> np.ndarray:
        """[draws, pairs]: of a method's accuracy, or of its difference to another's."""
        outcomes = [self.correct[a] - (self.correct[b] if b is not None else 0) for a, b in pairs]
        return statistics.resampled_means(outcomes, draws, name=self.task)


def _rows(tables: Sequence[_Table], baselines: Mapping[str, str], draws: int, margin: float | None) -> list[dict]:
    """The rows of one task, or of the mean over several, each task weighing the same."""
    methods = tables[0].methods
    labels = [method["label"] for method in methods]
    compared = [(label, baselines[label]) for label in labels if baselines[label] != label]
    means = np.mean([t.resampled([(label, None) for label in labels], draws) for t in tables], axis=0)
    differences = np.mean([t.resampled(compared, draws) for t in tables], axis=0)
    rows = [_row(method, tables, means[:, i]) for i, method in enumerate(methods)]
    tests = []
    for column, (label, baseline) in enumerate(compared):
        row, samples = rows[labels.index(label)], differences[:, column]
        pairs = [(t.correct[label], t.correct[baseline]) for t in tables]
        spread = bool(np.ptp(samples) > 1e-12)  # without any, resampling knows nothing about how sure it is
        low, high = statistics.percentile_interval(samples) if spread else (None, None)
        p = statistics.paired_test(*pairs[0]) if len(pairs) == 1 else statistics.paired_macro_test(pairs, draws)
        variance = sum(statistics.difference_variance(a, b) for a, b in pairs) / len(pairs) ** 2
        row.update(baseline=baseline, difference=float(np.mean([a.mean() - b.mean() for a, b in pairs])),
                   difference_low=low, difference_high=high, p=p,
                   equivalence_p=statistics.equivalence_p(samples, margin) if margin and spread else None,
                   detectable=_number(statistics.detectable_difference(variance)))
        tests.append((row, p))
    for (row, _), adjusted in zip(tests, statistics.holm([p for _, p in tests]), strict=True):
        row["p_holm"] = adjusted
    for cost in ("tokens", "calls", "depth"):
        points = [(round(row[cost], 9), round(row["accuracy"], 9)) for row in rows]  # equal is equal, up to sums' order
        front = statistics.pareto_front(*zip(*points, strict=True))
        for row, on_front in zip(rows, front, strict=True):
            row[f"front_{cost}"] = on_front
    return rows


def _row(method: Mapping[str, Any], tables: Sequence[_Table], means: np.ndarray) -> dict[str, Any]:
    label = method["label"]
    matrices = [table.correct[label] for table in tables]
    lines = [line for table in tables for line in table.lines[label]]
    interval = statistics.accuracy_interval(np.concatenate(matrices), means)
    per_seed = np.mean([x.mean(0) for x in matrices], axis=0)
    row: dict[str, Any] = {
        "method": label, "pool": method["pool"], "name": method["name"], "settings": dict(method["settings"]),
        "questions": sum(map(len, matrices)), "seeds": matrices[0].shape[1],
        "accuracy": float(per_seed.mean()), "low": interval.low, "high": interval.high,
        "sd_seeds": float(per_seed.std(ddof=1)) if len(per_seed) > 1 else None,
        "baseline": None, "difference": None, "difference_low": None, "difference_high": None, "p": None,
        "p_holm": None, "equivalence_p": None, "detectable": None,
    }
    row |= {kind: sum(line["status"] == kind for line in lines) for kind in (UNPARSED, UNFINISHED, FAILED)}
    row |= {kind: sum(line["incidents"][kind] for line in lines) for kind in _INCIDENTS}
    row |= {name: _mean(tables, label, lambda line, name=name: line["usage"][name]) for name in _COSTS}
    row["tokens"] = row["prompt_tokens"] + row["completion_tokens"]
    row["depth"] = _mean(tables, label, lambda line: line["depth"])
    row["paid_calls"] = _mean(tables, label, lambda line: line["paid"]["calls"])
    row["paid_tokens"] = _mean(tables, label, lambda line: usage_of(line, "paid").tokens)
    return row


def _mean(tables: Sequence[_Table], label: str, value: Any) -> float:
    return float(np.mean([np.mean([value(line) for line in table.lines[label]]) for table in tables]))


def slim(record: Record) -> Record:
    """A line without its transcript; what went wrong on the way is counted in ``incidents``."""
    counts = dict.fromkeys(_INCIDENTS, 0)
    counts["failed_calls"] = sum(call["finish_reason"] == "error" for call in record["calls"])
    more = {"incidents": counts, "errors": errors(record)}
    for stage in record["trace"].get("stages", ()):
        counts["unparsed_judges"] += stage.get("unparsed", 0) if stage.get("stage") == "score" else 0
        counts["unparsed_choices"] += bool(stage.get("fallback"))
        counts["cut_messages"] += len(stage.get("cut") or ())
    return {key: value for key, value in record.items() if key not in ("calls", "trace")} | more


def _commonest(said: Iterable[str]) -> str | None:
    """The text said most often, of several the first by name."""
    counts = Counter(said)
    return min(counts, key=lambda text: (-counts[text], text)) if counts else None


def _total(lines: Sequence[Record], kind: str) -> dict[str, Any]:
    names = ("calls", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds", "retries")
    return {name: sum(line[kind][name] for line in lines) for name in names}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
