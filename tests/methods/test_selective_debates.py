"""Debates that choose what is heard or how votes count: S2-MAD, ARMOR-MAD, ReConcile, GroupDebate; and a vote that
costs as much."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from goa_torch.agents.base import Agent
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.nn.confidence import recalibrated, stated_confidence
from goa_torch.nn.trust import tfidf_similarity
from goa_torch.types import Card, Reply
from tests.methods.test_macnet import DrawSpy
from tests.worlds import DOMAINS, Spy, echo_pool, questions

NAMES = sorted(DOMAINS)  # nodes 0 .. 5


def stages(result, name):
    return [stage for stage in result.trace["stages"] if stage["stage"] == name]


def edges(stage):
    return {(s, r) for s, r, _ in stage["edges"]}


def first(answers, later="agreed", confidence=None):
    """Agents give ``answers`` by the order of their names, and ``later`` once they heard somebody."""
    def say(chat):
        name = next((n for n in NAMES if f"You are {n}." in chat.text), "general")
        answer = answers[NAMES.index(name)]
        if isinstance(answer, Reply) or answer is None:
            return answer
        stated = f"Confidence: {confidence[NAMES.index(name)]}\n" if confidence else ""
        return f"{stated}I say {answer if not chat.senders or later is None else later}"

    return say


# --------------------------------------------------------------------------- S2-MAD


def test_only_other_answers_are_heard_one_peer_each():
    [result] = build_method("s2_mad", echo_pool(first("aabbbc")), n=None)(questions(1))
    [stage] = stages(result, "pass")
    heard = {0: {2, 5}, 1: {2, 5}, 2: {0, 5}, 3: {0, 5}, 4: {0, 5}, 5: {0, 2}}
    assert edges(stage) == {(s, r) for r, senders in heard.items() for s in senders}
    assert len(result.calls) == 12 and result.answer == "agreed"


def test_unanimity_costs_no_debate():
    [result] = build_method("s2_mad", echo_pool())(questions(1))
    assert len(result.calls) == 6 and not stages(result, "pass")


def test_who_gave_no_answer_is_not_heard_but_hears():
    cut = Reply("cut off", "length")
    pool = echo_pool(first(["a", "a", cut, "a", "a", "a"]))
    [result] = build_method("s2_mad", pool, n=None, rounds=2)(questions(1))
    assert edges(stages(result, "pass")[0]) == {(0, 2)}
    assert Counter(c.purpose for c in result.calls)["pass"] == 1


def test_a_debate_without_any_answer_ends():
    [result] = build_method("s2_mad", echo_pool(lambda chat: Reply("cut off", "length")))(questions(1))
    assert len(result.calls) == 6 and result.answer is None


# --------------------------------------------------------------------------- ARMOR-MAD


def test_the_gate_skips_the_debate_and_only_before_it():
    gated = build_method("armor_mad", echo_pool(first("aaaaab")))(questions(1))[0]
    assert len(gated.calls) == 6 and gated.answer == "a"
    [debated] = build_method("armor_mad", echo_pool(first("aaabbb")))(questions(1))
    assert len(debated.calls) == 12 and debated.answer == "agreed"  # unanimous after one round
    [half] = build_method("armor_mad", echo_pool(first("aaaaab", later=None)), gate=0.9)(questions(1))
    assert len(half.calls) == 18


def test_a_cluster_with_more_trust_beats_one_with_more_heads_that_talk_of_something_else():
    alike = "the sum of three and four is seven"
    said = [f"{alike} a", f"{alike} a", f"{alike} a", "xyzzy plugh b", "quux frotz b", "blorb rezrov b"]
    replies = dict(zip(NAMES, said))

    def say(chat):
        return next(text for name, text in replies.items() if f"You are {name}." in chat.text)

    [result] = build_method("armor_mad", echo_pool(say), rounds=1)(questions(1))
    assert result.answer == "a" and stages(result, "readout")[0]["by"] == "trust"
    weights = {node: weight for node, weight in stages(result, "readout")[0]["edges"]}
    assert min(weights[v] for v in range(3)) > max(weights[v] for v in range(3, 6))


def test_an_outlier_counts_nothing():
    replies = dict(zip(NAMES, ["one two x"] * 5 + ["completely unrelated words here b"]))
    pool = echo_pool(lambda chat: next(t for n, t in replies.items() if f"You are {n}." in chat.text))
    [result] = build_method("armor_mad", pool, rounds=1)(questions(1))
    assert dict(map(tuple, stages(result, "readout")[0]["edges"]))[5] == 0


def test_tfidf_is_that_of_the_textbook():
    similarity = tfidf_similarity(["a b", "a b", "c", ""])
    assert similarity[0, 1] == pytest.approx(1) and similarity[0, 2] == 0 and not similarity[3].any()
    # idf = ln(5/3) + 1 for a word of two texts, ln(5/2) + 1 for one of one
    common, rare = 1.5108256, 1.9162907
    expected = common**2 / (common**2 + rare**2)
    assert tfidf_similarity(["a b", "a c", "", ""])[0, 1] == pytest.approx(expected, abs=1e-6)
    assert tfidf_similarity([]).shape == (0, 0)
    assert torch.allclose(similarity, similarity.t())


# --------------------------------------------------------------------------- ReConcile


def test_replies_are_shown_grouped_by_answer_the_largest_group_first():
    pool = echo_pool(first("abbbcc", later=None))
    build_method("reconcile", pool, rounds=2)(questions(1))
    chat = pool.meta.model.chats[6]  # node 0, which says a, hears 1 .. 5
    assert chat.senders == [1, 2, 3, 4, 5, 0]
    order = [chat.text.index(words) for words in ("3 agents answer b:", "2 agents answer c:", "Your own reply so far")]
    assert order == sorted(order)
    assert all('begins with "Confidence:"' in c.text for c in pool.meta.model.chats)


def test_who_gave_no_answer_is_shown_last():
    pool = echo_pool(first(["a", Reply("cut off", "length"), "b", "b", "b", "b"], later=None))
    build_method("reconcile", pool, rounds=2)(questions(1))
    assert pool.meta.model.chats[6].senders == [2, 3, 4, 5, 1, 0]
    assert "1 agent gives no clear answer:\ncut off" in pool.meta.model.chats[6].text


def test_one_sure_agent_outvotes_several_unsure_ones():
    say = first("aabbbc", later=None, confidence=[0.95, 0.9, 0.5, 0.5, 0.7, 0.3])
    [result] = build_method("reconcile", echo_pool(say), rounds=1)(questions(1))
    assert result.answer == "a"
    assert dict(map(tuple, stages(result, "readout")[0]["edges"])) == pytest.approx(
        {0: 0.8, 1: 0.8, 2: 0.1, 3: 0.1, 4: 0.3, 5: 0.1})


@pytest.mark.parametrize("stated, weight", [
    (1.0, 1.0), (0.99, 0.8), (0.9, 0.8), (0.85, 0.5), (0.8, 0.5), (0.7, 0.3), (0.6, 0.1), (0.0, 0.1), (None, 0.1),
])
def test_confidence_is_recalibrated(stated, weight):
    assert recalibrated(stated) == weight


def test_the_round_table_stops_when_all_agree():
    [result] = build_method("reconcile", echo_pool(first("aabbcc")))(questions(1))
    assert len(result.calls) == 12 and result.answer == "agreed"
    [never] = build_method("reconcile", echo_pool(first("aabbcc", later=None)))(questions(1))
    assert len(never.calls) == 24 and never.depth == 4


# --------------------------------------------------------------------------- GroupDebate


def test_groups_talk_among_themselves_and_read_summaries_between_stages():
    spy = DrawSpy()
    pool = echo_pool(spy.reply)
    method = build_method("groupdebate", pool, n=None)
    with spy.watching():
        [result] = method(questions(1))
    within = {(s, r) for g in (DOMAINS[:3], DOMAINS[3:]) for s in g for r in g if s != r}
    names = result.trace["agents"]
    first_, crossing, last = stages(result, "pass")
    for stage in (first_, last):
        assert {(names[s], names[r]) for s, r in edges(stage)} == within
    assert [sorted(names[v] for v in s["nodes"]) for s in stages(result, "summary")] == [sorted(DOMAINS[:3]),
                                                                                         sorted(DOMAINS[3:])]
    summaries = {s["group"]: s["text"] for s in stages(result, "summary")}
    latest = {reply["node"]: reply["text"] for reply in first_["replies"]}
    for request, _ in spy.asked:
        text = "".join(m.text for m in request.messages)
        if request.round == 2 and not request.draw:  # reads the other group's summary and itself, nobody else
            node = names.index(request.agent.name)
            mine = request.agent.name in DOMAINS[3:]
            assert summaries[1 - mine] in text and summaries[mine] not in text
            assert [v for v, words in latest.items() if words in text] == [node]
        elif request.draw:
            members = DOMAINS[3:] if request.draw == 2 else DOMAINS[:3]
            assert {names[v] for v, words in latest.items() if words in text} == set(members)


def test_calls_and_depth_of_groups():
    [result] = build_method("groupdebate", echo_pool())(questions(1))
    assert len(result.calls) == 6 * 2 * 2 + 2 and result.depth == 5
    [more] = build_method("groupdebate", echo_pool(), groups=3, stages=3, rounds=1)(questions(1))
    assert len(more.calls) == 6 * 3 + 3 * 2 and more.depth == 5


def test_a_summary_that_failed_is_not_heard():
    def say(chat):
        return None if "Summarise" in chat.text else "I say x"

    [result] = build_method("groupdebate", echo_pool(say))(questions(1))
    assert len(stages(result, "summary")) == 2 and result.answer == "x"
    assert Counter(c.purpose for c in result.calls) == {"answer": 6, "pass": 6 + 2 + 6}


# --------------------------------------------------------------------------- vote at equal tokens


def test_the_budget_is_spent_and_not_exceeded():
    [result] = build_method("vote_tokens", echo_pool(), tokens=1000)(questions(1))
    one = result.usage.tokens / len(result.calls)
    assert 1000 - one < result.usage.tokens <= 1000
    each = Counter(call.agent for call in result.calls)
    assert len(each) == 6 and max(each.values()) - min(each.values()) <= 1


def test_every_agent_answers_once_whatever_it_costs_and_at_most_so_often():
    [poor] = build_method("vote_tokens", echo_pool(), tokens=1)(questions(1))
    assert len(poor.calls) == 6 and poor.answer == "x"
    [rich] = build_method("vote_tokens", echo_pool(), tokens=10**6, most=3)(questions(1))
    assert Counter(call.agent for call in rich.calls) == dict.fromkeys(DOMAINS, 3)


def test_its_answers_are_those_of_a_vote_with_as_many_samples():
    def transcript(*args, **settings):
        spy = Spy()
        method = build_method(args[0], echo_pool(spy.reply), **settings)
        with spy.watching():
            [result] = method(questions(1))
        return sorted(Spy.tag(r) for r, _ in spy.asked), result.trace["agents"], stages(result, "answer")

    assert transcript("vote_tokens", tokens=10**6, most=3) == transcript("vote", samples=3)
    assert transcript("vote_tokens", tokens=10**6, most=3, n=2) == transcript("self_consistency", n=6)


def test_each_question_has_its_own_budget():
    pool = echo_pool(lambda chat: "long " * 30 + "x" if "What is 0" in chat.text else "x")
    dear, cheap = build_method("vote_tokens", pool, tokens=900)(questions(2))
    assert len(dear.calls) < len(cheap.calls) and dear.usage.tokens <= 900 >= cheap.usage.tokens


@pytest.mark.parametrize("name, settings, words", [
    ("armor_mad", {"gate": 1.2}, "gate"), ("armor_mad", {"outlier": -1}, "outlier"), ("s2_mad", {"n": 0}, "n must"),
    ("groupdebate", {"groups": 7}, "groups = 7"), ("groupdebate", {"stages": 0}, "stages"),
    ("vote_tokens", {"tokens": 0}, "tokens"), ("vote_tokens", {"most": 1.5}, "most"),
    ("reconcile", {"rounds": 0}, "rounds"),
])
def test_wrong_settings_are_one_line(name, settings, words):
    with pytest.raises(UserError) as error:
        build_method(name, echo_pool(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_trust_is_worked_out_once_for_each_question(monkeypatch):
    from goa_torch.nn import trust as module

    asked = []
    trust = module.trust
    monkeypatch.setattr(module, "trust", lambda state, question, outlier: asked.append(question) or trust(
        state, question, outlier))
    build_method("armor_mad", echo_pool(lambda chat: "I say x"))(questions(3))
    assert asked == [0, 1, 2]


@pytest.mark.parametrize("text, level", [("Confidence: -0.5", None), ("confidence is - 0.5", 0.5),
                                         ("confidence: .5", 0.5)])
def test_a_negative_confidence_is_none(text, level):
    assert stated_confidence(text) == level


@pytest.mark.parametrize("room, heard", [(70, 0), (110, 1), (400, 2)])
def test_a_group_none_of_whose_replies_fit_is_neither_summarised_nor_heard(room, heard):
    pool = echo_pool(lambda chat: "word " * 40)
    meta = Agent("writer", EchoModel(lambda chat: "summary", context_length=64 + room), Card("writer"))
    pool = Pool(pool.agents, pool.prompts, meta, pool.sampling)
    [result] = build_method("groupdebate", pool, n=None, groups=3, rounds=1)(questions(1))
    summaries = [stage for stage in result.trace["stages"] if stage["stage"] == "summary"]
    assert [len(stage["nodes"]) for stage in summaries] == [heard] * 3
    assert [len(stage["cut"]) for stage in summaries] == [2 - heard] * 3
    assert len(meta.model.chats) == (3 if heard else 0)
    edges = [edge for stage in result.trace["stages"] if stage["stage"] == "pass" for edge in stage["edges"]]
    assert len(edges) == (6 * 4 if heard else 0)
