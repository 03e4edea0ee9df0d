"""Reads what judges and the meta-LLM write: scores of replies, choices of agents. ``None`` where it is not clear.

Both look for a *statement*: a run of numbers that stands on its own (a line, a bracket, what follows a colon or
"is"), one kind of separator throughout. The last statement counts. Numbers inside prose are never picked up.
"""

from __future__ import annotations

import math
import re

from ..tasks.text import own_words

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = rf"(?<![\w.])(?:[-+]?(?:nan|inf(?:inity)?)\b|{_NUMBER}(?:\s*%|\s*/\s*\d+(?:\.\d+)?)?)(?![\w%])"
_SEPARATOR = r"\s*[,;|&]\s*(?:and\s+)?|\s+and\s+|[ \t]*\n\s*|[ \t]+"
_JUDGED = r"(?:response|reply|answer|agent|candidate|solution|model|score|judge|node|expert|r(?=\d))"
_RUN = re.compile(rf"{_VALUE}(?:(?:{_SEPARATOR}){_VALUE})*", re.IGNORECASE)
#: What stands before a statement, on its line.
_BEFORE = re.compile(
    r"(?: ^ | \n | [:=(\[{] | \b(?:is|are|as|be|answer|scores?|choose|select|pick|agents?|index|indices) )\s*$",
    re.IGNORECASE | re.VERBOSE)
#: What follows a statement: its line or bracket ends, or a reason is given. Never a unit.
_AFTER = re.compile(
    rf"""[ \t]* (?: [.;(|] | [-\u2013\u2014][ ]
                  | ,? [ \t]* (?: $ | [\n)\]}}] | \b(?:because|since|as|for|respectively|points?|(?:is|are)(?!\ not))\b
                                | \b{_JUDGED}[ \t]*[_\#(\[]?[ \t]*\w\b | (?:\d{{1,4}}|[A-Z])[ \t]*[:=] ) )""",
    re.IGNORECASE | re.VERBOSE)
_MARKS = re.compile(r"[*`$\"']|#(?=\d)|\\[\[\]()]|\\boxed(?=\{)")
#: "Response 2 (law): 0.3", "score_2 = 0.3", and bare labels at the start of an item: "2: 0.3".
_LABEL = re.compile(
    rf"""(?: (?<![A-Za-z.]) {_JUDGED} [ \t]* [\#_(\[]? [ \t]*
             (?: of [ \t]+ (?:response|reply|agent) [ \t]* \#? [ \t]* )?
             (?P<named> \d{{1,4}} | (?<=[ \t\#_(\[]) [A-Z] ) \b
           | (?<![\w.]) (?P<bare> \d{{1,4}} | [A-Z](?![\w.]) ) )
         [ \t]* [)\]]? [ \t]* (?: s\b )? [ \t]*
         (?: \( [A-Za-z] [^()\n]{{0,60}} \) [ \t]* )? (?:score|relevance)? [ \t]*
         (?: [:=(|] | -> | => | \u2192 | (?:is|gets|receives)\b | [-\u2013\u2014](?=[ \t]) ) [ \t]*
         (?P<value> {_VALUE} )""",
    re.IGNORECASE | re.VERBOSE)
_BULLET = re.compile(rf"^[ \t]*(?:[-\u2022]|\d{{1,3}}[.)])[ \t]+(?={_NUMBER}[ \t]*%?[ \t]*$|{_JUDGED}\b)",
                     re.IGNORECASE | re.MULTILINE)
_REFERENCE = re.compile(r"\b(?:agent|expert|model|node|index)[ \t]*[#_]?[ \t]*(?=\d)", re.IGNORECASE)
_LISTED = re.compile(r"[ \t]*agent[ \t]*[#_]?[ \t]*(\d{1,4})\b", re.IGNORECASE)


