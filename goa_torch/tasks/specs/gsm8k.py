"""GSM8K (Cobbe et al. 2021, arXiv 2110.14168): grade-school word problems, answers are numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Row, Task


def read(row: Mapping[str, Any]) -> Row:
    _, mark, gold = row["answer"].rpartition("####")
    return Row(row["question"], gold.strip() if mark else "")


TASK = Task("gsm8k", "grade-school word problems, answers are numbers", read, answers="number", hub="openai/gsm8k",
            config="main", splits={"test": "test", "train": "train"})
