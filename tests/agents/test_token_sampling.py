from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.agents.token_sampling import next_tokens


def draw(logits, temperature=1.0, top_p=1.0, streams=None, steps=None):
    rows = logits.shape[0]
    return next_tokens(logits, [temperature] * rows, [top_p] * rows, streams or list(range(rows)), steps or [0] * rows)


def test_zero_temperature_takes_the_likeliest_token_and_ties_go_to_the_smallest_id():
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0], [3.0, 0.0, 3.0, 3.0]])
    tokens, log_probs = draw(logits, temperature=0.0)
    assert tokens.tolist() == [1, 0]
    assert torch.allclose(log_probs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0])


@pytest.mark.parametrize("size", [1, 2, 5, 255, 256, 257, 700])
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_follow_the_softmax(size, temperature):
    torch.manual_seed(size)
    logits, draws = torch.randn(1, size) * 1.5, 20_000
    tokens, _ = draw(logits.expand(draws, size), temperature)
    p = (logits[0].double() / temperature).softmax(-1).numpy()
    seen = np.bincount(tokens.numpy(), minlength=size)
    often = p * draws >= 5
    chi2 = ((seen - p * draws)[often] ** 2 / (p * draws)[often]).sum()
    assert chi2 < often.sum() + 5 * np.sqrt(2 * often.sum()) + 5


def test_log_probabilities_are_those_of_the_model_whatever_the_temperature_and_the_cut():
    logits = torch.randn(6, 300)
    for temperature, top_p in ((1.0, 1.0), (0.3, 1.0), (1.0, 0.5), (2.0, 0.9)):
        tokens, log_probs = draw(logits, temperature, top_p)
        assert torch.allclose(log_probs, logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0], atol=1e-5)


def test_the_same_stream_and_step_give_the_same_token_in_any_company():
    logits = torch.randn(16, 49152)
    streams, steps = list(range(100, 116)), list(range(16))
    together, _ = draw(logits, 0.7, 1.0, streams, steps)
    alone = [draw(logits[i : i + 1], 0.7, 1.0, [streams[i]], [steps[i]])[0].item() for i in range(16)]
    assert together.tolist() == alone


def test_rounding_changes_few_tokens():
    torch.manual_seed(0)
    logits = torch.randn(512, 8192) * 2  # a flat distribution with a long tail: the hard case for a flat inverse CDF
    noise = torch.randn_like(logits) * 2e-5
    a, _ = draw(logits)
    b, _ = draw(logits + noise)
    assert (a != b).sum() <= 1
    flat = [int(np.searchsorted(x.double().softmax(-1).cumsum(-1).numpy(), np.linspace(0.001, 0.999, 512))[i])
            for i, x in enumerate(logits)]
    moved = [int(np.searchsorted(x.double().softmax(-1).cumsum(-1).numpy(), np.linspace(0.001, 0.999, 512))[i])
             for i, x in enumerate(logits + noise)]
    assert sum(x != y for x, y in zip(flat, moved)) > 1  # what the tree is for


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=40), st.floats(0.05, 1.0), st.integers(0, 2**62))
@settings(max_examples=60, deadline=None)
def test_a_token_outside_the_nucleus_is_never_drawn(values, top_p, stream):
    logits = torch.tensor([values])
    token = draw(logits, 1.0, top_p, [stream])[0].item()
    p = logits[0].double().softmax(-1)
    likelier = p[p > p[token] * (1 + 1e-5)].sum()
    assert likelier < top_p + 1e-5


def test_the_nucleus_is_found_beyond_the_first_few_hundred_tokens():
    logits = torch.zeros(4, 5000)
    logits[:, :2500] = 1e-3
    tokens = torch.cat([draw(logits, 1.0, 0.5, [s + i for i in range(4)])[0] for s in range(0, 400, 4)])
    assert (tokens < 2500).all() and len(tokens.unique()) > 300


def test_a_row_that_is_not_finite_says_so_and_leaves_the_others_alone():
    logits = torch.randn(2, 50)
    logits[0, 3] = float("nan")
    tokens, log_probs = draw(logits, 0.7)
    assert log_probs[0].isnan() and not log_probs[1].isnan()
    assert tokens[1] == draw(logits[1:], 0.7, 1.0, [1])[0]


def test_greedy_and_sampled_rows_share_a_batch():
    logits = torch.randn(4, 600)
    mixed, _ = next_tokens(logits, [0.0, 0.7, 0.0, 1.0], [1.0, 0.9, 1.0, 1.0], [1, 2, 3, 4], [0, 0, 0, 0])
    for row, (t, p) in enumerate([(0.0, 1.0), (0.7, 0.9), (0.0, 1.0), (1.0, 1.0)]):
        assert mixed[row] == next_tokens(logits[row : row + 1], [t], [p], [row + 1], [0])[0][0]
