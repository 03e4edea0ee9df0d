"""Readers: how a question's answer is asked for, read and compared. Small values: frozen, picklable, comparable."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

from .boxed import read_boxed
from .choice import read_choice
from .equality import canonical, math_equal
from .number import format_number, read_number
from .text import hedged, json_answer, own_words, spoken, without_markup


@dataclass(frozen=True)
class ChoiceReader:
    """One of ``n_choices`` options, named by its letter."""

    n_choices: int
    instruction: str = "End with 'Answer: X', where X is the letter of the right option."

    def read(self, text: str) -> str | None:
        return read_choice(text, self.n_choices)

    def equal(self, gold: str, answer: str) -> bool:
        return gold == answer


@dataclass(frozen=True)
class NumberReader:
    """A number; equal up to rounding in the ninth digit."""

    instruction: str = "End with 'Answer: N', where N is the number and nothing else."

    def read(self, text: str) -> str | None:
        number = read_number(text)
        return None if number is None else format_number(number)

    def equal(self, gold: str, answer: str) -> bool:
        return math.isclose(float(gold), float(answer), rel_tol=1e-9, abs_tol=1e-12)


@dataclass(frozen=True)
class MathReader:
    r"""A mathematical expression, in a box or after "the answer is"."""

    instruction: str = r"End with the final answer inside \boxed{}."

    def read(self, text: str) -> str | None:
        answer = read_boxed(text)
        if answer is None and not _BOX.search(spoken(text)):  # a box left open is an unfinished answer
            answer = _after_marker(text, _FORMULA)
        return canonical(answer) or None if answer else None

    def equal(self, gold: str, answer: str) -> bool:
        return math_equal(gold, answer)


@dataclass(frozen=True)
class TextReader:
    """A few words, equal when they are the same but for case, accents' encoding, outer punctuation and spaces."""

    instruction: str = "End with 'Answer: ' and the answer in a few words."

    def read(self, text: str) -> str | None:
        said = _after_marker(text, _LINE)
        if said is None:
            lines = own_words(text).splitlines()
            said = lines[0] if len(lines) == 1 else None
        return _normal(without_markup(said)) or None if said else None

    def equal(self, gold: str, answer: str) -> bool:
        return _normal(gold) == _normal(answer)


_MARKER = re.compile(r"(?:\banswer\b\W{0,3}\s*(?:is\b\s*:?|:|=)|####)[\s*]*", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_LINE = re.compile(r"(?P<line>[^\n]+)")
#: A formula between signs, else the rest of the sentence if it could be one (no word of prose in it).
_FORMULA = re.compile(r"\W{0,3}?(?:\$+(?P<dollars>[^$\n]+)\$|\\\((?P<round>.+?)\\\)|\\\[(?P<square>.+?)\\\]"
                      r"|(?P<line>(?:(?!\.\s|\.$|\n|[A-Za-z]{4,}|\$).|\\[A-Za-z]+)+)(?=\.\s|\.$|\n|$))", re.DOTALL)


def _after_marker(text: str, pattern: re.Pattern[str]) -> str | None:
    """What follows the last "the answer is", as ``pattern`` reads it; ``None`` if nothing was called the answer."""
    words = own_words(text)
    said = json_answer(words)
    if said is not None:
        return said
    for marker in _MARKER.finditer(words):
        found = None if hedged(words, marker.start()) else pattern.match(words, marker.end())
        if found:
            said = next(group for group in found.groups() if group is not None)
    return said


def _normal(text: str) -> str:
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(text.split()).strip(" .,;:!?\"'`*()[]")
