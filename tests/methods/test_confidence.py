"""A result's confidence comes from agreement, tokens or words."""

from __future__ import annotations

import math

import pytest

from goa_torch.methods import build_method
from goa_torch.methods.confidence import confidence, confidences
from goa_torch.types import Reply, Usage
from tests.worlds import echo_pool, questions


def answer(name, outputs, **settings):
    [result] = build_method(name, echo_pool(outputs), **settings)(questions(1))
    return result


def test_agreement_is_the_share_of_agents_that_hold_the_answer():
    drawn = iter(["x", "x", "y", "x", "", "z"])
    assert confidence(answer("vote", lambda chat: next(drawn))) == pytest.approx(3 / 6)
    assert confidence(answer("single", lambda chat: "x")) is None


def test_tokens_and_words_speak_for_the_reply_that_is_the_answer():
    reply = Reply("Confidence: 80%\nso x", log_prob=-2.0, usage=Usage(1, 5, 4))
    result = answer("single", lambda chat: reply)
    assert confidences(result) == {"tokens": pytest.approx(math.exp(-0.5)), "stated": 0.8}


def test_without_an_answer_there_is_no_confidence():
    assert confidences(answer("vote", lambda chat: Reply("x", "length", log_prob=-1.0))) == {}
    assert confidences(answer("single", lambda chat: "no numbers x")) == {}
