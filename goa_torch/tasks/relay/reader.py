"""Reads Relay replies: a reply is an expression, and only a literal is an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..text import spoken

_ANSWER = re.compile(r"\s*(\d{1,2})\s*")


@dataclass(frozen=True)
class RelayReader:
    """A literal 0..99 is an answer; an unfinished expression, and anything else, abstains (``None``)."""

    instruction: str = "Reply with the expression, its innermost part evaluated if you can, and nothing else."

    def read(self, text: str) -> str | None:
        match = _ANSWER.fullmatch(spoken(text))
        return str(int(match[1])) if match else None

    def equal(self, gold: str, answer: str) -> bool:
        return gold == answer
