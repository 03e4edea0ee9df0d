r"""Statistics of a comparison: how sure is a difference of accuracies, and how small a one could have been seen?

Outcomes of one method on one task are a matrix ``correct`` [questions, seeds] of zeros and ones. Questions are a
sample of the task, seeds a sample of the method's luck; both are resampled. Two methods are always compared on the
same questions and seeds (paired). Everything is deterministic: random draws come from a Philox counter named by what
they are for, and rows are sorted first, so the order of the questions changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import signal, stats

from .. import randomness

DRAWS = 10_000
_CHUNK = 4_000_000  # most numbers drawn at a time


class Interval(NamedTuple):
    low: float
    high: float


def _rng(*name: str | int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(randomness.stream("statistics", *name)))


def _matrix(correct: np.ndarray) -> np.ndarray:
    x = np.asarray(correct, dtype=np.float64)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or 0 in x.shape:
        raise ValueError(f"outcomes must be [questions, seeds] with at least one of each, not {np.shape(correct)}")
    return x[np.lexsort(x.T[::-1])]


def sd_over_seeds(correct: np.ndarray) -> float:
    """Standard deviation (n - 1) of the accuracy of a seed; NaN for a lone seed."""
    x = _matrix(correct)
    return float(x.mean(0).std(ddof=1)) if x.shape[1] > 1 else float("nan")


def resampled_means(
    outcomes: Sequence[np.ndarray], draws: int = DRAWS, seed: int = 0, name: str = ""
) -> np.ndarray:
    r"""Means of resampled matrices, [draws, len(outcomes)]: the hierarchical bootstrap over questions x seeds.

    A draw takes Q questions and, independently, S seeds, both with replacement, and averages all their pairs (the
    pigeonhole bootstrap, Owen, `The pigeonhole bootstrap <https://arxiv.org/abs/0712.1111>`_, 2007). With outcome
    variance :math:`\sigma_q^2` between questions, :math:`\sigma_s^2` between seeds and :math:`\sigma_e^2` left over,
    the spread it gives is about :math:`\sigma_q^2/Q + \sigma_s^2/S + 3\sigma_e^2/QS` against a true
    :math:`\sigma_q^2/Q + \sigma_s^2/S + \sigma_e^2/QS`: it stays valid where a seed shifts all questions together (a
    controller trained with it), and errs on the wide side.

    Args:
        outcomes: matrices [Q, S] of one shape (accuracies, or paired differences of them).
        draws: number of resamples.
        seed: names the random numbers; equal for all ``outcomes``.
        name: the task. Questions of different tasks are drawn independently, seeds together.
    """
    matrices = [_matrix(x) for x in outcomes]
    if not matrices:
        return np.empty((draws, 0))
    questions, seeds = matrices[0].shape
    if any(x.shape != (questions, seeds) for x in matrices):
        raise ValueError(f"outcomes differ in shape: {sorted({x.shape for x in matrices})}; give all one grid")
    stacked = np.stack(matrices, axis=1).reshape(questions, -1)  # [Q, C * S]
    by_seed = _counts(_rng(seed, "seeds"), draws, seeds) / seeds  # [draws, S]
    rng, step = _rng(seed, "questions", name), max(1, _CHUNK // questions)
    means = np.empty((draws, len(matrices)))
    for start in range(0, draws, step):
        rows = slice(start, min(start + step, draws))
        by_question = _counts(rng, rows.stop - start, questions)  # [step, Q]
        sums = (by_question @ stacked).reshape(-1, len(matrices), seeds) / questions
        means[rows] = np.einsum("dcs,ds->dc", sums, by_seed[rows])
    return means


def _counts(rng: np.random.Generator, draws: int, n: int) -> np.ndarray:
    """How often each of ``n`` things is taken when ``n`` are drawn with replacement, [draws, n]."""
    taken = rng.integers(0, n, size=(draws, n)) + np.arange(draws)[:, None] * n
    return np.bincount(taken.ravel(), minlength=draws * n).reshape(draws, n).astype(np.float64)


def percentile_interval(means: np.ndarray, level: float = 0.95) -> Interval:
    """The middle ``level`` of resampled means [draws]."""
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def wilson_interval(right: float, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval (1927) for ``right`` successes in ``n`` independent trials."""
    z = stats.norm.ppf((1 + level) / 2)
    p, z2 = right / n, z * z
    centre, half = p + z2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low, high = ((centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n))
    return Interval(0.0 if right == 0 else float(low), 1.0 if right == n else float(high))


def accuracy_interval(correct: np.ndarray, means: np.ndarray, level: float = 0.95) -> Interval:
    """Percentile interval of an accuracy; where every outcome is the same, so that resampling cannot show any
    spread, Wilson's interval on the number of questions."""
    x = _matrix(correct)
    if x.min() == x.max():
        return wilson_interval(float(x[0, 0]) * len(x), len(x), level)
    return percentile_interval(means, level)


