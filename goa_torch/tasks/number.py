"""Reads the number a reply ends on."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from .boxed import read_boxed
from .text import hedged, json_answer, own_words, without_markup

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_SIMPLE = re.compile(rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
#: Digits and whatever holds them together. A cluster that is no number ("3,5", "10:30", "1.2.3") is unclear.
_CLUSTER = re.compile(r"\.?\d(?:[\d.,:^]*\d)?(?:[eE][-+]?\d+)?")
_TIMES_TEN = re.compile(r"\s*(?:\*|\u00d7|x|\\times|\\cdot)\s*10\s*\^\s*\{?\s*([-+]?\d{1,4})\s*\}?")
_BELOW = re.compile(rf"\s*/\s*({_DIGITS}(?:\.\d+)?)(?!\s*/)(?![\d.,:^]*\d)")
_MIXED = re.compile(r"\s(\d+)\s*/\s*(\d+)\b(?!\s*/)")
_SCALE = re.compile(r"\s*(thousand|million|billion|trillion)\b|(k)(?![\w-])", re.IGNORECASE)
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "k": 1e3}
_OPERATOR_AFTER = re.compile(
    r"\s*(?: [-+*/\u00d7\u00f7^\u2013] | x(?=\s*\d) | \\(?:times|cdot|div) | (?:plus|minus|times|divided)\b )"
    r"\s*(?=[\d.(\\]|$)"
    r"|\s*(?: \\pi | \\sqrt | \u03c0 | \u221a )", re.VERBOSE)
_OPERATOR_BEFORE = re.compile(
    r"(?: [\d)%}]\s*(?: [-+*/\u00d7\u00f7^\u2013] | x | \\times | \\cdot | \\div | plus | minus | times | by )"
    r"  | [\^\u221a\u00d7\u00f7*/] | \\?sqrt[{(]? )\s*$", re.VERBOSE)
_NEGATIVE = re.compile(r"(?:^|[^\w)%.\-])-$|(?:\b(?:is|are|be|equals)|[:=(])\s*-\s$|\b(?:negative|minus)\s$",
                       re.IGNORECASE)
_LABEL = re.compile(r"\b(?:step|part|question|problem|option|case|figure|table|equation|eq|day|no|number|version)"
                    r"\.?\s?#?$", re.IGNORECASE)
_BULLET = re.compile(r"(?:^|\n)\s*\(?$")
_ANOTHER = re.compile(r"(?:\s*[A-Za-z%]+){0,2}\s*(?:,?\s*\b(?:and|or|to|of)\b|\u2013|-|,|/)\s*(?:another\s+)?[-+]?\.?\d"
                      r"|\s\d")

_EITHER = re.compile(r"(?:\s*[A-Za-z%]+)?\s*(?:\b(?:or|to)\b|\u2013)\s*")

_ANSWER = re.compile(r"\banswer\b(?:[^.\n\d:=]{0,40}?(?:\b(?:is|are|equals|be)\b|:|=)|\s*\n)'?\s*", re.IGNORECASE)
_HASHES = re.compile(r"####\s*")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_SENTENCE_END = re.compile(r"\n|[.!?;](?=\s|$)")
_UNSURE = re.compile(r"\b(?:don't|do not|cannot|can't|could not|couldn't|unable|impossible|unknown|undetermined"
                     r"|not enough|insufficient|not sure|unsure|unclear)\b", re.IGNORECASE)
_VULGAR = {"\u00bd": "1/2", "\u2153": "1/3", "\u2154": "2/3", "\u00bc": "1/4", "\u00be": "3/4", "\u2155": "1/5",
           "\u2156": "2/5", "\u2157": "3/5", "\u2158": "4/5", "\u215b": "1/8", "\u215c": "3/8", "\u215d": "5/8",
           "\u215e": "7/8"}
_FRACTION = re.compile(rf"\\[dt]?frac\s*(?:\{{([^{{}}]*)\}}|(\d))\s*(?:\{{([^{{}}]*)\}}|(\d))|([{''.join(_VULGAR)}])")


class _Found(NamedTuple):
    start: int
    end: int
    value: float | None  # None: digits whose meaning is not clear ("3 + 4", "10:30", "3,5")


def read_number(text: str) -> float | None:
    r"""The number a reply gives as its answer, or ``None`` if it gives none or it is not clear which.

    What the reply calls its answer counts, the last time it does ("#### 18", "The answer is 7/2.", ``\boxed{7}``);
    otherwise the last number of its last sentence with a number, unless it says that it does not know. Currency,
    thousands separators, percent signs, units and mark-up are no part of the number ("60%" is 60); fractions, powers
    of ten and "million" are computed. Unfinished sums, ranges, times and lists of numbers ("3 + 4", "5 to 6",
    "10:30", "5 or 6") are not one number, so ``None``.

    Example:
        >>> read_number("She has $1,999 left")
        1999.0
    """
    words = own_words(text)
    said = json_answer(words)
    words = words if said is None else f"Answer: {said}"
    called = _called_answer(words)
    if called is not None:
        return called.value
    words = _clean(words)
    sentences = [s for s in _split(words) if _numbers(s)]
    said = _split(words)
    unsure = any(_UNSURE.search(s) for s in said[-1:] + [s for s in said if "answer" in s.lower()])
    if not sentences or unsure or _UNSURE.search(sentences[-1]):
        return None
    said = sentences[-1].rpartition("=")[2]
    said = said if _numbers(said) else sentences[-1]
    numbers = _numbers(said)
    unclear = len(numbers) > 1 and _EITHER.fullmatch(said[numbers[-2].end : numbers[-1].start])
    return None if unclear else numbers[-1].value


def format_number(value: float) -> str:
    """The canonical spelling of a number: whole numbers without a point."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _called_answer(words: str) -> _Found | None:
    """The number the reply last called its answer; ``None`` if it called no number so."""
    found: _Found | None = None
    marks = [(m.start(), m.end(), rule) for rule in (_ANSWER, _HASHES, _BOX) for m in rule.finditer(words)]
    for start, end, rule in sorted(marks, key=lambda mark: mark[:2]):
        if rule is _BOX:
            said = read_boxed(_one_box(words, start)) or ""
        elif hedged(words, start):
            continue
        else:
            said = _split(words[end : end + 400])[0]
            if "\n" not in words[start:end]:  # on a line of its own the dash would be a bullet
                said = re.sub(r"^-\s+(?=[\d.$])", "-", said)
        if not _BOX.search(said):  # a box inside "the answer is ..." speaks for itself
            found = _statement(_clean(said)) or found
    return found


