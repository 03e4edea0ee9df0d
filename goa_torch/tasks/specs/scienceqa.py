"""ScienceQA (Lu et al. 2022, arXiv 2209.09513), the questions without a picture; a hint is part of the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import LETTERS, Row, Task


def read(row: Mapping[str, Any]) -> Row | None:
    if row.get("image") is not None:
        return None
    hint = (row.get("hint") or "").strip()
    return Row(f"{hint}\n\n{row['question']}" if hint else row["question"], LETTERS[row["answer"]],
               tuple(row["choices"]), row.get("subject") or "",
               metadata={"topic": row.get("topic") or "", "grade": row.get("grade") or ""})


TASK = Task("scienceqa", "school science without pictures, two to five options", read, hub="derek-thomas/ScienceQA",
            splits={"test": "test", "validation": "validation", "train": "train"})
