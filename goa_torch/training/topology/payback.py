"""Whether a training was worth its tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping


def payback(trained_tokens: float, step: int, best: Mapping[str, float], everybody: Mapping[str, float]
            ) -> tuple[float | None, str]:
    r"""The number of questions after which the tokens a deployed topology saves, against everybody hearing everybody in
    the same debate, make up for those of its training: :math:`T / (t_\text{everybody} - t_\text{best})`. A topology
    that was not learned, or answers worse than its rival, never pays.

    Args:
        trained_tokens: T, of the whole training.
        step: of the best topology; 0 is the untrained one.
        best: ``accuracy`` and ``tokens`` a question of the best topology on validation.
        everybody: the same of everybody hearing everybody.

    Returns:
        the number, or ``None``; and what to say about it.
    """
    saved = everybody["tokens"] - best["tokens"]
    if step == 0:
        return None, "training has gained nothing: no later topology was better than the untrained one"
    if best["accuracy"] < everybody["accuracy"]:
        cheaper = f"though it saves {saved:,.0f} tokens a question" if saved > 0 else "and saves no tokens"
        return None, f"does not pay for itself: less accurate, {cheaper}"
    if saved <= 0:
        return None, "saves no tokens"
    questions = trained_tokens / saved
    count = math.ceil(questions)
    return questions, f"pays for itself after {count:,} question{'s' * (count != 1)}"
