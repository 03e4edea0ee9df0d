"""Debates: who hears whom in each round, what agents remember, and when a question stops costing."""

from __future__ import annotations

from collections import Counter

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.topology.graphs import graph_names
from tests.worlds import DOMAINS, Spy, echo_pool, questions

DEBATES = ["mad", "sparse_mad", "ring_mad", "small_world", "random_nodup", "stage_switching", "random_switching",
           "uncertainty_guided"]


def rounds(result):
    """The (sender, receiver) pairs of each round of talking."""
    return [{(s, r) for s, r, _ in stage["edges"]} for stage in result.trace["stages"] if stage["stage"] == "pass"]


def counter():
    """Agents whose answers differ until the third round, then agree: by how often the model was asked."""
    seen = Counter()

    def say(chat):
        seen[chat.text.split("?")[0]] += 1
        asked = seen[chat.text.split("?")[0]]
        return f"I say {'same' if asked > 12 else asked}"

    return say


@pytest.mark.parametrize("name", DEBATES)
def test_every_agent_answers_in_every_round(name):
    [result] = build_method(name, echo_pool(), n=5, rounds=3)(questions(1))
    assert Counter(call.purpose for call in result.calls) == {"answer": 5, "pass": 10} and result.depth == 3
    [alone] = build_method(name, echo_pool(), n=None, rounds=2)(questions(1))
    assert sorted(call.agent for call in alone.calls) == sorted(2 * DOMAINS)


@pytest.mark.parametrize("name", DEBATES)
def test_one_round_is_a_vote_prompt_for_prompt(name):
    def prompts(*args, **settings):
        spy = Spy()
        method = build_method(*args, echo_pool(spy.reply), **settings)
        with spy.watching():
            [result] = method(questions(1))
        return [r.messages for r, _ in spy.asked], result.answer

    assert prompts(name, n=6, rounds=1) == prompts("self_consistency", n=6)


@pytest.mark.parametrize("name, in_degree", [
    ("mad", 5), ("ring_mad", 2), ("small_world", 2), ("random_nodup", 2), ("stage_switching", 2),
    ("random_switching", 2), ("uncertainty_guided", 2), ("sparse_mad", 2),
])
def test_every_receiver_hears_as_many_peers(name, in_degree):
    [result] = build_method(name, echo_pool(), n=6, rounds=6)(questions(1))
    for edges in rounds(result):
        assert Counter(receiver for _, receiver in edges) == dict.fromkeys(range(6), in_degree)
        assert all(sender != receiver for sender, receiver in edges)


def test_who_is_heard_changes_or_stays_as_the_rule_says():
    def different(name, **settings):
        [result] = build_method(name, echo_pool(), n=8, rounds=9, **settings)(questions(1))
        return len(set(map(frozenset, rounds(result))))

    assert different("ring_mad") == different("sparse_mad", graph="random_regular") == different("mad") == 1
    assert different("random_nodup") > 6 and different("small_world") > 6 and different("uncertainty_guided") > 6
    assert 3 <= different("stage_switching") <= 4 and different("random_switching") > 2


def test_ring_neighbours_are_those_listed_beside_an_agent():
    order = ["law", "general", "code", "finance", "math", "biomedical"]
    [result] = build_method("ring_mad", echo_pool(names=order), n=None, rounds=2)(questions(1))
    named = {(result.trace["agents"][s], result.trace["agents"][r]) for s, r in rounds(result)[0]}
    assert named == {(order[(i + d) % 6], order[i]) for i in range(6) for d in (-1, 1)}


def test_random_peers_do_not_depend_on_the_listing():
    def named(order):
        [result] = build_method("random_nodup", echo_pool(names=order), n=None, rounds=4)(questions(1))
        return [{(result.trace["agents"][s], result.trace["agents"][r]) for s, r in e} for e in rounds(result)]

    assert named(list(DOMAINS)) == named(list(DOMAINS)[::-1])


def test_an_agent_with_history_keeps_its_whole_chat_and_one_without_only_the_latest():
    def last_chat(**settings):
        pool = echo_pool(lambda chat: f"I say {len(chat.messages)}")
        build_method("mad", pool, rounds=4, **settings)(questions(1))
        return pool.meta.model.chats[-1]

    chat = last_chat()
    assert [m.role for m in chat.messages] == ["user", "assistant"] * 3 + ["user"]
    assert [m.text for m in chat.messages if m.role == "assistant"] == ["I say 1", "I say 3", "I say 5"]
    assert sorted(chat.senders) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert all(m.text.count("I say") == 2 for m in chat.messages[2::2])
    assert "What is 0 and 0?" in chat.messages[0].text
    assert sorted(last_chat(history=False).senders) == [0, 1, 2]


