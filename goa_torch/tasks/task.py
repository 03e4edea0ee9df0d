"""What a task is: where its questions come from and how a row of its data becomes a question."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import UserError
from ..types import Question, Reader
from .code import CodeReader
from .number import format_number, read_number
from .readers import ChoiceReader, MathReader, NumberReader, TextReader

ANSWERS = ("choice", "number", "math", "text")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Row:
    """What a task makes of one row of its data. ``gold`` is a letter where there are ``choices``."""

    text: str
    gold: str
    choices: tuple[str, ...] = ()
    category: str = ""
    id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A set of questions, versioned: raise ``version`` whenever the same row would become another question.

    Attributes:
        name: what users call it.
        summary: what it asks, in a few words.
        read: turns a row, as the hub has it, into a :class:`Row`, or ``None`` for a row that is no question of this
            task (one with a picture, say). A column it looks for and does not find is a ``KeyError``.
        answers: ``choice``, ``number``, ``math`` or ``text``; ``code`` for functions graded by tests (rows then hold
            ``prompt`` and ``entry_point`` in their metadata, the tests as ``gold``); "" lets every row decide (files of
            the user's own).
        hub: name of the data set on the Hugging Face hub, "" if there is none.
        config: its configuration there.
        splits: our split -> the hub's. Where the hub has no labelled test split, what the field tests on is ``test``
            here. A task without ``train`` cannot be trained on.
        gated: whether the hub wants its terms accepted first.
        instruction: how to state the answer, if not as the reader would have it.
        generate: makes the questions of a task that has no data: called with ``split``, ``limit``, ``seed`` and the
            task's own settings.
        settings: the dataclass whose fields and docstring say what these settings are.
    """

    name: str
    summary: str
    read: Callable[[Mapping[str, Any]], Row | None]
    answers: str = "choice"
    hub: str = ""
    config: str = ""
    splits: Mapping[str, str] = field(default_factory=dict)
    gated: bool = False
    version: int = 1
    instruction: str = ""
    generate: Callable[..., list[Question]] | None = None
    settings: type | None = None

    @property
    def has_train(self) -> bool:
        return "train" in self.splits

    @property
    def has_validation(self) -> bool:
        return "validation" in self.splits

    def describe(self) -> str:
        """One line: what it asks, where it lives, its splits."""
        gated = " (gated)" if self.gated else ""
        return f"{self.summary}; {self.source}{gated}; splits: {', '.join(self.splits)}"

    @property
    def source(self) -> str:
        """Where its questions live: data set and configuration on the hub, or the user's own file."""
        if self.generate is not None:
            return "generated"
        return f"{self.hub}, {self.config}" if self.config else self.hub or "a file of yours"

    def need_split(self, split: str) -> None:
        """Raises :class:`UserError` unless the task has ``split``."""
        if split in self.splits:
            return
        why = " it is for testing alone, so nothing can be trained on it;" if split == "train" else ""
        raise UserError(f"task {self.name!r} has no split {split!r};{why} it has {', '.join(self.splits)}")

    def reader(self, row: Row) -> Reader:
        kind = self.answers or row.metadata.get("answers", "")
        changed = {"instruction": self.instruction} if self.instruction else {}
        if kind == "choice":
            return ChoiceReader(len(row.choices), **changed)
        if kind == "code":
            return CodeReader(row.metadata["prompt"], row.metadata["entry_point"], row.gold.strip(), **changed)
        return {"number": NumberReader, "math": MathReader, "text": TextReader}[kind](**changed)

    def question(self, row: Row, split: str, where: str) -> Question:
        """The question of ``row``; raises :class:`UserError`, beginning with ``where``, if it cannot be one."""
        text, gold = row.text.strip(), str(row.gold).strip()
        if not text:
            raise UserError(f"{where}: the question is empty")
        if not gold:
            raise UserError(f"{where}: the gold answer is empty")
        if len(row.choices) > len(LETTERS) or any(not choice.strip() for choice in row.choices):
            raise UserError(f"{where}: there must be at most {len(LETTERS)} choices, none of them empty")
        if self.answers == "code" and "entry_point" not in row.metadata:
            raise UserError(f"{where}: task {self.name!r} needs the columns task_id, prompt, entry_point and test")
        reader = self.reader(row)
        if isinstance(reader, ChoiceReader):
            gold = _gold_letter(gold, row.choices, where)
        elif isinstance(reader, NumberReader):
            gold = _gold_number(gold, where)
        return Question(row.id or content_hash(text, *row.choices, gold), text + options(row.choices), gold, reader,
                        self.name, row.category, row.choices, split, dict(row.metadata))


def options(choices: Iterable[str]) -> str:
    """The options as agents see them: a line each, "A) ...", begun by a line break."""
    return "".join(f"\n{letter}) {choice.strip()}" for letter, choice in zip(LETTERS, choices))


def content_hash(*parts: str) -> str:
    """An id for a question that has none: the same words, the same id."""
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _gold_letter(gold: str, choices: tuple[str, ...], where: str) -> str:
    if len(choices) < 2:
        raise UserError(f"{where}: a choice needs two options or more: a column 'choices', or \"The options are: "
                        "(A) ... (B) ...\" at the end of the question")
    letter = re.fullmatch(r"\(?([A-Za-z])[).]?", gold)
    if letter and letter[1].upper() in LETTERS[: len(choices)]:
        return letter[1].upper()
    if [c.strip() for c in choices].count(gold) == 1:
        return LETTERS[[c.strip() for c in choices].index(gold)]
    raise UserError(f"{where}: the gold answer {gold!r} is neither a letter from A to {LETTERS[len(choices) - 1]} nor "
                    "the text of one option")


def _gold_number(gold: str, where: str) -> str:
    number = read_number(gold)
    if number is None:
        raise UserError(f"{where}: the gold answer {gold!r} is no number")
    return format_number(number)
