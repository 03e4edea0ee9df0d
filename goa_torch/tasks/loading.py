"""Questions of a task, from the hub or a file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import UserError, unknown
from ..randomness import stream
from ..types import Question
from .files import read_file, user_row
from .number import read_number
from .registry import get_task
from .task import Row, Task, options

_SIGNS, _BRACKETS = frozenset("+-*/^=<>%~"), frozenset("()[]{}")
_PIECE, _THOUSANDS = re.compile(r"\w+|[-+*/^=<>%()\[\]{}~]"), re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
#: Signs as they may be written, and the sign of a negative number, which stands between nothing.
_WRITTEN = str.maketrans({"\u2212": "-", "\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "~": " "})
_NEGATIVE = re.compile(r"(?<![\w)\]}])(?<![\w)\]}]\s)-(?=\d)")
#: Splits that a split must share no question with; theirs are the questions that stay.
_KEPT_FROM = {"train": ("validation", "test"), "validation": ("test",)}


def load_questions(task: str | Task, file: str | Path | None = None, split: str = "test", limit: int | None = None,
                   seed: int | None = 0, **settings: Any) -> list[Question]:
    """The questions of a task.

    Args:
        task: its name (:func:`task_names`), or a :class:`Task` of your own.
        file: read them from this ``.jsonl``, ``.json`` or ``.csv`` file instead of the hub (needed for task
            ``file``): our own format, the official Graph-of-Agents one, or the hub's rows. The file is taken to be
            what ``split`` says.
        split: ``test``, ``validation`` or ``train``. From the hub, train and validation questions that are also in a
            later split are left out.
        limit: at most so many. They are the first of an order drawn by ``seed``, so that 10 are the first 10 of 20,
            whatever the order of the file; ``seed=None`` takes the first of the file.
        seed: of that order; without ``limit`` questions come in the order of the file.
        settings: those of a task that makes its questions (``relay``: ``regime``, ``depth``, ...).

    Raises:
        UserError: for whatever is wrong, with the file and the row.
    """
    task = get_task(task) if isinstance(task, str) else task
    task.need_split(split)
    if limit is not None and limit < 1:
        raise UserError(f"task {task.name!r}: limit must be at least 1, not {limit}")
    if task.generate is not None:
        return _generated(task, file, settings, split=split, limit=limit, seed=seed or 0)
    if settings:
        raise UserError(f"task {task.name!r} has no settings, so {', '.join(settings)} means nothing; leave it out")
    if task.answers == "code":  # graded by running it: better refused before the first call than after the last
        from ..sandbox import need_sandbox

        need_sandbox()
    questions = _from_file(task, file, split) if file is not None else _from_hub(task, split)
    if limit is None:
        return questions
    if seed is not None:
        questions = sorted(questions, key=lambda q: (stream(seed, "questions", task.name, q.id), q.id))
    return questions[:limit]


def _generated(task: Task, file: str | Path | None, settings: Mapping[str, Any], **how: Any) -> list[Question]:
    if file is not None:
        raise UserError(f"task {task.name!r} makes its own questions; leave out file, or use the task 'file'")
    known = [name for name in inspect.signature(task.generate).parameters if name not in how]
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known, f"task {task.name!r}")
    return task.generate(**how, **settings)


def without_overlap(questions: Iterable[Question], *others: Iterable[Question]) -> list[Question]:
    """``questions`` without those whose words (case, punctuation and the order of options aside; the signs of formulas
    are words) are among ``others``: what may be trained or chosen on, given what will be tested on."""
    taken = {_words(question) for other in others for question in other}
    return [question for question in questions if _words(question) not in taken]


def _words(question: Question) -> str:
    stem = question.text.removesuffix(options(question.choices))
    return "\x1f".join(_bare(text.casefold()) for text in (stem, *sorted(question.choices)))


def _bare(text: str) -> str:
    """The words of a text, run together but for numbers, and the signs between numbers, brackets and variables, with
    the brackets beside them."""
    text = _NEGATIVE.sub("~", _THOUSANDS.sub("", text.translate(_WRITTEN).replace("\\cdot", "*")))
    pieces = ["", *_PIECE.findall(text), ""]
    around = list(zip(pieces, pieces[1:], pieces[2:]))
    signs = ["", *(piece if piece == "~" or (piece in _SIGNS and _formula(before) and _formula(after)) else ""
                   for before, piece, after in around), ""]
    bare = ""
    for place, (_, piece, _) in enumerate(around, start=1):
        kept = bool(signs[place - 1] or signs[place + 1]) if piece in _BRACKETS else piece not in _SIGNS
        if kept or signs[place]:
            bare += f" {piece}" if bare[-1:].isdigit() and piece[0].isdigit() else piece
    return bare


def _formula(piece: str) -> bool:
    """Whether a piece of text stands beside signs in formulas: a number, a variable, a bracket or another sign."""
    return bool(piece) and (len(piece) == 1 or piece.isdigit())


def _from_hub(task: Task, split: str) -> list[Question]:
    from .hub import load_rows

    if not task.hub:
        raise UserError(f"task {task.name!r} has no data set on the hub; name a file of questions (file=...)")

    def load(split: str) -> list[Question]:
        where = f"{task.source}, split {task.splits[split]}"
        return _questions(task, [(f"{where}, row {n}", row) for n, row in enumerate(load_rows(task, split), 1)], split)

    kept = [other for other in _KEPT_FROM.get(split, ()) if other in task.splits]
    return without_overlap(load(split), *map(load, kept))


def _from_file(task: Task, file: str | Path, split: str) -> list[Question]:
    questions = _questions(task, read_file(file), split)
    if not questions:
        raise UserError(f"{file}: no row is a question of task {task.name!r}")
    return questions


def _questions(task: Task, rows: Sequence[tuple[str, Mapping[str, Any]]], split: str) -> list[Question]:
    read = [(where, row) for where, data in rows if (row := _row(task, data, where)) is not None]
    if not task.answers:
        kind = _kind([row.gold for _, row in read if not row.choices])
        read = [(where, _with_kind(row, kind)) for where, row in read]
    questions: list[Question] = []
    seen: dict[str, str] = {}
    for where, row in read:
        question = task.question(row, split, where)
        if question.id in seen and row.id:
            raise UserError(f"{where}: id {question.id!r} is already that of {seen[question.id]}; ids must be unique")
        if question.id in seen:  # the data hold the same question twice; both count, each under its own id
            copies = sum(other.id.split("-")[0] == question.id for other in questions)
            question = replace(question, id=f"{question.id}-{copies + 1}")
        seen[question.id] = where
        questions.append(question)
    return questions


def _row(task: Task, data: Mapping[str, Any], where: str) -> Row | None:
    own_format = "gold_answer" in data or not task.hub
    try:
        return user_row(data, options_inside=task.answers in ("", "choice")) if own_format else task.read(data)
    except KeyError as error:
        have = ", ".join(map(str, data)) or "nothing"
        wanted = f"{error.args[0]!r}"
        other = "" if own_format else " (or 'question' and 'gold_answer')"
        raise UserError(f"{where}: no {wanted}{other}; the row has {have}") from error
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise UserError(f"{where}: not a row of task {task.name!r} ({error})") from error


def _with_kind(row: Row, kind: str) -> Row:
    chosen = row.metadata.get("answers") or ("choice" if row.choices else kind)
    return replace(row, metadata={**row.metadata, "answers": chosen})


def _kind(golds: Sequence[str]) -> str:
    """How answers without options are read: as numbers if all of them are, as mathematics if one is LaTeX."""
    if all(read_number(gold) is not None and re.fullmatch(r"[-+$\u20ac\u00a3\d.,/%eE\s]+", gold) for gold in golds):
        return "number"
    return "math" if any("\\" in gold for gold in golds) else "text"
