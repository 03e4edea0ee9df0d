"""What every reader does to a reply before it looks for an answer."""

from __future__ import annotations

import re

_CLOSED = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_OPEN = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_RUN_ON = re.compile(r"\n(?:\*\*|#+ )?(?:next )?(?:question|problem|q)(?: ?\d+)? ?(?:\*\*)?:", re.IGNORECASE)
#: Minus signs, spaces and full-width forms that people and models write for the plain ones.
_PLAIN = str.maketrans({"\u2212": "-", "\u2012": "-", "\uff0d": "-", "\ufe63": "-", "\uff1a": ":", "\uff08": "(",
                        "\uff09": ")", "\uff0c": ",", "\u2019": "'"})
#: Readers look at this much of the end of a reply, so that reading takes milliseconds whatever a model wrote.
TAIL = 8000


def spoken(text: str) -> str:
    """``text`` without reasoning: what follows the last ``</think>`` and precedes a ``<think>`` never closed."""
    text = _CLOSED.split(text)[-1]
    opened = _OPEN.search(text)
    return text[: opened.start()] if opened else text


def own_words(text: str, tail: int = TAIL) -> str:
    """What the reply says about *its* question: reasoning taken out, and so is everything from the next question on
    that a model without an end token goes on to invent ("Question: ..." on a line of its own). White space is one
    blank or one line break, minus signs, colons and brackets are the plain ones; of a long reply the end is kept."""
    text = re.sub(r"\s+", lambda gap: "\n" if "\n" in gap[0] else " ", spoken(text)).strip().translate(_PLAIN)
    run_on = _RUN_ON.search(text)
    text = text[: run_on.start()] if run_on else text
    if len(text) > tail:
        text = re.sub(r"^\S*", "", text[-tail:])  # the word that the cut went through
    return text


_JSON_ANSWER = re.compile(r"""(["'])answer\1\s*:\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'"""
                          r"""|(-?\d[^\n}\]]*?)(?=\s*(?:,\s*["']|[}\]]|$)))""", re.IGNORECASE | re.DOTALL)


def json_answer(text: str) -> str | None:
    """The value of the last ``"answer": ...`` of a reply in (more or less) JSON, ``None`` if there is none. Backslashes
    stay, because models seldom escape those of LaTeX."""
    found = list(_JSON_ANSWER.finditer(text))
    if not found:
        return None
    value = next(group for group in found[-1].groups()[1:] if group is not None)
    return value.replace("\\\\", "\\").replace('\\"', '"').strip().rstrip(",")


_HEDGE = re.compile(r"(?:\b(?:if|whether|suppose|assum\w+|unless|not|nor|neither|cannot|why|say)\b|n't\b)[^.\n:;,]*$",
                    re.IGNORECASE)


def hedged(text: str, place: int) -> bool:
    """Whether what is said at ``place`` is supposed or denied ("if the answer is", "I do not think the answer is")."""
    return _HEDGE.search(text[max(0, place - 80) : place]) is not None


def without_markup(text: str) -> str:
    r"""Emphasis, code marks, dollar signs and LaTeX text commands taken out: ``**\text{B}**`` is ``B``."""
    text = re.sub(r"\\(?:text(?:bf|it|rm|sf|tt)?|math(?:bf|rm|it|sf)|operatorname|mbox)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[*`\"\u201c\u201d]|__|\\?\$|\\[\[\]()]|\\[,;!:]|\\(?:left|right|displaystyle)\b", "", text)
