"""MedMCQA (Pal et al. 2022, arXiv 2203.14371): entrance exams of medicine, four options.

The hub's test split has no labels; like the field, ``test`` is its validation split (4,183 questions).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import LETTERS, Row, Task


def read(row: Mapping[str, Any]) -> Row | None:
    if row["cop"] not in range(4):
        return None  # no label
    return Row(row["question"], LETTERS[row["cop"]], tuple(row[key] for key in ("opa", "opb", "opc", "opd")),
               row.get("subject_name") or "", row.get("id") or "", {"topic": row.get("topic_name") or ""})


TASK = Task("medmcqa", "entrance exams of medicine, four options", read, hub="openlifescienceai/medmcqa",
            splits={"test": "validation", "train": "train"})
