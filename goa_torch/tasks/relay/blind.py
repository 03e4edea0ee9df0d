"""The baseline of who sees only the outside of a question."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ...types import Question
from .expression import parse


def outermost(question: Question) -> str:
    """The outermost layer of a question, what it is applied to left out: ``cents(7*#)``."""
    *_, last = question.metadata["partial_results"][:-1]
    expression = parse(last)
    if expression is None or not expression.layers:
        return question.metadata["families"][-1]
    [(family, k)] = expression.layers
    return family.write("#", k)


def blind_guess(seen: Sequence[Question], asked: Sequence[Question]) -> list[str | None]:
    """For each question the most frequent answer that ``seen`` has for its depth and outermost layer (for its depth
    alone if that layer is new, ``None`` if the depth is too)."""
    by_layer: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    by_depth: dict[int, Counter[str]] = defaultdict(Counter)
    for question in seen:
        by_layer[question.metadata["depth"], outermost(question)][question.gold] += 1
        by_depth[question.metadata["depth"]][question.gold] += 1
    guesses = []
    for question in asked:
        depth = question.metadata["depth"]
        counts = by_layer.get((depth, outermost(question))) or by_depth.get(depth)
        guesses.append(counts.most_common(1)[0][0] if counts else None)
    return guesses
