"""MATH-500 (Lightman et al. 2023, arXiv 2305.20050): 500 competition problems of MATH, answers are expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Row, Task


def read(row: Mapping[str, Any]) -> Row:
    return Row(row["problem"], row["answer"], category=row.get("subject") or "", id=row.get("unique_id") or "",
               metadata={"level": row["level"]} if "level" in row else {})


TASK = Task("math500", "competition mathematics, answers are expressions", read, answers="math",
            hub="HuggingFaceH4/MATH-500", splits={"test": "test"})