def paired_test(a: np.ndarray, b: np.ndarray) -> float:
    r"""Two-sided exact p of "``a`` and ``b`` are equally good": McNemar's exact test, for any number of seeds.

    The question is the unit, since seeds of one question are not independent of each other. Under the null the two
    methods may be exchanged within each question: its :math:`d_q = \sum_s (a_{qs} - b_{qs})` is as likely as
    :math:`-d_q`. The p is the exact share of all :math:`2^Q` sign patterns whose :math:`|\sum_q d_q|` is at least the
    observed one (Fisher's randomisation test). With one seed :math:`d_q` is -1, 0 or 1 and this *is* McNemar's exact
    binomial test on discordant pairs. (Pooling the pairs of all seeds would count one question several times;
    a majority over seeds would throw differences away.)
    """
    d = np.rint(_paired(a, b).sum(1)).astype(np.int64)
    observed = abs(int(d.sum()))
    distribution = np.ones(1)  # of the sum, on -m, ..., m
    for size, count in zip(*np.unique(np.abs(d[d != 0]), return_counts=True), strict=True):
        signs = np.zeros(2 * size * count + 1)  # size * (2 Binomial(count, 1/2) - count)
        signs[:: 2 * size] = stats.binom.pmf(np.arange(count + 1), count, 0.5)
        small = min(len(signs), len(distribution)) < 2000
        distribution = (np.convolve if small else signal.fftconvolve)(distribution, signs)
    reached = np.abs(np.arange(len(distribution)) - len(distribution) // 2) >= observed
    return float(min(1.0, np.clip(distribution, 0, None)[reached].sum()))


def paired_macro_test(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], draws: int = DRAWS, seed: int = 0
) -> float:
    """:func:`paired_test` of the mean over tasks, each task weighing the same: signs drawn at random, since tasks of
    different size have no common unit to count in. p = (1 + draws that reach the observed) / (1 + draws)."""
    per_question = []
    for a, b in pairs:
        d = _paired(a, b).mean(1)
        per_question.append(np.sort(d[d != 0] / len(d)))
    d = np.concatenate(per_question)
    observed, rng, reached = abs(d.sum()), _rng(seed, "signs"), 0
    step = max(1, _CHUNK // max(1, len(d)))
    for start in range(0, draws, step):
        signs = 2.0 * rng.integers(0, 2, size=(min(step, draws - start), len(d))) - 1
        reached += int((np.abs(signs @ d) >= observed - 1e-12).sum())
    return (1 + reached) / (1 + draws)


def _paired(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired outcomes differ in shape: {a.shape} and {b.shape}; give both on one grid")
    return _matrix(a - b)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) step-down correction: p values that may all be read at one level."""
    adjusted, running = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        running = max(running, min(1.0, (len(p_values) - rank) * float(p_values[index])))
        adjusted[int(index)] = running
    return adjusted


def equivalence_p(differences: np.ndarray, margin: float) -> float:
    """Two one-sided tests (TOST, Schuirmann 1987) of "the difference lies within +-``margin``".

    ``differences`` are resampled ones [draws]. Below .05 exactly where the 90% percentile interval lies inside the
    margin (up to one draw): as good as the baseline, not merely not shown to differ.
    """
    if not margin > 0:
        raise ValueError(f"margin must be positive, not {margin}")
    above, below = (differences <= -margin).sum(), (differences >= margin).sum()
    return float((1 + max(above, below)) / (1 + len(differences)))


def difference_variance(a: np.ndarray, b: np.ndarray) -> float:
    """Variance of the mean paired difference: that of the questions' mean differences (n - 1), over n."""
    d = _paired(a, b).mean(1)
    return float(d.var(ddof=1) / len(d)) if len(d) > 1 else float("nan")


def detectable_difference(variance: float, power: float = 0.8, alpha: float = 0.05) -> float:
    r"""The smallest true difference found with probability ``power`` at two-sided level ``alpha``:
    :math:`(z_{1-\alpha/2} + z_{power}) \sqrt{variance}`, the variance that of the mean paired difference.

    NaN if the difference is the same on every question: then nothing is known about how much it might vary.
    """
    if not variance > 0:
        return float("nan")
    return float((stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)) * np.sqrt(variance))


def pareto_front(costs: Sequence[float], values: Sequence[float]) -> list[bool]:
    """Which points no other beats: none costs at most as much and is worth at least as much, one of both strictly."""
    points = list(zip(costs, values, strict=True))
    return [
        not any(c <= cost and v >= value and (c < cost or v > value) for c, v in points) for cost, value in points
    ]
