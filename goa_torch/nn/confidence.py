"""The confidence that a reply states."""

from __future__ import annotations

import math
import re

_STATED = re.compile(r"confidence(?:[ _]level)?\W{0,6}?(?:is|of)?\W{0,4}?"
                     r"(-?(?:\d+(?:\.\d+)?|\.\d+))[ \t]*(%|/[ \t]*\d+)?", re.IGNORECASE)


def stated_confidence(text: str | None) -> float | None:
    """The confidence a reply states ("Confidence: 0.8", "confidence_level": "80%", "confidence is 8/10"), in [0, 1];
    the last one counts. ``None`` if there is none or it is out of range."""
    found = None
    for match in _STATED.finditer(text or ""):
        scale = 100.0 if match[2] == "%" else float(match[2].lstrip("/ \t")) if match[2] else 1.0
        level = float(match[1]) / scale if scale else math.nan
        found = level if 0 <= level <= 1 else None
    return found


def recalibrated(confidence: float | None) -> float:
    """The weight of a stated confidence, which models overstate (ReConcile, arXiv 2309.13007): 1 stays 1, [.9, 1) is
    .8, [.8, .9) is .5, (.6, .8) is .3, anything else .1."""
    if confidence is None or confidence <= 0.6:
        return 0.1
    if confidence >= 1:
        return 1.0
    return 0.8 if confidence >= 0.9 else 0.5 if confidence >= 0.8 else 0.3
