"""AIME 2024: 30 problems, answers are whole numbers from 0 to 999. The hub calls its one split train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Row, Task


def read(row: Mapping[str, Any]) -> Row:
    return Row(row["problem"], str(row["answer"]), id=str(row["id"]) if "id" in row else "")


TASK = Task("aime24", "the 30 problems of AIME 2024, answers are whole numbers", read, answers="number",
            hub="HuggingFaceH4/aime_2024", splits={"test": "train"},
            instruction=r"End with the final answer, a whole number, inside \boxed{}.")
