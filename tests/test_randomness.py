from __future__ import annotations

import numpy as np
import pytest

from goa_torch.randomness import stream, uniforms


def test_a_stream_is_the_same_in_every_process_and_differs_by_every_part():
    assert stream(0, "mmlu", "q1", "law", 0, 1, "answer", 0) == 1790162903635201923
    names = {stream(s, q, a, r) for s in range(5) for q in "ab" for a in "cd" for r in range(3)}
    assert len(names) == 5 * 2 * 2 * 3


def test_parts_are_kept_apart():
    assert stream("ab", "c") != stream("a", "bc") and stream(1) != stream("1")


def test_uniforms_depend_on_stream_and_counter_alone():
    streams = [stream(i) for i in range(100)]
    together = uniforms(streams, 3)
    assert np.array_equal(together[17:18], uniforms(streams[17:18], 3))
    assert not np.array_equal(together, uniforms(streams, 4))
    assert together.min() >= 0 and together.max() < 1


def test_uniforms_are_uniform_along_streams_and_counters():
    from scipy import stats

    assert stats.kstest(uniforms([stream("x", i) for i in range(4000)], 0), "uniform").pvalue > 1e-3
    assert stats.kstest(uniforms([stream("x")], np.arange(4000)), "uniform").pvalue > 1e-3
    grid = uniforms(np.array([stream("y", i) for i in range(200)])[:, None], np.arange(200)[None])
    assert abs(np.corrcoef(grid[:, 0], grid[:, 1])[0, 1]) < 0.25


@pytest.mark.parametrize("counter", [0, 7])
def test_neighbouring_streams_are_not_shifted_copies(counter):
    first, second = uniforms([5], np.arange(50)), uniforms([6], np.arange(50))
    assert not np.intersect1d(first, second).size
