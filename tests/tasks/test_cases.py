"""Every public report of a misread answer, and how few of them a reader may miss: none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from goa_torch.nn.reading import read_indices, read_scores
from goa_torch.tasks import math_equal, read_boxed, read_choice, read_number

CASES = Path(__file__).parents[2] / ".." / "shared" / "cases" / "extraction.jsonl"


def cases(*kinds: str) -> list:
    if not CASES.is_file():
        return [pytest.param({}, marks=pytest.mark.skip(reason="../shared/cases is not here"))]
    rows = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row, id=f"{row['kind']}: {row['text'][:30]!r}") for row in rows if row["kind"] in kinds]


@pytest.mark.parametrize("row", cases("number", "choice", "boxed", "math_equal"))
def test_answers_are_read_as_people_read_them(row):
    read = {
        "number": lambda: read_number(row["text"]),
        "choice": lambda: read_choice(row["text"], row["n_choices"]),
        "boxed": lambda: read_boxed(row["text"]),
        "math_equal": lambda: math_equal(row["gold"], row["text"]),
    }[row["kind"]]
    assert read() == row["expected"]


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("row", cases("scores"))
def test_scores_are_read_as_people_read_them(row, released):
    expected = row.get("released", row["expected"]) if released else row["expected"]
    scores = read_scores(row["text"], row["n"], released)
    assert scores == (expected and pytest.approx(expected))
    assert scores is None or math.isclose(sum(scores), 1)


@pytest.mark.parametrize("row", cases("indices"))
def test_indices_are_read_as_people_read_them(row):
    assert read_indices(row["text"], row["n_agents"], row["k"]) == row["expected"]
