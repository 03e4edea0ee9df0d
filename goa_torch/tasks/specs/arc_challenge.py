"""ARC-Challenge (Clark et al. 2018, arXiv 1803.05457): grade-school science, three to five options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import LETTERS, Row, Task


def read(row: Mapping[str, Any]) -> Row:
    labels, texts = row["choices"]["label"], row["choices"]["text"]
    # some rows label their options 1 to 4
    return Row(row["question"], LETTERS[labels.index(row["answerKey"])], tuple(texts), id=row.get("id") or "")


TASK = Task("arc_challenge", "grade-school science, three to five options", read, hub="allenai/ai2_arc",
            config="ARC-Challenge", splits={"test": "test", "validation": "validation", "train": "train"})
