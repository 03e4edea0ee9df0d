"""MMLU-Pro (Wang et al. 2024, arXiv 2406.01574): 14 fields, up to ten options, more reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Row, Task


def read(row: Mapping[str, Any]) -> Row:
    choices = tuple(choice for choice in row["options"] if choice != "N/A")  # padding, always at the end
    return Row(row["question"], row["answer"], choices, row["category"], str(row["question_id"]),
               {"source": row.get("src", "")})


TASK = Task("mmlu_pro", "14 fields, up to ten options, more reasoning", read, hub="TIGER-Lab/MMLU-Pro",
            splits={"test": "test", "validation": "validation"})
