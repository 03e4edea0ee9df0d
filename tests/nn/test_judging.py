"""Judges and the meta-LLM that are asked for likelihoods instead of numbers."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from goa_torch.agents.calls import Exchange, Recorder, Request, option_probabilities
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.nn.selection import option_labels
from goa_torch.types import Message, Reply
from tests.worlds import echo_pool, questions


class Likely(EchoModel):
    """Finds the option ``favourite`` e times as likely as any other."""

    favourite = "1"

    def log_likelihood(self, chats, continuations):
        self.asked = getattr(self, "asked", [])
        self.asked += list(zip(chats, continuations, strict=True))
        return [float(c == self.favourite) for c in continuations]


def likely_pool(**settings):
    pool = echo_pool()
    model = Likely(lambda chat: "I say x")
    agents = [type(a)(a.name, model, a.card, a.system) for a in pool.agents]
    return Pool(agents, pool.prompts, "general", pool.sampling, judging="likelihood", **settings), model


def test_options_become_probabilities_that_sum_to_one():
    e = math.e
    assert option_probabilities(Reply("[1.0, 0.0, 0.0]")) == pytest.approx([e / (e + 2), 1 / (e + 2), 1 / (e + 2)])
    assert option_probabilities(Reply("[-1000.0, -1000.0]")) == [0.5, 0.5]
    assert option_probabilities(Reply.failure("gone")) is None


def test_scores_and_the_choice_come_from_likelihoods_at_the_same_number_of_calls():
    pool, model = likely_pool()
    [result] = build_method("goa", pool)(questions(1))
    assert Counter(c.purpose for c in result.calls) == {"select": 1, "answer": 3, "score": 3, "pass": 4}
    select, _, score = result.trace["stages"][:3]
    assert select["probabilities"]["code"] == max(select["probabilities"].values()) and not select["fallback"]
    first, other = math.e / (math.e + 1), 1 / (math.e + 1)
    assert score["matrix"] == [[None, pytest.approx(first), pytest.approx(other)],
                               [pytest.approx(first), None, pytest.approx(other)],
                               [pytest.approx(first), pytest.approx(other), None]]
    judges = [chat for chat, text in model.asked if text == "2" and "Reply 1" in chat.text]
    assert [len(chat.senders) for chat in judges] == [2, 2, 2]


def test_a_model_without_likelihoods_is_refused_before_the_first_call():
    pool, model = likely_pool()
    model.capabilities = frozenset({"generate"})
    for name, settings in (("goa", {}), ("routed_single", {}), ("vote", {"k": 2})):
        with pytest.raises(UserError, match="log_likelihood"):
            build_method(name, pool, **settings)
    build_method("goa", pool, judging="text")
    build_method("moa", pool)


def test_a_pool_names_its_way_of_judging_or_is_refused():
    pool = echo_pool()
    with pytest.raises(UserError, match="way of judging"):
        Pool(pool.agents, pool.prompts, judging="guess")
    with pytest.raises(UserError, match="judging"):
        build_method("goa", pool, judging="guess")


def test_identical_weighings_are_shared_and_told_from_replies():
    pool, model = likely_pool()
    recorder = Recorder(questions(1), 0, pool.sampling, Exchange())
    weighing = Request(pool.meta, (Message.of("user", "which?"),), "score", 0, options=("1", "2"))
    spoken = Request(pool.meta, (Message.of("user", "which?"),), "score", 0)
    replies = recorder.ask([weighing, spoken, weighing])
    assert replies[0].text == replies[2].text == "[1.0, 0.0]" and replies[1].text == "I say x"
    assert [c.shared for c in recorder.calls[0]] == [False, False, True] and len(model.asked) == 2


def test_an_option_that_does_not_fit_is_a_failed_call_and_the_judge_is_left_out():
    pool, model = likely_pool()
    model.log_likelihood = lambda chats, continuations: [float("nan")] * len(chats)
    [result] = build_method("goa", pool)(questions(1))
    select, _, score = result.trace["stages"][:3]
    assert select["fallback"] and score["unparsed"] == 3 and score["kept"] == [False] * 3


@pytest.mark.parametrize("n, first", [(2, 1), (9, 1), (10, 1), (10, 0), (11, 0), (120, 1)])
def test_no_option_is_the_beginning_of_another(n, first):
    labels = option_labels(n, first)
    assert [int(label) for label in labels] == list(range(first, first + n))
    assert not [(a, b) for a in labels for b in labels if a != b and b.startswith(a)]


def test_weighings_are_not_repeated_since_they_would_be_the_same():
    pool, model = likely_pool()
    model.log_likelihood = lambda chats, continuations: [float("nan")] * len(chats)
    [result] = build_method("goa", pool, tries=3)(questions(1))
    assert Counter(c.purpose for c in result.calls)["score"] == 3
    assert Counter(c.purpose for c in result.calls)["select"] == 1
