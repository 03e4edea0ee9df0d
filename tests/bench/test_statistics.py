from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from goa_torch.bench import statistics as s

grids = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)
outcomes = grids.flatmap(lambda shape: hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
pairs = grids.flatmap(lambda shape: st.tuples(*[hnp.arrays(np.int8, shape, elements=st.integers(0, 1))] * 2))


def simulated(rng, questions, seeds, shift=0.0):
    """Questions of different difficulty, seeds that agree on part of it."""
    p = np.clip(rng.beta(2, 2, size=(questions, 1)) + shift, 0, 1)
    return (rng.random((questions, seeds)) < p).astype(float)


@pytest.mark.parametrize(("questions", "seeds"), [(60, 1), (60, 3), (200, 5)])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(questions, seeds):
    rng, covered, runs = np.random.default_rng(7), 0, 300
    for run in range(runs):
        x = simulated(rng, questions, seeds)
        low, high = s.accuracy_interval(x, s.resampled_means([x], draws=400, seed=run)[:, 0])
        covered += low <= 0.5 <= high
    assert 0.92 <= covered / runs <= 1.0


def test_the_interval_of_a_paired_difference_covers_the_truth():
    rng, covered, runs = np.random.default_rng(8), 0, 300
    for run in range(runs):
        difficulty = rng.beta(2, 2, size=(80, 1)) * 0.8
        a, b = (rng.random((80, 2)) < difficulty + 0.1), (rng.random((80, 2)) < difficulty)
        low, high = s.percentile_interval(s.resampled_means([a * 1.0 - b], draws=400, seed=run)[:, 0])
        covered += low <= 0.1 <= high
    assert 0.92 <= covered / runs <= 1.0


def test_the_test_rejects_a_true_null_no_more_often_than_it_says():
    rng, runs = np.random.default_rng(9), 400
    rejected = sum(s.paired_test(simulated(rng, 40, 3), simulated(rng, 40, 3)) < 0.05 for _ in range(runs))
    assert rejected / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_difference_as_large_as_the_detectable_one_is_found_four_times_in_five():
    rng, runs, found, planned = np.random.default_rng(10), 300, 0, []
    for _ in range(runs):
        difficulty = rng.uniform(0.1, 0.6, size=(150, 1))
        a, b = (rng.random((150, 2)) < difficulty + 0.13) * 1.0, (rng.random((150, 2)) < difficulty) * 1.0
        planned.append(s.detectable_difference(s.difference_variance(a, b)))
        found += s.paired_test(a, b) < 0.05
    power = stats.norm.cdf(0.13 / np.mean(planned) * (1.96 + 0.8416) - 1.96)
    assert found / runs == pytest.approx(power, abs=0.08)


@given(outcomes)
def test_identical_methods_differ_by_exactly_nothing(x):
    assert np.all(s.resampled_means([x - x], draws=20) == 0)
    assert s.paired_test(x, x) == 1.0
    assert s.paired_macro_test([(x, x)], draws=20) == 1.0
    assert math.isnan(s.detectable_difference(s.difference_variance(x, x)))


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_questions_changes_nothing(pair, random):
    a, b = pair
    order = list(range(len(a)))
    random.shuffle(order)
    means, permuted = (s.resampled_means([x, x - y], draws=30) for x, y in ((a, b), (a[order], b[order])))
    assert np.array_equal(means, permuted)
    assert s.paired_test(a, b) == s.paired_test(a[order], b[order])
    assert s.paired_macro_test([pair], 30) == s.paired_macro_test([(a[order], b[order])], 30)
    assert s.sd_over_seeds(a) == s.sd_over_seeds(a[order]) or a.shape[1] == 1


@given(pairs)
def test_a_method_is_resampled_alike_whoever_else_is_in_the_table(pair):
    a, b = pair
    assert np.array_equal(s.resampled_means([a], draws=20)[:, 0], s.resampled_means([b, a], draws=20)[:, 1])


@given(st.integers(0, 30), st.integers(0, 30))
def test_with_one_seed_the_test_is_mcnemars_exact_one(only_a, only_b):
    a = np.array([1] * only_a + [0] * only_b + [1, 0])
    b = np.array([0] * only_a + [1] * only_b + [1, 0])
    expected = stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert s.paired_test(a, b) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(pairs)
def test_the_exact_test_agrees_with_counting_every_sign_pattern(pair):
    a, b = pair
    d = (a.astype(int) - b).sum(1)
    sums = np.zeros(1)
    for value in d:
        sums = np.concatenate([sums - value, sums + value])
    assert s.paired_test(a, b) == pytest.approx(np.mean(np.abs(sums) >= abs(d.sum())), abs=1e-12)


def test_the_exact_test_stays_quick_and_right_on_a_whole_benchmark():
    rng = np.random.default_rng(3)
    a, b = simulated(rng, 14_000, 5), simulated(rng, 14_000, 5)
    d = (a - b).sum(1)
    normal = 2 * stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
    assert s.paired_test(a, b) == pytest.approx(normal, rel=0.02)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_the_order_and_never_lowers_a_p(p):
    adjusted = s.holm(p)
    assert all(a >= raw and a <= 1 for a, raw in zip(adjusted, p, strict=True))
    assert all((adjusted[i] <= adjusted[j]) for i in range(len(p)) for j in range(len(p)) if p[i] < p[j])


def test_holm_gives_the_textbook_values():
    assert s.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.integers(1, 200), st.data())
