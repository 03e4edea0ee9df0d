"""When a training has paid for itself, and when it never will."""

from __future__ import annotations

import pytest

from goa_torch.training.topology.payback import payback

EVERYBODY = {"accuracy": 0.5, "tokens": 300.0}


@pytest.mark.parametrize("tokens, step, best, questions, says", [
    (1000.0, 4, {"accuracy": 0.5, "tokens": 200.0}, 10, "after 10 questions"),
    (100.0, 4, {"accuracy": 0.6, "tokens": 200.0}, 1, "after 1 question"),
    (2_000_000.0, 4, {"accuracy": 0.6, "tokens": 200.0}, 20_000, "after 20,000 questions"),
    (1000.0, 4, {"accuracy": 0.4, "tokens": 200.0}, None, "less accurate, though it saves 100 tokens a question"),
    (1000.0, 4, {"accuracy": 0.4, "tokens": 400.0}, None, "less accurate, and saves no tokens"),
    (1000.0, 4, {"accuracy": 0.9, "tokens": 300.0}, None, "saves no tokens"),
    (1000.0, 0, {"accuracy": 0.9, "tokens": 200.0}, None, "gained nothing"),
])
def test_a_training_pays_only_if_it_has_taught_something_that_is_no_worse(tokens, step, best, questions, says):
    found, verdict = payback(tokens, step, best, EVERYBODY)
    assert found == questions and says in verdict and (found is not None or "pays" not in verdict)
    assert not says.endswith("question") or verdict.endswith(says)
