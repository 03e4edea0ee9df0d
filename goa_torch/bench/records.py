"""What a line of ``results.jsonl`` says."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from ..types import Result, Usage
from .diagnostics import facts
from .plan import Cell
from .store import Record

#: Why an item has no answer, or that it has one.
ANSWERED, UNPARSED, UNFINISHED, FAILED = "answered", "unparsed", "unfinished", "failed"
STATUSES = (ANSWERED, UNPARSED, UNFINISHED, FAILED)


def status(result: Result) -> str:
    """``failed``: the call that should have answered failed; ``unfinished``: its reply was cut off; ``unparsed``: no
    answer could be read from it; else ``answered``. All but the last are wrong."""
    if result.reply.failed:
        return FAILED
    if result.answer is not None:
        return ANSWERED
    return UNFINISHED if result.reply.finish_reason == "length" else UNPARSED


def record(result: Result, part: str, cell: Cell, task: str, seed: int, rank: int = 0) -> Record:
    """The line of one result.

    ``usage`` is what the method would have cost alone, ``paid`` what this run paid: calls that other methods had made
    already, or that the cache knew, are in the first only. Both are sums over ``calls``.
    """
    question = result.question
    return {
        "part": part,
        "method": cell.label,
        "task": task,
        "question": question.id,
        "seed": seed,
        "rank": rank,
        "pool": cell.pool,
        "name": cell.name,
        "settings": dict(cell.settings),
        "category": question.category,
        "gold": question.gold,
        "answer": result.answer,
        "correct": bool(result.correct),
        "status": status(result),
        "error": result.reply.error,
        "usage": _usage(result.usage),
        "paid": _usage(result.paid),
        "depth": result.depth,
        "calls": [_call(call) for call in result.calls],
        "trace": _plain(result.trace),
        **facts(result),
    }


def errors(record: Record) -> list[str]:
    """What the failed calls of a line said, in order. Its answer came about without them, so a run that goes on
    replaces the line."""
    said = [call.get("error") or "unknown" for call in record["calls"] if call["finish_reason"] == "error"]
    return said or ([record.get("error") or "unknown"] if record["status"] == FAILED else [])


def usage_of(record: Record, kind: str = "usage") -> Usage:
    """``usage`` or ``paid`` of a line."""
    return Usage(**record[kind])


def _usage(usage: Usage) -> dict[str, Any]:
    return asdict(usage)


def _call(call: Any) -> dict[str, Any]:
    stored = asdict(call)
    del stored["question"]  # the line's own
    return stored


def _plain(value: Any) -> Any:
    """JSON has no word for numbers that are not finite: they become ``null``."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
