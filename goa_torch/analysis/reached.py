"""Does it explain what agents get right, whether the work could have reached them in time?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import randomness
from .paths import Estimate


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What came of questions under routing rules, one row for each (cell, question, seed).

    Attributes:
        cell: [R] number of the row's cell: a rule at a depth of questions, cut off after some rounds.
        stratum: [R] number of the row's kind of question (its depth); questions are resampled within it.
        question: [R] number of the question.
        right: [R] bool, whether the answer was.
        reached: [R] bool, whether the graph that was drawn could have finished the question
            (:func:`goa_torch.analysis.travel.in_time`).
    """

    cell: np.ndarray
    stratum: np.ndarray
    question: np.ndarray
    right: np.ndarray
    reached: np.ndarray

    def only(self, rows: np.ndarray) -> Outcomes:
        """Some of the rows."""
        return Outcomes(*(getattr(self, name)[rows] for name in self.__slots__))


def reach_correlation(outcomes: Outcomes, draws: int = 2000, seed: int = 0) -> Estimate:
    """Pearson's correlation over cells of the share of questions reached and the share right, with its 95% interval
    (bootstrap over questions, all their cells and seeds together). NaN if either does not vary."""
    questions, drawn = _resampled(outcomes, draws, seed)
    cells = int(outcomes.cell.max()) + 1
    n, right, reached = (_sums(outcomes, questions, cells, values) for values in (
        np.ones(len(outcomes.cell)), outcomes.right, outcomes.reached))
    kept = n.sum(axis=1) > 0
    n, right, reached = n[kept], right[kept], reached[kept]

    def correlation(weights: np.ndarray) -> np.ndarray:
        total = weights @ n.T
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = weights @ reached.T / total, weights @ right.T / total  # [draws, cells]
        here = total > 0
        x, y = (np.where(here, v, 0) for v in (x, y))
        mean_x, mean_y = (v.sum(axis=1, keepdims=True) / here.sum(axis=1, keepdims=True) for v in (x, y))
        x, y = np.where(here, x - mean_x, 0), np.where(here, y - mean_y, 0)
        spread = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
        return np.where(spread > 1e-12, (x * y).sum(axis=1) / np.maximum(spread, 1e-12), np.nan)

    return _estimate(correlation(np.ones((1, n.shape[1]))), correlation(drawn))


def reach_effect(outcomes: Outcomes, draws: int = 2000, seed: int = 0) -> Estimate:
    r"""How much more often a question is right if the graph that chance drew for it could finish it than if not, at
    equal rule, depth and rounds: the risk difference of Mantel and Haenszel over the cells c in which both happen,

    .. math:: \frac{\sum_c w_c (p_{1c} - p_{0c})}{\sum_c w_c}, \qquad w_c = \frac{n_{1c} n_{0c}}{n_{1c} + n_{0c}},

    with its 95% interval (bootstrap over questions). NaN if there is no such cell. Where edges are drawn at random this
    is an experiment, not a correlation.
    """
    questions, drawn = _resampled(outcomes, draws, seed)
    cells = int(outcomes.cell.max()) + 1
    reached, right = outcomes.reached.astype(float), outcomes.right.astype(float)
    n1, r1, n0, r0 = (_sums(outcomes, questions, cells, values) for values in (
        reached, reached * right, 1 - reached, (1 - reached) * right))

    def difference(weights: np.ndarray) -> np.ndarray:
        s1, k1, s0, k0 = (weights @ values.T for values in (n1, r1, n0, r0))
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = np.where((s1 > 0) & (s0 > 0), s1 * s0 / (s1 + s0), 0)
            gap = np.where(weight > 0, k1 / s1 - k0 / s0, 0)
            return (weight * gap).sum(axis=1) / weight.sum(axis=1)

    return _estimate(difference(np.ones((1, n1.shape[1]))), difference(drawn))


def _resampled(outcomes: Outcomes, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the questions, and how often each is taken when as many as there are of its stratum are drawn."""
    if not len(outcomes.cell):
        raise ValueError("there are no outcomes to explain")
    questions, first = np.unique(outcomes.question, return_index=True)
    stratum = outcomes.stratum[first]
    rng = np.random.Generator(np.random.Philox(randomness.stream("analysis", "reached", seed)))
    taken = np.zeros((draws, len(questions)))
    for kind in np.unique(stratum):
        members = np.flatnonzero(stratum == kind)
        taken[:, members] = rng.multinomial(len(members), np.full(len(members), 1 / len(members)), size=draws)
    return questions, taken


def _sums(outcomes: Outcomes, questions: np.ndarray, cells: int, values: np.ndarray) -> np.ndarray:
    """[cells, questions] sums of ``values`` over the rows of each."""
    place = outcomes.cell * len(questions) + np.searchsorted(questions, outcomes.question)
    return np.bincount(place, values, minlength=cells * len(questions)).reshape(cells, len(questions))


def _estimate(value: np.ndarray, drawn: np.ndarray) -> Estimate:
    known = drawn[np.isfinite(drawn)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    return Estimate(float(value[0]), float(low), float(high))
