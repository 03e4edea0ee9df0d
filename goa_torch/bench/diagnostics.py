"""What lines of results say beside accuracy and cost: debates, calibration, pass@k, and bars to read accuracies by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..analysis.calibration import calibration
from ..analysis.debate import Debate, debate_of, diagnose
from ..analysis.pass_at_k import pass_at_k
from ..types import Result
from .store import Record

Lines = Mapping[str, Sequence[Record]]


def facts(result: Result) -> dict[str, Any]:
    """What a line keeps of a result for these tables: ``debate`` (agents and rounds, see
    :class:`~goa_torch.analysis.debate.Debate`; ``None`` if nobody heard anybody) and ``confidence`` by source."""
    from ..methods.confidence import confidences

    debate = debate_of(result.question, result.trace, result.correct)
    told = None if debate is None else {"agents": list(debate.agents), "rounds": list(debate.rounds)}
    return {"debate": told, "confidence": confidences(result)}


def diagnostics(lines: Lines, task: Mapping[str, Any], draws: int, reference: Mapping[str, Any] | None = None
                ) -> dict[str, list[dict[str, Any]]]:
    """The rows of each further table of one task.

    Args:
        lines: of each method, those that the table of accuracies counts.
        task: what the run's configuration says of the task.
        draws: resamples of the bootstrap.
        reference: what :func:`~goa_torch.bench.reference.relay_reference` says of the task.
    """
    draws = min(draws, 2000)
    return {
        "debates": _debates(lines, draws),
        "calibration": _calibration(lines, draws),
        "pass_at_k": _pass_at_k(lines) if task.get("name") == "humaneval" else [],
        "reference": _reference(lines, reference) if reference else [],
    }


def _debates(lines: Lines, draws: int) -> list[dict[str, Any]]:
    rows = []
    for method, mine in lines.items():
        debates = [Debate(line["question"], tuple(told["agents"]), tuple(told["rounds"]), line["correct"])
                   for line in mine if (told := line.get("debate"))]
        if (found := diagnose(debates, draws)) is not None:
            rows.append({"method": method, **asdict(found)})
    return rows


def _calibration(lines: Lines, draws: int) -> list[dict[str, Any]]:
    rows = []
    for method, mine in lines.items():
        for source in sorted({source for line in mine for source in line.get("confidence") or ()}):
            known = [line for line in mine if source in (line.get("confidence") or ())]
            found = calibration([line["confidence"][source] for line in known], [line["correct"] for line in known],
                                [line["question"] for line in known], draws=draws)
            rows.append({"method": method, "source": source, "results": len(mine), **asdict(found)})
    return rows


def _pass_at_k(lines: Lines) -> list[dict[str, Any]]:
    rows = []
    for method, mine in lines.items():
        right: dict[str, list[bool]] = defaultdict(list)
        for line in mine:
            right[line["question"]].append(line["correct"])
        n = min(map(len, right.values()), default=0)
        ks = [k for k in (1, 2, 5, 10, 20, 50, 100) if k <= n]
        rows.append({"method": method, "samples": n, "pass": {
            k: float(np.mean([pass_at_k(len(outcomes), sum(outcomes), k) for outcomes in right.values()]))
            for k in ks}})
    return rows if any(row["samples"] > 1 for row in rows) else []


def _reference(lines: Lines, reference: Mapping[str, Any]) -> list[dict[str, Any]]:
    place = {question: number for number, question in enumerate(reference["questions"])}
    rows, counted = [], 0
    for method, mine in lines.items():
        told = reference["methods"].get(method)
        here = [line for line in mine if line["question"] in place]
        if told is None or not here:
            continue
        at = [place[line["question"]] for line in here]

        def mean(values: Sequence[float] | None, at: Sequence[int] = at) -> float | None:
            return None if values is None else float(np.mean([values[number] for number in at]))

        accuracy, ceiling, oracle = float(np.mean([line["correct"] for line in here])), mean(told["ceiling"]), mean(
            told["oracle"])
        rows.append({"method": method, "results": len(here), "accuracy": accuracy, "ceiling": ceiling,
                     "of_ceiling": accuracy / ceiling if ceiling else None, "static": mean(told["static"]),
                     "static_exact": told["static_exact"], "oracle": oracle,
                     "regret": None if oracle is None else oracle - accuracy})
        counted = counted or len(here)
    if rows:
        blind = [reference["blind"][place[q]] for q in {line["question"] for mine in lines.values() for line in mine}
                 if q in place]
        rows.append({"method": "blind guess", "results": len(blind), "accuracy": float(np.mean(blind)), "ceiling": None,
                     "of_ceiling": None, "static": None, "static_exact": None, "oracle": None, "regret": None})
    return rows


def mean_reference(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The bars of several tasks, each weighing the same: of every method that has some in all of them; ``None`` where
    one of them has none. The best static graph is each task's own."""
    by_method = [{row["method"]: row for row in rows} for rows in tables]
    found = []
    for method in by_method[0] if all(by_method) else ():
        rows = [table[method] for table in by_method if method in table]
        if len(rows) < len(by_method):
            continue
        mean = {key: None if any(row[key] is None for row in rows) else float(np.mean([row[key] for row in rows]))
                for key in ("accuracy", "ceiling", "static", "oracle", "regret")}
        exact = None if mean["static"] is None else all(row["static_exact"] for row in rows)
        found.append({"method": method, "results": sum(row["results"] for row in rows), "static_exact": exact, **mean,
                      "of_ceiling": mean["accuracy"] / mean["ceiling"] if mean["ceiling"] else None})
    return found
