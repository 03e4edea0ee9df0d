"""DyLAN: layers, ranking, ratings, importance and teams."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.dylan import best_team
from goa_torch.nn.rating import read_ratings
from tests.worlds import DOMAINS, Spy, echo_pool, questions

NAMES = sorted(DOMAINS)


def stages(result, name):
    return [stage for stage in result.trace["stages"] if stage["stage"] == name]


def said(ranking="4, 1", ratings=None, answer=lambda agent, chat: agent):
    """Agents answer with their own name unless told otherwise; the ranker says ``ranking``."""
    def say(chat):
        if "of these replies are best" in chat.text:
            return ranking
        agent = next((name for name in NAMES if f"You are {name}." in chat.text), "?")
        heard = len([s for s in chat.senders])
        if "First rate" in chat.text:
            return f"Scores: {ratings or ', '.join(['3'] * heard)}\nI say {answer(agent, chat)}"
        return f"I say {answer(agent, chat)}"

    return say


@pytest.mark.parametrize("best", list(itertools.combinations(range(6), 2)) + [(5, 0)])
def test_the_agents_that_go_on_are_the_ones_ranked_best(best):
    pool = echo_pool(said(f"{best[0]}, {best[1]}"))
    [result] = build_method("dylan", pool)(questions(1))
    last = [stage for stage in stages(result, "pass") if stage["round"] >= 2]
    assert len(last) == 2
    for stage in last:
        assert {reply["node"] for reply in stage["replies"]} == set(best)
        assert {(s, r) for s, r, _ in stage["edges"]} == set(itertools.product(best, best))
    names = {NAMES[i] for i in best}
    assert {call.agent for call in result.calls if call.purpose == "pass" and call.round >= 2} == names
    assert result.reply.text.split()[-1] in names


def test_layers_calls_and_depth():
    pool = echo_pool(said())
    [result] = build_method("dylan", pool)(questions(1))
    assert [c.purpose for c in result.calls] == ["answer"] * 6 + ["pass"] * 6 + ["select"] + ["pass"] * 4
    assert result.depth == 5  # two kept agents need no second ranking


def test_everybody_reads_the_whole_layer_before_its_own_reply_among_them():
    pool = echo_pool(said())
    build_method("dylan", pool, layers=2)(questions(1))
    assert [sorted(chat.senders) for chat in pool.meta.model.chats[6:]] == [list(range(6))] * 6


def test_more_than_two_thirds_stop_it():
    def five(agent, chat):
        return "same" if agent != "law" else "other"

    [result] = build_method("dylan", echo_pool(said(answer=five)))(questions(1))
    assert len(result.calls) == 6 and result.answer == "same"

    def four(agent, chat):
        return "same" if agent not in ("law", "code") else agent

    [result] = build_method("dylan", echo_pool(said(answer=four)), layers=2)(questions(1))
    assert len(result.calls) == 12


def test_the_kept_two_stop_when_they_agree():
    def late(agent, chat):
        return "same" if len(chat.senders) == 2 else agent

    [result] = build_method("dylan", echo_pool(said(answer=late)), layers=9)(questions(1))
    assert len(result.calls) == 6 + 6 + 1 + 2 and result.answer == "same"


def test_a_ranking_that_cannot_be_read_keeps_everybody():
    [result] = build_method("dylan", echo_pool(said("none of them")), layers=3)(questions(1))
    assert stages(result, "rank")[0]["unparsed"] == 1 and len(stages(result, "rank")[0]["nodes"]) == 6
    assert len(result.calls) == 6 + 6 + 1 + 6
    [twice] = build_method("dylan", echo_pool(said("3, 3")), layers=3)(questions(1))
    assert stages(twice, "rank")[0]["unparsed"] == 1


def test_peers_do_not_see_the_ratings():
    pool = echo_pool(said(ratings="5, 1, 1, 1, 1, 1"))
    [result] = build_method("dylan", pool, layers=3)(questions(1))
    assert not any("Scores: 5, 1, 1, 1, 1, 1" in chat.text for chat in pool.meta.model.chats)
    assert "Scores" not in result.reply.text


def test_importance_flows_back_along_the_ratings():
    def say(chat):
        agent = next(name for name in NAMES if f"You are {name}." in chat.text)
        line = {"biomedical": "Scores: 5, 1, 4\n", "code": "Scores: 1, 1, 3\n", "finance": "Scores: x\n"}[agent]
        return f"{line if 'First rate' in chat.text else ''}I say {agent if agent == 'finance' else 'same'}"

    pool = echo_pool(say, names=["biomedical", "code", "finance"], n=6)
    [result] = build_method("dylan", pool, agents=["biomedical", "code", "finance"], layers=2)(questions(1))
    assert result.answer == "same"
    [importance] = stages(result, "importance")
    first = {"biomedical": (0.5 + 0.2) / 2, "code": (0.1 + 0.2) / 2, "finance": (0.4 + 0.6) / 2}
    assert importance["nodes"] == pytest.approx({"biomedical": 0.5 + first["biomedical"],
                                                 "code": 0.5 + first["code"], "finance": first["finance"]})
    assert stages(result, "rating")[0]["unparsed"] == 1


def test_a_question_that_stopped_earlier_has_its_own_importance():
    def answer(agent, chat):
        return "same" if "What is 0" in chat.text else agent

    pool = echo_pool(said(answer=answer))
    first, second = build_method("dylan", pool)(questions(2))
    [alone] = build_method("dylan", echo_pool(said(answer=answer)))(questions(1))
    assert stages(first, "importance") == stages(alone, "importance")
    assert sum(stages(first, "importance")[0]["nodes"].values()) == pytest.approx(1)
    assert sum(stages(second, "importance")[0]["nodes"].values()) == pytest.approx(4)


def test_the_most_important_make_the_team():
    def answer(agent, chat):
        return "same" if agent in ("math", "law", "code") else agent

    results = build_method("dylan", echo_pool(said(answer=answer)), layers=1)(questions(3))
    assert best_team(results, 3) == ["code", "law", "math"]
    team = build_method("dylan", echo_pool(said()), agents=best_team(results, 3), layers=1)(questions(1))
    assert sorted(call.agent for call in team[0].calls) == ["code", "law", "math"]
    with pytest.raises(UserError, match="size = 9"):
        best_team(results, 9)


@pytest.mark.parametrize("text, n, ratings, rest", [
    ("Scores: 5, 5\nB", 2, [0.5, 0.5], "B"), ("**Scores:** 4, 1 \nB", 2, [0.8, 0.2], "B"),
    ("B\nRatings: [1; 3]", 2, [0.25, 0.75], "B"), ("Scores: 4/5, 1/5\nB", 2, [0.8, 0.2], "B"),
    ("Scores: 5\nB", 2, None, "B"), ("Scores: 6, 1\nB", 2, None, "B"), ("Scores: 0, 1\nB", 2, None, "B"),
    ("no line at all B", 2, None, "no line at all B"), ("Scores: 2.5, 1\nB", 2, None, "B"),
])
def test_ratings_are_read_or_unknown(text, n, ratings, rest):
    assert read_ratings(text, n) == (ratings, rest)


@given(st.text(max_size=200), st.integers(1, 6))
def test_reading_ratings_never_fails(text, n):
    ratings, _ = read_ratings("Scores: " + text, n)
    assert ratings is None or (len(ratings) == n and sum(ratings) == pytest.approx(1))


@pytest.mark.parametrize("settings, words", [
    ({"layers": 0}, "layers"), ({"keep": 0}, "keep"), ({"agents": ["x"]}, "unknown agent"),
])
def test_wrong_settings_are_one_line(settings, words):
    with pytest.raises(UserError, match=words):
        build_method("dylan", echo_pool(), **settings)


def test_a_lone_agent_that_goes_on_rereads_its_reply_and_rates_nothing():
    spy = Spy()
    pool = echo_pool(spy.reply)
    with spy.watching():
        [result] = build_method("dylan", pool, keep=1)(questions(1))
    last = [request for request, _ in spy.asked if request.purpose == "pass" and request.round == 2]
    text = "".join(message.text for message in last[0].messages)
    assert len(last) == 1 and "0 replies" not in text and "Read your reply again" in text
    rating = [stage for stage in result.trace["stages"] if stage["stage"] == "rating"][-1]
    assert rating["weights"] == [[rating["weights"][0][0]] * 2 + [1.0]] and rating["unparsed"] == 0


def test_rankings_that_cannot_be_read_cost_twenty_six_calls_at_most():
    spy = Spy()
    say = lambda chat: "hm" if "Which 2 of these replies" in chat.text else spy.reply(chat)  # noqa: E731
    with spy.watching():
        [result] = build_method("dylan", echo_pool(say))(questions(1))
    assert len(result.calls) == 26
    with Spy().watching() as spy:
        [result] = build_method("dylan", echo_pool(spy.reply))(questions(1))
    assert len(result.calls) == 17
