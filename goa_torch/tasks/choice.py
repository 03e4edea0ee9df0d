"""Reads which option a reply chose."""

from __future__ import annotations

import re

from .text import hedged, json_answer, own_words, without_markup

# An option's letter: "(B)", "B)" or a bare "B". A bare letter may be a word ("A perfect answer", "B cells"), so it
# counts only where the sentence pauses after it or goes on with one of these words.
_GOES_ON = (r"(?:because|since|as|due|which|given|based|according|for|but|not|and\s+not|while|though|with|so"
            r"|and\s+(?=[a-z])|I\s+(?:think|believe|guess))\b")
_PAUSE = (rf"(?=\s*(?:$|[\n.,;:!)\]}}(]|[-\u2013\u2014]\s|-+>|{_GOES_ON}"
          r"|(?:or|and|/|&)\s*[(\[]?[A-Z](?![\w'-])))")
_NAMED = r"(?:(?:either|both)\s+)?(?:the\s+)?(?:(?:option|choice|letter|alternative)\b\s*:?\s*)?"
_OPTION = (rf"{_NAMED}'?(?:[(\[{{]\s*(?P<bracketed>[A-Za-z])\s*[)\]}}]|(?P<half>[A-Za-z])\)"
           rf"|(?P<bare>[A-HJ-Z]|I(?!\s*,))(?![\w'-]){_PAUSE}|'(?P<quoted>[A-Za-z])'")
_LETTER = re.compile(_OPTION + r"|(?P<small>[a-z])(?![\w'-])(?=\s*(?:$|[\n.;:)\]}])))'?")
_MORE = re.compile(rf"\s*(?:,|/|&|\bor\b|\band\b)\s*(?:or\s+|and\s+)?{_OPTION})")
_PAUSED = re.compile(_PAUSE)

_SURELY = r"(?:(?:therefore|thus|hence|then|clearly|definitely|indeed|most\s+likely|likely|probably|simply)\b[\s,:]*)*"
_ANSWER = re.compile(
    r"(?:\banswers?\b|\b(?:correct|right|best|final|my|chosen|appropriate|suitable)\s+(?:option|choice|letter|one)\b)"
    r"'?\s*(?:(?:choice|option|letter|here|to\s+(?:this|the|your)\s+(?:question|problem))\b\s*)*'?\s*"
    rf"(?:(?:is|are|was|(?:seems|appears)\s+to\s+be|(?:would|should|must|has\s+to)\s+be)\b\s*:?|:|=|-+>|\u2192|[-\u2013\u2014](?=\s))\s*{_SURELY}",
    re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{?\s*")
_CHOOSE = re.compile(
    r"(?:\bI(?:\s+would|\s+will|\s+am|'d|'ll|'m)?\s+(?:also\s+)?(?:think|believe|choose|pick|select|say|guess|go(?:ing)?\s+with"
    r"|went\s+with|opt\s+for|vote\s+for)\b(?:\s+that)?(?:\s+it(?:'s|\s+is))?|\bit(?:'s|\s+is|\s+must\s+be|\s+should\s+be)"
    rf"|\b(?:so|therefore|thus|hence|conclusion),?:?)\s+{_SURELY}", re.IGNORECASE)
_IS_RIGHT = re.compile(
    r"(?<![\w'-])(?P<option>(?:option|choice|answer)\s+)?(?:[(\[](?P<in>[A-Za-z])[)\]]|(?P<plain>[A-Z]))\)?"
    r"\s+(?:is|must\s+be|would\s+be|seems)\s+(?:clearly\s+|definitely\s+)?(?:the\s+)?(?:only\s+|most\s+)?"
    r"(?:correct|right|best|appropriate|accurate\s+answer|answer)\b", re.IGNORECASE)
_JOINED = re.compile(r"(?<![\w'-])[(\[]?[A-Z][)\]]?\s*(?:[,/&]|,?\s*\b(?:or|and))\s*$")
_ALONE = re.compile(r"(?i:(?:(?:the\s+)?(?:final\s+)?answer|option|choice)\s+)?[(\[]?(?P<letter>[A-Z])[)\]]?[.:]?")
# An option repeated, not a sentence about it ("(B) is wrong").
_OPTION_LINE = re.compile(r"(?:[(\[](?P<in>[A-Za-z])[)\]]|(?P<plain>[A-Z])[.)])"
                          r"(?:$|\s(?!\s*(?:is|are|was|isn't|seems|looks|could|may|might|would|can|cannot|can't|or|and)\b))")


def read_choice(text: str, n_choices: int) -> str | None:
    r"""The letter of the option a reply settles for, or ``None`` if it settles for none of the ``n_choices``.

    Tried in order: what the reply calls its answer ("The answer is (C)", ``"answer": "B"``, ``\boxed{B}``; the last
    one counts); what it says it chooses or calls right ("I think it is option d", "B is correct"; they must agree);
    a line that is an option ("B", "**(B)**", "B. Paris"). A letter beyond the last option, or two at once ("A or B"),
    is no answer, and no weaker statement replaces it.

    Example:
        >>> read_choice("(A) is wrong, so the answer is (D)", 4)
        'D'
    """
    words = own_words(text)
    said = json_answer(words)
    text = without_markup(words if said is None else f"Answer: {said}")
    for rule in (_called_answer, _chosen, _option_line):
        found = rule(text)
        if found:
            letter = found if len(found) == 1 else "?"
            return letter if letter in _letters(n_choices) else None
    return None


def _letters(n_choices: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:n_choices]


def _letter_after(text: str, place: int) -> str:
    """The letter at ``place`` ("" if there is none, two letters if two are joined)."""
    match = _LETTER.match(text, place)
    if match is None:
        return ""
    letter = _which(match)
    more = _MORE.match(text, match.end())
    return letter + _which(more) if more and _which(more) != letter else letter


def _which(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group).upper()


def _called_answer(text: str) -> str:
    found = ""
    places = [(m.start(), m.end()) for pattern in (_ANSWER, _BOX) for m in pattern.finditer(text)]
    for start, end in sorted(places):
        if not hedged(text, start):
            found = _letter_after(text, end) or found
    return found


def _chosen(text: str) -> str:
    letters: set[str] = set()
    for match in _CHOOSE.finditer(text):
        letter = _LETTER.match(text, match.end())
        if letter and _PAUSED.match(text, letter.end()) and not hedged(text, match.start()):
            letters.update(_letter_after(text, match.end()))
    for match in _IS_RIGHT.finditer(text):
        letter = match["in"] or match["plain"]
        named = match["option"] or match["in"] or letter.isupper()  # "a is correct" names no option
        if named and not hedged(text, match.start()):
            joined = _JOINED.search(text[max(0, match.start() - 20) : match.start()])
            letters.add("?" if joined else letter.upper())
    return "".join(sorted(letters))


def _option_line(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    if not lines:
        return ""
    if len(lines) == 1 and (only := _ALONE.fullmatch(lines[0].upper())):
        return only["letter"]
    alone = {match["letter"] for line in (lines[0], lines[-1]) if (match := _ALONE.fullmatch(line))}
    if alone:
        return "".join(sorted(alone))
    starts = {(m["in"] or m["plain"]).upper() for line in lines if (m := _OPTION_LINE.match(line))}
    return "".join(sorted(starts)) if _OPTION_LINE.match(lines[0]) else ""
