"""A run as a Hugging Face data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..bench.store import Record
from ..types import Question
from .lines import read_run
from .questions import questions_of

if TYPE_CHECKING:
    from datasets import Dataset


def load_dataset(folder: str | Path, part: str = "test") -> Dataset:
    """One row a question, method and seed: ``load_dataset("runs/quickstart")``.

    Columns: ``task``, ``question`` (id), ``text`` (null if the questions are not at hand any more), ``category``,
    ``gold``, ``method``, ``name``, ``pool``, ``seed``, ``settings`` (JSON), ``answer``, ``correct``, ``status``,
    ``calls``, ``prompt_tokens``, ``completion_tokens``, ``depth``, ``seconds`` (had the method run alone),
    ``paid_tokens``; the graph as ``agents`` (names), ``edges`` (one struct of ``round``, ``sender``, ``receiver``,
    ``weight`` an edge; agents by number) and ``replies`` (``round``, ``agent``, ``text``, ``answer``, ``correct``);
    and ``trace``, everything as JSON. Push it to the hub with the data set's own ``push_to_hub``.

    Args:
        folder: a run folder of ``goa bench``.
        part: ``test`` or ``validation``.

    Raises:
        UserError: if the folder holds no such results.
    """
    from datasets import Dataset

    config, lines = read_run(folder, part)
    asked, _ = questions_of(config)
    rows = [_row(line, asked.get(line["task"], {}).get(line["question"])) for line in lines]
    return Dataset.from_list(rows, features=_features())


def _features() -> Any:
    from datasets import Features, List, Value

    text, number, real, flag = Value("string"), Value("int64"), Value("float64"), Value("bool")
    columns: dict[str, Any] = dict.fromkeys(("task", "question", "text", "category", "gold", "method", "name", "pool"),
                                            text)
    columns |= {"seed": number, "settings": text, "answer": text, "correct": flag, "status": text}
    columns |= dict.fromkeys(("calls", "prompt_tokens", "completion_tokens", "depth", "paid_tokens"), number)
    columns |= {"seconds": real, "agents": List(text), "trace": text}
    columns["edges"] = List({"round": number, "sender": number, "receiver": number, "weight": real})
    columns["replies"] = List({"round": number, "agent": number, "text": text, "answer": text, "correct": flag})
    return Features(columns)


def _row(line: Record, question: Question | None) -> dict[str, Any]:
    usage, trace = line["usage"], line["trace"]
    edges, replies = [], []
    for stage in trace["stages"]:
        for sender, receiver, weight in stage["edges"] if stage["stage"] == "pass" else ():
            edges.append({"round": stage["round"], "sender": sender, "receiver": receiver, "weight": weight})
        for said in stage["replies"] if stage["stage"] in ("answer", "pass") else ():
            right = question.is_correct(said["answer"]) if question is not None else None
            replies.append({"round": stage["round"], "agent": said["node"], "text": said["text"],
                            "answer": said["answer"], "correct": right})
    return {
        "task": line["task"], "question": line["question"], "text": question.text if question is not None else None,
        "category": line["category"], "gold": line["gold"], "method": line["method"], "name": line["name"],
        "pool": line["pool"], "seed": line["seed"], "settings": json.dumps(line["settings"], sort_keys=True),
        "answer": line["answer"], "correct": line["correct"], "status": line["status"], "calls": usage["calls"],
        "prompt_tokens": usage["prompt_tokens"], "completion_tokens": usage["completion_tokens"],
        "depth": line["depth"], "paid_tokens": line["paid"]["prompt_tokens"] + line["paid"]["completion_tokens"],
        "seconds": usage["seconds"], "agents": trace["agents"], "trace": json.dumps(trace), "edges": edges,
        "replies": replies,
    }