def test_wilson_agrees_with_scipy(n, data):
    right = data.draw(st.integers(0, n))
    low, high = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert s.wilson_interval(right, n) == pytest.approx((low, high), abs=1e-9)


def test_the_bootstrap_agrees_with_wilson_for_one_seed_and_many_questions():
    x = np.array([1] * 120 + [0] * 180)
    low, high = s.accuracy_interval(x, s.resampled_means([x])[:, 0])
    assert (low, high) == pytest.approx(s.wilson_interval(120, 300), abs=0.01)


def test_all_right_is_not_reported_as_certain():
    x = np.ones((10, 3))
    low, high = s.accuracy_interval(x, s.resampled_means([x], draws=50)[:, 0])
    assert high == 1.0 and 0.6 < low < 0.8


def test_equivalence_is_claimed_only_when_the_interval_lies_inside_the_margin():
    rng = np.random.default_rng(5)
    a = simulated(rng, 400, 2)
    b = a.copy()
    b[:6, 0] = 1 - b[:6, 0]
    means = s.resampled_means([a - b])[:, 0]
    low, high = s.percentile_interval(means, 0.90)
    for margin in (0.002, 0.005, 0.02, 0.1):
        assert (s.equivalence_p(means, margin) < 0.05) == (-margin < low and high < margin)
    with pytest.raises(ValueError, match="positive"):
        s.equivalence_p(means, 0)


def test_seeds_that_shift_everything_widen_the_interval():
    same = np.tile([[1, 1], [0, 0]], (50, 1))
    shifted = np.stack([np.ones(100), np.zeros(100)], axis=1)
    narrow, wide = (s.percentile_interval(s.resampled_means([x])[:, 0]) for x in (same, shifted))
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_a_lone_seed_has_no_deviation_and_shapes_are_checked():
    assert math.isnan(s.sd_over_seeds(np.ones(4)))
    with pytest.raises(ValueError, match="one grid"):
        s.paired_test(np.ones((3, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="at least one"):
        s.resampled_means([np.ones((0, 2))])


def test_the_front_holds_what_nothing_beats():
    assert s.pareto_front([1, 2, 3, 3], [0.4, 0.3, 0.6, 0.5]) == [True, False, True, False]
    assert s.pareto_front([1, 1], [0.4, 0.4]) == [True, True]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8))
def test_the_front_is_never_empty(points):
    assert any(s.pareto_front([c for c, _ in points], [v for _, v in points]))
