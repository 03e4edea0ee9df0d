r"""Whether confidence means anything: calibration error, discrimination and Brier score, with intervals.

For answers with confidence :math:`c_i` in [0, 1] that are right (:math:`y_i = 1`) or wrong:

* expected calibration error over bins of equal mass, :math:`\sum_b \frac{n_b}{n} |\bar c_b - \bar y_b|` (Nguyen and
  O'Connor 2015, arXiv 1508.05154; equal confidences are never divided between bins, so there may be fewer of them);
* AUROC, the probability that a right answer is more confident than a wrong one, ties counting half;
* Brier score, :math:`\frac1n \sum_i (c_i - y_i)^2`.

An ECE is biased upwards for few answers: compare it at equal n only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import randomness

_CHUNK = 4_000_000  # most numbers held at a time while resampling


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95% percentile interval (bootstrap over questions); ``None`` where it cannot be said."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well confidence fits correctness: ``answers`` in all, their mean ``confidence`` and ``accuracy``, and the
    three measures of the module. ``auroc`` is ``None`` where all answers are right or all are wrong."""

    answers: int
    confidence: float
    accuracy: float
    ece: Estimate
    auroc: Estimate
    brier: Estimate


def calibration(confidence: Sequence[float], correct: Sequence[bool], questions: Sequence[Hashable] | None = None,
                bins: int = 10, draws: int = 1000) -> Calibration | None:
    """The calibration of some answers, ``None`` if there are none.

    Args:
        confidence: of each answer, in [0, 1].
        correct: whether it is right.
        questions: which question each belongs to: answers of one question (other seeds) are drawn together. By default
            each is its own.
        bins: for the ECE, at most.
        draws: resamples of the intervals.

    Raises:
        ValueError: for lists of different lengths, or a confidence outside [0, 1].
    """
    c, y = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if questions is None:
        questions = range(len(c))
    if not len(c) == len(y) == len(questions):
        raise ValueError(f"{len(c)} confidences, {len(y)} outcomes and {len(questions)} questions: give one of each")
    if not len(c):
        return None
    if not ((c >= 0) & (c <= 1)).all():
        raise ValueError(f"confidence must lie in [0, 1]; found {c[~((c >= 0) & (c <= 1))][0]}")
    order = np.argsort(c, kind="stable")
    c, y = c[order], y[order]
    number = {question: i for i, question in enumerate(dict.fromkeys(questions))}
    cluster = np.array([number[question] for question in questions])[order]
    level = np.unique(c, return_inverse=True)[1]  # equal confidences have one level
    bin_of = _equal_mass(level, bins)
    measured = _measure(np.ones((1, len(c))), c, y, level, bin_of)
    resampled = np.concatenate([
        _measure(counts[:, cluster], c, y, level, bin_of) for counts in _resamples(len(number), draws, len(c))])
    ece, auroc, brier = (_estimate(float(value), resampled[:, i]) for i, value in enumerate(measured[0]))
    return Calibration(len(c), float(c.mean()), float(y.mean()), ece, auroc, brier)


def _equal_mass(level: np.ndarray, bins: int) -> np.ndarray:
    """[n] The bin of each answer, by the middle rank of its level."""
    size = np.bincount(level)
    middle = np.cumsum(size) - size / 2
    return np.unique(np.floor(middle / len(level) * bins).clip(max=bins - 1), return_inverse=True)[1][level]


def _measure(weight: np.ndarray, c: np.ndarray, y: np.ndarray, level: np.ndarray, bin_of: np.ndarray) -> np.ndarray:
    """[draws, 3] ECE, AUROC and Brier score of answers counted ``weight`` [draws, n] times, in order of confidence."""
    total = weight.sum(1)
    starts = np.flatnonzero(np.diff(bin_of, prepend=-1))
    ece = np.abs(np.add.reduceat(weight * (c - y), starts, axis=1)).sum(1) / total
    steps = np.flatnonzero(np.diff(level, prepend=-1))
    right, wrong = (np.add.reduceat(weight * part, steps, axis=1) for part in (y, 1 - y))
    pairs = right.sum(1) * wrong.sum(1)
    won = (right * (wrong.cumsum(1) - wrong / 2)).sum(1)
    auroc = np.where(pairs > 0, won / np.maximum(pairs, 1e-300), np.nan)
    return np.stack([ece, auroc, weight @ (c - y) ** 2 / total], axis=1)


def _resamples(questions: int, draws: int, answers: int):
    """How often each question is drawn, [some draws, questions] at a time."""
    rng = np.random.Generator(np.random.Philox(randomness.stream("calibration", questions, draws)))
    step = max(1, _CHUNK // answers)
    for start in range(0, draws, step):
        yield rng.multinomial(questions, np.full(questions, 1 / questions), size=min(step, draws - start)).astype(float)


def _estimate(value: float, resampled: np.ndarray) -> Estimate:
    known = resampled[~np.isnan(resampled)]
    if np.isnan(value):
        return Estimate(None)
    if not len(known) or np.ptp(known) < 1e-12:
        return Estimate(value)
    low, high = np.quantile(known, (0.025, 0.975))
    return Estimate(value, float(low), float(high))
