"""Readers by name, for requests that bring no reader of their own."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UserError, unknown
from ..tasks.readers import ChoiceReader, MathReader, NumberReader, TextReader
from ..types import Reader


def _relay() -> Reader:
    from ..tasks.relay import RelayReader

    return RelayReader()


_READERS: dict[str, Callable[[], Reader]] = {"number": NumberReader, "math": MathReader, "text": TextReader,
                                             "choice": lambda: ChoiceReader(4), "relay": _relay}


def reader_of(answers: str) -> Reader:
    """``number``, ``math``, ``text``, ``relay``, or ``choice`` of four options, ``choice:N`` of N.

    Raises:
        UserError: for another name.
    """
    name, colon, count = answers.partition(":")
    if name == "choice" and colon:
        if not count.isdecimal() or not 2 <= int(count) <= 26:
            raise UserError(f"answers = {answers!r}: a choice of 2 to 26 options, such as choice:10")
        return ChoiceReader(int(count))
    if answers not in _READERS:
        raise unknown("kind of answers", answers, [*_READERS, "choice:N"])
    return _READERS[answers]()
