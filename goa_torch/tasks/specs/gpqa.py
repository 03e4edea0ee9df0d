"""GPQA diamond (Rein et al. 2023, arXiv 2311.12022): 198 graduate questions of biology, physics and chemistry.

The hub lists the right option apart, so options are put into an order drawn from a stream that the question names:
the same in every run. The hub's only split, which it calls train, is the test set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...randomness import stream, uniforms
from ..task import LETTERS, Row, Task


def read(row: Mapping[str, Any]) -> Row:
    right = row["Correct Answer"].strip()
    listed = [right, *(row[f"Incorrect Answer {number}"].strip() for number in (1, 2, 3))]
    name = row.get("Record ID") or row["Question"]
    draws = uniforms([stream("gpqa", "options", name)] * len(listed), range(len(listed)))
    order = sorted(range(len(listed)), key=lambda place: draws[place])
    return Row(row["Question"], LETTERS[order.index(0)], tuple(listed[place] for place in order),
               row.get("High-level domain") or "", row.get("Record ID") or "",
               {"subdomain": row.get("Subdomain") or ""})


TASK = Task("gpqa", "graduate questions of natural science (diamond), four options", read, hub="Idavidrein/gpqa",
            config="gpqa_diamond", splits={"test": "train"}, gated=True)