def _one_box(words: str, start: int) -> str:
    following = _BOX.search(words, start + 1)
    return words[start : following.start()] if following else words[start:]


def _statement(said: str) -> _Found | None:
    """The number that ``said`` states: its first if it begins with it, what follows its last "=", or its only one."""
    numbers = _numbers(said)
    if not numbers:
        return None
    first = numbers[0]
    unclear = _Found(first.start, first.end, None)
    begins = re.fullmatch(r"(?:[\s('\u20ac\u00a3-]|about|approximately|exactly|only|USD|negative|minus)*",
                          said[: first.start]) is not None
    if begins and first.value is not None:
        return unclear if _ANOTHER.match(said, first.end) else first
    if "=" in said or "\u2248" in said:
        if re.search(r"(?:,|\band\b)\s*[A-Za-z]\s*=", said):
            return unclear  # x = 5 and y = 6
        last = _numbers(re.split("[=\u2248]", said)[-1])
        return last[0] if len(last) == 1 else unclear
    return first if len(numbers) == 1 else unclear


def _split(words: str) -> list[str]:
    return [part for part in _SENTENCE_END.split(words) if part.strip()] or [""]


def _clean(words: str) -> str:
    words = re.sub(r"<<[^<>]*>>", "", words).replace("{,}", ",").replace("\\%", "%")
    return re.sub(r"(?<=\d)\\[,!](?=\d{3})", "", without_markup(_FRACTION.sub(_plain_fraction, words)))


def _plain_fraction(match: re.Match[str]) -> str:
    fraction = _VULGAR[match[5]] if match[5] else f"{match[1] or match[2]}/{match[3] or match[4]}"
    mixed = match.string[: match.start()][-1:].isdigit()  # three and a half
    return f" {fraction}" if mixed else fraction


def _numbers(words: str) -> list[_Found]:
    found: list[_Found] = []
    place = 0
    while cluster := _CLUSTER.search(words, place):
        number = _at(words, cluster)
        place = number.end if number else cluster.end()
        if number:
            found.append(number)
    return found


def _at(words: str, cluster: re.Match[str]) -> _Found | None:
    """The number at ``cluster``; ``None`` if the digits are part of a word, a label or a bullet."""
    start, end = cluster.span()
    before = words[max(0, start - 24) : start]
    if re.search(r"[A-Za-z_]-?$", before) or _LABEL.search(before):
        return None  # R2, COVID-19, Step 2
    if _BULLET.search(before if start <= 24 else "x" + before) and re.match(r"[.)]\s", words[end : end + 2]):
        return None
    spaced = re.match(r" \d{3}(?!\d)(?! ?/)", words[end : end + 7]) or (
        len(cluster[0]) == 3 and re.search(r"\d $", before))  # 1 234 567
    if spaced or not _SIMPLE.fullmatch(cluster[0]) or re.search(r"[\d.,:^]$", before):
        return _Found(start, end, None)
    value = float(cluster[0].replace(",", ""))
    if match := _TIMES_TEN.match(words, end):
        value, end = value * 10.0 ** min(int(match[1]), 400) if int(match[1]) < 300 else math.inf, match.end()
    elif (match := _MIXED.match(words, end)) and float(match[2]):
        value, end = value + float(match[1]) / float(match[2]), match.end()
    elif match := _BELOW.match(words, end):
        below = float(match[1].replace(",", ""))
        value, end = value / below if below else math.nan, match.end()
    if match := _SCALE.match(words, end):
        value, end = value * _SCALES[(match[1] or match[2]).lower()], match.end()
    if _NEGATIVE.search(before) and not re.search(r"[\d)%]\s*(?:-|minus)\s?$", before):
        value, before = -value, ""
    if _OPERATOR_BEFORE.search(before) or _OPERATOR_AFTER.match(words, end) or not math.isfinite(value):
        return _Found(start, end, None)
    return _Found(start, end, value)
