"""What every reader does to a reply before it looks for an answer."""

from __future__ import annotations

import re

_CLOSED = re.compile(r".*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN = re.compile(r"<think(?:ing)?>.*", re.DOTALL | re.IGNORECASE)
_RUN_ON = re.compile(r"\n\s*(?:\*\*|#+\s+)?(?:next\s+)?(?:question|problem|q)(?:\s*\d+)?\s*(?:\*\*)?:", re.IGNORECASE)
#: Minus signs, spaces and full-width forms that people and models write for the plain ones.
_PLAIN = str.maketrans({"\u2212": "-", "\u2012": "-", "\uff0d": "-", "\ufe63": "-", "\u00a0": " ", "\u2009": " ",
                        "\u202f": " ", "\uff1a": ":", "\uff08": "(", "\uff09": ")", "\uff0c": ",", "\u2019": "'"})


def spoken(text: str) -> str:
    """``text`` without reasoning: what follows the last ``</think>`` and precedes a ``<think>`` never closed."""
    return _OPEN.sub("", _CLOSED.sub("", text))


def own_words(text: str) -> str:
    """What the reply says about *its* question: reasoning taken out, and so is everything from the next question on
    that a model without an end token goes on to invent ("Question: ..." on a line of its own); plain minus signs,
    spaces and brackets in place of their Unicode relatives."""
    text = spoken(text).translate(_PLAIN)
    run_on = next((match for match in _RUN_ON.finditer(text) if text[: match.start()].strip()), None)
    return text[: run_on.start()] if run_on else text
