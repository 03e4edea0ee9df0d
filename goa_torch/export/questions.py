"""The questions of a run, which result lines name but do not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import UserError
from ..types import Question


def questions_of(config: Mapping[str, Any]) -> tuple[dict[str, dict[str, Question]], list[str]]:
    """By task label and id, the questions that a run's ``config.yaml`` names, loaded as the run did.

    Returns:
        The questions, and one line for each task whose questions are not to be had any more (a file that is gone, a
        hub out of reach): what needs their text or their reader has to do without.
    """
    from ..tasks import load_questions

    found: dict[str, dict[str, Question]] = {}
    missing = []
    for part in ("validation", "tasks"):
        for task in config.get(part) or ():
            try:
                questions = load_questions(task["name"], file=task.get("file"), split=task.get("split", "test"),
                                           limit=task.get("limit"), seed=task.get("seed", 0),
                                           **(task.get("settings") or {}))
            except UserError as error:
                missing.append(f"questions of {task['label']}: {error}")
                continue
            found.setdefault(task["label"], {}).update((question.id, question) for question in questions)
    return found, missing
