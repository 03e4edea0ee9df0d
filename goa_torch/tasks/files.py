"""Questions from files: JSON lines, JSON lists and CSV, in our own format or that of the official Graph-of-Agents.

Our own: ``question`` and ``gold_answer``, and if there are any ``choices`` (a list; in CSV a JSON list or "a|b|c"),
``category``, ``id`` and ``answers`` (``choice``, ``number``, ``math`` or ``text``: how the answer is read). The gold
answer of a choice is its letter or its text (where it could be both, "(B)" is a letter for sure). In the official
format the options stand in the question: "... The options are: (A) ... (B) ...".
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UserError
from .task import ANSWERS, LETTERS, Row

_INLINE = "The options are:"


def read_file(path: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """The rows of a file, each with where it stands ("data.jsonl, line 3"). Raises :class:`UserError` for a file that
    is missing, empty or not what its name says. UTF-8, with or without a byte-order mark."""
    path = Path(path)
    readers = {".jsonl": _json_lines, ".json": _json_list, ".csv": _csv}
    if path.suffix.lower() not in readers:
        raise UserError(f"{path}: questions come from {', '.join(readers)} files; this is none of them")
    if not path.is_file():
        raise UserError(f"{path}: no such file; give the path of a file of questions")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    rows = readers[path.suffix.lower()](text, str(path))
    if not rows:
        raise UserError(f"{path}: the file holds no questions")
    return rows


def _json_lines(text: str, path: str) -> list[tuple[str, dict[str, Any]]]:
    lines = [(f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [(where, _object(_json(line, where), where)) for where, line in lines]


def _json_list(text: str, path: str) -> list[tuple[str, dict[str, Any]]]:
    items = _json(text, path) if text.strip() else []
    if not isinstance(items, list):
        raise UserError(f"{path}: a .json file of questions is a list of objects; this is {type(items).__name__}. "
                        "One object a line is .jsonl")
    return [(f"{path}, row {n}", _object(item, f"{path}, row {n}")) for n, item in enumerate(items, 1)]


def _csv(text: str, path: str) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
    try:
        header = list(reader.fieldnames or ())
        if twice := sorted({name for name in header if name and header.count(name) > 1}):
            raise UserError(f"{path}: two columns are named {twice[0]!r}; rename or remove one")
        for number, row in enumerate(reader, 1):
            if None in row:
                raise UserError(f"{path}, row {number}: more cells than columns; quote cells that hold commas")
            rows.append((f"{path}, row {number}", {key: cell for key, cell in row.items() if cell not in (None, "")}))
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
    return rows


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda name: None)  # NaN is how tables write that nothing is there
    except json.JSONDecodeError as error:
        at = f" at line {error.lineno}" if "\n" in text else ""
        raise UserError(f"{where}: not JSON ({error.msg}{at}, column {error.colno})") from error
    except RecursionError as error:
        raise UserError(f"{where}: JSON nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{where}: a number too long to read; write it in quotes") from error


def _object(item: Any, where: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise UserError(f"{where}: expected an object with 'question' and 'gold_answer', not {type(item).__name__}")
    return item


def user_row(row: Mapping[str, Any], options_inside: bool = True) -> Row:
    """The :class:`Row` of a row in our own or the official format; a missing column is a ``KeyError``, anything else
    that is wrong a ``ValueError`` whose text says what.

    Args:
        row: as the file has it.
        options_inside: look for the official format's options inside the question.
    """
    text, gold = row["question"], row["gold_answer"]
    if not isinstance(text, str) or not isinstance(gold, (str, int, float)) or isinstance(gold, bool):
        raise ValueError("'question' must be text and 'gold_answer' text or a number")
    if isinstance(gold, float) and not math.isfinite(gold):
        raise ValueError("'gold_answer' is too large a number")
    if not isinstance(row.get("id"), (str, int, float, type(None))):
        raise ValueError("'id' must be text or a number")
    choices = _choices(row["choices"]) if row.get("choices") not in (None, "", []) else ()
    _check_meaning(str(gold).strip(), choices)
    if not choices and options_inside:
        text, choices = split_options(text)
    answers = row.get("answers") or ""
    if answers and answers not in ANSWERS:
        raise ValueError(f"unknown 'answers' {answers!r}; it is one of {', '.join(ANSWERS)}")
    known = {"question", "gold_answer", "choices", "category", "id"}
    name = "" if row.get("id") is None else str(row["id"])
    return Row(text, str(gold), choices, str(row.get("category") or ""), name,
               {key: value for key, value in row.items() if key not in known})


def _check_meaning(gold: str, choices: tuple[str, ...]) -> None:
    """The gold answer of a choice is a letter or a text; where it is both, both must mean the same option."""
    by_letter = LETTERS.find(gold.upper()) if len(gold) == 1 else -1
    if 0 <= by_letter < len(choices) and gold in choices and choices[by_letter] != gold:
        right = LETTERS[choices.index(gold)]
        raise ValueError(f"'gold_answer' {gold!r} is ambiguous: a letter, and the text of option {right}; write "
                         f"'({gold.upper()})' or '({right})' for the option of that letter")


def _choices(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise ValueError(f"'choices' is not a JSON list ({error.msg})") from error
        else:
            value = value.split("|")
    if not isinstance(value, list) or not all(isinstance(item, (str, int, float)) for item in value):
        raise ValueError("'choices' must be a list of texts")
    if len(value) < 2:
        raise ValueError("'choices' must hold at least two options")
    return tuple(str(item).strip() for item in value)


def split_options(text: str) -> tuple[str, tuple[str, ...]]:
    """Question and options of the official format, ``()`` if there are none or they are not (A), (B), ... in order.

    That format puts a full stop of its own behind the last option, which is taken off again.
    """
    stem, mark, listed = text.rpartition(_INLINE)
    parts = re.split(r"(?:^|(?<=\s))\(([A-Z])\)\s", listed)
    letters, choices = parts[1::2], [part.strip() for part in parts[2::2]]
    if not mark or len(letters) < 2 or letters != list(LETTERS[: len(letters)]) or parts[0].strip():
        return text, ()
    if choices[-1].endswith("."):
        choices[-1] = choices[-1][:-1]
    return stem.strip(), tuple(choices)
