"""What the page shows of a run, as plain data."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..bench.side_tables import side_tables
from ..bench.store import Item, Record, RunFolder, resolved
from ..bench.summary import summarise
from ..bench.tables import notes, overall_notes, p_value, percent, sections, signed
from ..errors import UserError
from ..export.questions import questions_of
from ..types import Question
from .curves import curves_of

#: What the table and the charts need of a row, unformatted.
_NUMBERS = ("accuracy", "low", "high", "tokens", "calls", "depth", "seconds", "paid_tokens", "front_tokens",
            "front_calls", "front_depth")


def collect(folder: str | Path, traces: int | None = None) -> dict[str, Any]:
    """A run folder of ``goa bench``, or the folder of a training with its curves.

    Args:
        folder: the folder.
        traces: questions of each task whose traces are shown, the first in order; all by default.

    Raises:
        UserError: if it is neither.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; name the folder of a run (goa bench prints it at the end)")
    curves = curves_of(path)
    run = RunFolder(path)
    config = run.read_config() if (path / "config.yaml").exists() and run.results.path.exists() else None
    if config is None and not curves:
        raise UserError(f"{path} holds neither results.jsonl with its config.yaml nor a learning curve (*.jsonl of "
                        "numbers); name the folder of a run")
    name = path.resolve().name
    if config is None:
        return {"name": name, "path": str(path), "tables": [], "side": [], "notes": [], "curves": curves, "methods": [],
                "seeds": [], "tasks": [], "questions": [], "config": ""}
    own = resolved(config, path / "config.yaml")
    summary = summarise(config, run.results, run.read_reference())
    asked, missing = questions_of(config)
    questions, left_out = _questions(run, asked, traces)
    remarks = overall_notes(summary) + missing + ([left_out] if left_out else [])
    return {
        "name": name,
        "path": str(path),
        "tables": _tables(summary),
        "side": [{"title": table.title, "header": list(table.header), "rows": [list(row) for row in table.rows],
                  "note": table.note} for table in side_tables(summary)],
        "notes": remarks,
        "curves": curves,
        "methods": [method["label"] for method in own["identity"]["methods"]],
        "seeds": summary["seeds"],
        "tasks": sorted(own["identity"]["tasks"]),
        "questions": questions,
        "config": _settings(config),
    }


def _tables(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"title": title, "rows": [_row(row) for row in rows], "notes": notes(summary, rows)}
            for title, rows in sections(summary)]


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    span = "" if row["difference_low"] is None else \
        f" [{signed(row['difference_low'])}, {signed(row['difference_high'])}]"
    difference = "baseline" if row["difference"] is None else f"{signed(row['difference'])}{span}"
    return {"method": row["method"], **{name: row[name] for name in _NUMBERS},
            "accuracy_text": f"{percent(row['accuracy'])} [{percent(row['low'])}, {percent(row['high'])}]",
            "sd": percent(row["sd_seeds"]), "difference": difference, "p": p_value(row["p_holm"]),
            "lost": f"{row['unparsed']}/{row['unfinished']}/{row['failed']}"}


def _settings(config: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump({key: value for key, value in config.items() if key != "resolved"}, sort_keys=False,
                          allow_unicode=True)


def _questions(run: RunFolder, asked: Mapping[str, Mapping[str, Question]], most: int | None
               ) -> tuple[list[dict[str, Any]], str]:
    """An entry a question: what came out for each method and seed, and its traces, packed."""
    order: dict[tuple[str, str], dict[Item, int]] = {}
    latest: dict[Item, int] = {}
    for number, line in enumerate(run.results):
        if line["part"] == "test":
            item = Item.of(line)
            latest[item] = number
            order.setdefault((item.task, item.question), {})[item] = number
    tasks = dict.fromkeys(task for task, _ in order)
    shown = {key for task in tasks for key in [key for key in order if key[0] == task][:most]}
    wanted = {number: item for item, number in latest.items() if (item.task, item.question) in shown}
    lines: dict[tuple[str, str], list[Record]] = {}
    for number, line in enumerate(run.results):
        if number in wanted:
            lines.setdefault((line["task"], line["question"]), []).append(line)
    entries = [_question(key, lines[key], asked.get(key[0], {}).get(key[1])) for key in order if key in lines]
    hidden = len(order) - len(entries)
    return entries, f"Traces of {len(entries):,} of {len(order):,} questions are in this page." if hidden else ""


def _question(key: tuple[str, str], lines: list[Record], question: Question | None) -> dict[str, Any]:
    outcomes = [{"method": line["method"], "seed": line["seed"], "correct": line["correct"], "status": line["status"],
                 "answer": line["answer"]} for line in lines]
    traces = [{"method": line["method"], "seed": line["seed"], "usage": line["usage"], "paid": line["paid"],
               "depth": line["depth"], "error": line["error"], "agents": line["trace"].get("agents", []),
               "calls": _by_purpose(line), "stages": [_judged(stage, question) for stage in line["trace"]["stages"]]}
              for line in lines]
    return {"task": key[0], "id": key[1], "category": lines[0]["category"], "gold": lines[0]["gold"],
            "text": question.text if question is not None else None, "outcomes": outcomes, "traces": pack(traces)}


def _by_purpose(line: Record) -> list[dict[str, Any]]:
    """What calls of each purpose cost together."""
    sums: dict[str, dict[str, Any]] = {}
    for call in line["calls"]:
        entry = sums.setdefault(call["purpose"], {"purpose": call["purpose"], "calls": 0, "shared": 0, "prompt": 0,
                                                  "new": 0, "seconds": 0.0, "failed": 0})
        usage = call["usage"]
        entry["calls"] += usage["calls"]
        entry["shared"] += bool(call["shared"])
        entry["failed"] += call["finish_reason"] == "error"
        entry["prompt"] += usage["prompt_tokens"]
        entry["new"] += usage["completion_tokens"]
        entry["seconds"] += usage["seconds"]
    return list(sums.values())


def _judged(stage: Mapping[str, Any], question: Question | None) -> dict[str, Any]:
    """The stage, each reply marked as right or wrong where the question is known."""
    if question is None or "replies" not in stage:
        return dict(stage)
    return {**stage, "replies": [{**reply, "right": question.is_correct(reply.get("answer"))}
                                 for reply in stage["replies"]]}


def pack(value: Any) -> str:
    """JSON, compressed, in base64: what the page unpacks when it is looked at."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return base64.b64encode(gzip.compress(text, mtime=0)).decode("ascii")
