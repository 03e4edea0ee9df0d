"""pass@k is the share of all draws of k samples that hold a right one."""

from __future__ import annotations

from itertools import combinations

import pytest

from goa_torch.analysis.pass_at_k import pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_it_is_what_counting_all_draws_gives(n):
    for c in range(n + 1):
        for k in range(1, n + 1):
            draws = list(combinations([i < c for i in range(n)], k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_large_numbers_neither_overflow_nor_cancel():
    assert 0 < pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


@pytest.mark.parametrize("n, c, k", [(1, 2, 1), (3, 1, 4), (3, 1, 0), (3, -1, 1)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="pass@k needs"):
        pass_at_k(n, c, k)