def read_scores(text: str, n: int, released: bool = False) -> list[float] | None:
    r"""A judge's scores for ``n`` replies, normalised to sum 1, or ``None`` if they cannot be read.

    Read are lists ("0.7, 0.3", "[0.7, 0.3]"), labelled scores in any order ("Response 2: 0.3", ``{"0": 0.7, "2":
    0.3}``; sorted by label), percentages, points and fractions ("60, 40", "7/10, 3/10"). There must be exactly ``n``
    numbers, finite and >= 0, not all 0; anything else is ``None``, as are several readings that disagree in number.

    Args:
        text: the judge's reply.
        n: how many replies were judged.
        released: GoA's released rule, which also demands 0.9 < sum <= 1 before normalising.

    Example:
        >>> read_scores("60, 40", 2)
        [0.6, 0.4]
        >>> read_scores("60, 40", 2, released=True) is None
        True
    """
    if n < 1:
        return None
    text = _plain(text)
    _, values = max(_labelled(text, n), _statement(text, n), key=lambda found: found[0])
    if values is None or not all(math.isfinite(v) and v >= 0 for v in values):
        return None
    total = math.fsum(values)
    if not (math.isfinite(total) and total > 0) or (released and not 0.9 < total <= 1 + 1e-9):
        return None
    return [value / total for value in values]


def read_indices(text: str, n_agents: int, k: int) -> list[int] | None:
    """The meta-LLM's choice of ``k`` out of agents ``0 .. n_agents - 1``, or ``None`` if it cannot be read.

    An agent may be named twice (two instances take part). Fewer or more than ``k`` numbers, one that is not a whole
    number or no agent's, is ``None``.

    Example:
        >>> read_indices("I choose agents 0, 2 and 3.", n_agents=6, k=3)
        [0, 2, 3]
    """
    if k < 1:
        return None
    text = _plain(text)
    listed = [_LISTED.match(line) for line in text.splitlines()]
    listed_agents = [float(match[1]) for match in listed if match]
    _, values = _statement(_REFERENCE.sub("", text), k)
    if len(listed_agents) == k and (k > 1 or values is None):
        values = listed_agents
    if values is None or not all(value in range(n_agents) for value in values):
        return None
    return [int(value) for value in values]


def _plain(text: str) -> str:
    """The reply's own words without quotes, mark-up and bullets."""
    return _BULLET.sub("", _MARKS.sub("", own_words(text, tail=2000)))


def _labelled(text: str, n: int) -> tuple[int, list[float] | None]:
    """Where labelled values end, and the values, labels in order; a label said twice counts as said last. (-1,
    ``None``) unless there are ``n`` labels."""
    scores: dict[tuple[int, str], float] = {}
    end = -1
    for match in _LABEL.finditer(text):
        item = not match["bare"] or _begins(text, match.start(), after=",;")
        if item and _ends(text, match.end()):
            label = (match["named"] or match["bare"]).lower()
            scores[(int(label), "") if label.isdecimal() else (-1, label)] = _value(match["value"])
            end = match.end()
    return (end, [scores[label] for label in sorted(scores)]) if len(scores) == n else (-1, None)


def _statement(text: str, n: int) -> tuple[int, list[float] | None]:
    """Where the last statement ends, and its numbers, if there are ``n`` of them."""
    last: tuple[int, list[float] | None] = (-1, None)
    for match in _RUN.finditer(text):
        values = [_value(part) for part in re.findall(_VALUE, match[0], re.IGNORECASE)]
        if len(values) < min(n, 2) or not _begins(text, match.start()) or not _ends(text, match.end()):
            continue  # numbers in prose
        last = match.end(), values if len(values) == n and _even(match[0]) else None
    return last


def _begins(text: str, place: int, after: str = "") -> bool:
    """Whether a statement can begin at ``place``, an item of one also behind one of the signs ``after``."""
    window = text[max(0, place - 40) : place]
    ahead = window.rstrip()[-1:]
    return (ahead != "" and ahead in after) or _BEFORE.search(window if place <= 40 else "x" + window) is not None


def _even(run: str) -> bool:
    """Whether one kind of separator holds the run together ("0,7; 0,3" are decimal commas: not four numbers)."""
    gaps = re.split(_VALUE, run, flags=re.IGNORECASE)[1:-1]
    kinds = {re.sub(r"and", "", gap).strip() or ("\n" if "\n" in gap else " ") for gap in gaps if "and" not in gap}
    return len(kinds) <= 1


def _ends(text: str, place: int) -> bool:
    """Whether what was said up to ``place`` is complete there (the number belongs to no word that follows)."""
    return _AFTER.match(text, place) is not None


def _value(number: str) -> float:
    if "%" in number:
        return float(number.rstrip(" %")) / 100
    if "/" in number:
        above, below = map(float, number.split("/"))
        return above / below if below else math.nan
    return float(number)
