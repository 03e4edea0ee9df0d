"""Calibration is what its formulas say, knows ties, and has intervals over questions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.analysis.calibration import calibration


def test_measures_are_those_of_the_formulas():
    found = calibration([0.9, 0.8, 0.3, 0.1], [True, False, True, False], bins=2)
    assert found.answers == 4 and found.confidence == pytest.approx(0.525) and found.accuracy == 0.5
    assert found.ece.value == pytest.approx(0.5 * abs(0.2 - 0.5) + 0.5 * abs(0.85 - 0.5))
    assert found.auroc.value == pytest.approx(3 / 4)
    assert found.brier.value == pytest.approx((0.01 + 0.64 + 0.49 + 0.01) / 4)
    assert calibration([], []) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=40), st.integers(1, 12))
def test_auroc_counts_pairs_and_nothing_depends_on_the_order(rows, bins):
    c, y = [level / 6 for level, _ in rows], [right for _, right in rows]
    found = calibration(c, y, bins=bins, draws=20)
    pairs = [(a > b) + (a == b) / 2 for a, r in zip(c, y) if r for b, s in zip(c, y) if not s]
    assert found.auroc.value == (pytest.approx(sum(pairs) / len(pairs)) if pairs else None)
    assert 0 <= found.ece.value <= 1 and 0 <= found.brier.value <= 1
    assert abs(found.confidence - found.accuracy) <= found.ece.value + 1e-12
    shuffled = np.random.default_rng(0).permutation(len(c))
    again = calibration([c[i] for i in shuffled], [y[i] for i in shuffled], bins=bins, draws=20)
    assert again.ece.value == pytest.approx(found.ece.value) and again.auroc.value == found.auroc.value


def test_perfect_and_useless_confidence_are_told_apart():
    rng = np.random.default_rng(3)
    c = rng.random(4000)
    fair = calibration(c, rng.random(4000) < c, draws=200)
    assert fair.ece.value < 0.04 and fair.auroc.low > 0.7 and fair.brier.value == pytest.approx(1 / 6, abs=0.02)
    useless = calibration(c, rng.random(4000) < 0.5, draws=200)
    assert useless.auroc.low < 0.5 < useless.auroc.high and useless.ece.low > 0.2


def test_seeds_of_a_question_are_drawn_together():
    rng = np.random.default_rng(5)
    c, y = rng.random(50), rng.random(50) < 0.5
    alone = calibration(c, y, draws=500)
    copied = calibration(np.repeat(c, 10), np.repeat(y, 10), np.repeat(np.arange(50), 10), draws=500)
    assert copied.brier.value == pytest.approx(alone.brier.value)
    assert copied.brier.high - copied.brier.low == pytest.approx(alone.brier.high - alone.brier.low, rel=0.15)


def test_what_cannot_be_said_is_not_said():
    found = calibration([0.5, 0.7], [True, True])
    assert found.auroc.value is None and found.auroc.low is None
    assert calibration([1.0], [True]).brier.low is None
    with pytest.raises(ValueError, match="confidence must lie in"):
        calibration([1.2], [True])
    with pytest.raises(ValueError, match="2 confidences, 1 outcomes and 2 questions"):
        calibration([0.2, 0.3], [True])