def test_history_that_does_not_fit_is_forgotten_from_its_oldest_turn_on():
    pool = echo_pool(lambda chat: "word " * 20 + "x", context_length=240)
    [result] = build_method("mad", pool, rounds=6)(questions(1))
    chat = pool.meta.model.chats[-1]
    assert "What is 0 and 0?" in chat.messages[0].text and chat.messages[-1].role == "user"
    assert sorted(chat.messages[-1].spans[i].sender for i in range(len(chat.messages[-1].spans))
                  if chat.messages[-1].spans[i].sender is not None) == [0, 1]
    assert [s["turns"] for s in result.trace["stages"] if s["stage"] == "forgotten"]
    assert not any(call.error for call in result.calls)


def test_an_agent_that_never_answered_is_prompted_without_a_history():
    said = iter([None, "a", "b"] + ["c"] * 6)
    pool = echo_pool(said)
    [result] = build_method("mad", pool, rounds=3)(questions(1))
    assert [len(c.messages) for c in pool.meta.model.chats] == [1, 1, 1, 1, 3, 3, 3, 5, 5]
    assert result.answer == "c"


def test_a_question_that_stops_leaves_the_batch_and_costs_nothing():
    pool = echo_pool(lambda chat: "yes" if "What is 0" in chat.text else f"I say {len(chat.senders)}{id(chat)}")
    first, second = build_method("random_nodup", pool, n=4, rounds=5, stop="unanimity")(questions(2))
    assert len(first.calls) == 4 and first.answer == "yes" and len(second.calls) == 20
    assert pool.meta.model.batches == [8, 4, 4, 4, 4]


def test_a_run_ends_when_the_last_question_stops():
    pool = echo_pool(counter())
    [result] = build_method("mad", pool, n=6, rounds=9, stop="unanimity", history=False)(questions(1))
    assert len(result.calls) == 18 and result.answer == "same"


def test_majority_stability_counts_rounds_of_talking():
    [result] = build_method("ring_mad", echo_pool(), stop="stable:2")(questions(1))
    assert len(result.calls) == 3 * 8


@pytest.mark.parametrize("name, settings, words", [
    ("ring_mad", {"k": 8}, "ring_mad: k = 8"), ("random_nodup", {"k": 0}, "random_nodup: k must be"),
    ("mad", {"rounds": 0}, "rounds"), ("mad", {"stop": "often"}, "unknown rule"),
    ("mad", {"n": None, "agent": "law"}, "goes with n"), ("mad", {"agent": "nobody"}, "unknown agent"),
    ("sparse_mad", {"graph": "cube"}, "unknown graph"), ("stage_switching", {"late": "mesh"}, "late = 'mesh'"),
    ("sparse_mad", {"graph": "random_regular", "k": 3, "n": 5}, "N x k even"),
    ("random_switching", {"rules": []}, "rules"),
    ("random_switching", {"rules": "ring"}, "list"), ("uncertainty_guided", {"temperature": 0}, "temperature"),
    ("uncertainty_guided", {"source": "stars"}, "source"),
])
def test_wrong_settings_are_one_line(name, settings, words):
    with pytest.raises(UserError) as error:
        build_method(name, echo_pool(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("graph", graph_names())
def test_sparse_debates_run_over_any_graph(graph):
    [result] = build_method("sparse_mad", echo_pool(), graph=graph, n=6)(questions(1))
    pairs = rounds(result)[0]
    assert {(r, s) for s, r in pairs} == pairs and result.answer == "x"
    if graph == "erdos_renyi":
        assert len(pairs) == 2 * round(0.4 * 15)


def test_a_small_world_is_drawn_once_and_everybody_hears_k_peers():
    [result] = build_method("sparse_mad", echo_pool(), graph="small_world", k=3, rounds=4)(questions(1))
    first, *others = rounds(result)
    assert Counter(receiver for _, receiver in first) == dict.fromkeys(range(6), 3) and others == [first, first]
    assert {((i - 1) % 6, i) for i in range(6)} <= first and any((r, s) not in first for s, r in first)
    with pytest.raises(UserError, match="k = 6"):
        build_method("sparse_mad", echo_pool(), graph="small_world", k=6)


def test_who_is_alone_rereads_its_own_reply_and_nobody_elses():
    method = build_method("sparse_mad", echo_pool(), graph="alone", n=None, rounds=3)
    [result] = method(questions(1))
    assert result.usage.calls == 3 * len(method.pool)
    assert {(s, r) for pairs in rounds(result) for s, r in pairs} == {(i, i) for i in range(len(method.pool))}


@pytest.mark.parametrize("name, settings", [("sparse_mad", {"graph": "erdos_renyi", "n": None}),
                                            ("sparse_mad", {"graph": "random_regular", "n": None}),
                                            ("macnet", {"graph": "random", "n": None})])
def test_random_graphs_do_not_depend_on_the_listing(name, settings):
    def edges(names):
        pool = echo_pool(lambda chat: f"I say {len(chat.senders)}", names=names)
        [result] = build_method(name, pool, **settings)(questions(1))
        return [stage["edges"] for stage in result.trace["stages"] if stage["stage"] == "pass"]

    assert edges(None) == edges(sorted(DOMAINS)) == edges(sorted(DOMAINS, reverse=True))
