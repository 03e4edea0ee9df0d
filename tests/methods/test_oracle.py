"""The right expert for every layer, known beforehand."""

from __future__ import annotations

import pytest
from worlds import echo_pool, questions

from goa_torch import build_method, load_pool, load_questions
from goa_torch.agents.base import Agent
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.errors import UserError
from goa_torch.methods.ceiling import perfect_pool
from goa_torch.types import Card

ORACLE = "goa_torch.methods.oracle:OracleRoute"


def perfect(extra=()):
    return perfect_pool(Pool([*load_pool("relay").agents, *extra], load_pool("relay").prompts))


def generalists(count):
    return [Agent(f"all{i}", EchoModel("x"), Card("generalist"), "") for i in range(count)]


def test_perfect_agents_on_the_right_route_answer_everything_with_one_call_a_layer():
    asked = load_questions("relay", depth=(1, 2, 3, 4, 6), limit=20)
    for question, result in zip(asked, build_method(ORACLE, perfect())(asked)):
        assert result.correct and result.depth == result.usage.calls == question.metadata["depth"]
        assert [call.agent for call in result.calls] == question.metadata["domains"]  # experts bear their domain's name


def test_specialists_are_named_before_generalists_and_equals_by_lot():
    asked = load_questions("relay", depth=2, limit=12)
    results = build_method(ORACLE, perfect(generalists(2)))(asked)
    assert not {call.agent for result in results for call in result.calls} & {"all0", "all1"}
    only = build_method(ORACLE, perfect(generalists(2)), agents=["all0", "all1"])(asked)
    assert all(result.correct for result in only)
    assert {call.agent for result in only for call in result.calls} == {"all0", "all1"}
    again = build_method(ORACLE, perfect(generalists(2)), agents=["all1", "all0"])(asked)
    assert [[c.agent for c in r.calls] for r in only] == [[c.agent for c in r.calls] for r in again]


def test_where_nobody_can_go_on_the_latest_reply_stands():
    asked = [q for q in load_questions("relay", depth=2, limit=60) if "math" in q.metadata["domains"]]
    results = build_method(ORACLE, perfect(), agents=["code", "law", "finance", "biology", "general"])(asked)
    assert asked and not any(result.correct for result in results)
    for question, result in zip(asked, results):
        assert result.usage.calls == question.metadata["domains"].index("math")


def test_questions_that_do_not_say_what_they_need_are_refused_and_so_are_strangers():
    with pytest.raises(UserError, match="runs on the task relay alone"):
        build_method(ORACLE, echo_pool())(questions(1))
    with pytest.raises(UserError, match="nobody"):
        build_method(ORACLE, perfect(), agents=["nobody"])
