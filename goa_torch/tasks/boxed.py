r"""Reads the content of a LaTeX box."""

from __future__ import annotations

import re

from .text import spoken

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_TOKEN = re.compile(r"[^\s$\\{}]+")


def read_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed`` or ``\fbox``, or ``None`` if there is none, it is empty or never closed.

    Braces may nest, escaped ones (``\{``) do not count; without braces the box holds the next word (``\boxed 5``).

    Example:
        >>> read_boxed(r"so \boxed{\frac{3}{4}}.")
        '\\frac{3}{4}'
    """
    text = spoken(text)
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    box = boxes[-1]
    if not text.startswith("{", box.end()):
        token = _TOKEN.match(text, box.end())
        return (token[0].rstrip(".,;:)") or None) if token else None
    depth, place = 0, box.end()
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1  # whatever follows is escaped
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[box.end() + 1 : place].strip() or None
        place += 1
    return None
