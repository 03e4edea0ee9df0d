from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.agents.calls import Recorder
from goa_torch.methods import build_method
from goa_torch.nn.agent_conv import first_answers
from goa_torch.nn.edges import complete_edges
from goa_torch.nn.scoring import Scoring, relevance_from_scores, sampled_pairs
from goa_torch.nn.selection import Copies, Everyone
from tests.worlds import DOMAINS, echo_pool, questions, say_by_purpose


def scored(outputs, n=3, **settings):
    pool = echo_pool(outputs, n=n)
    asked = questions(2)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    Scoring(**settings)(state)
    return state


def test_nobody_judges_itself_and_everybody_judges_all_others():
    state = scored(say_by_purpose, n=4)
    chats = state.pool.meta.model.chats[8:]
    assert [sorted(chat.senders) for chat in chats] == [[w for w in range(4) if w != v] for v in range(4)] + [
        [w for w in range(4, 8) if w != v] for v in range(4, 8)]


def test_a_judge_that_cannot_be_read_is_left_out_and_counted():
    def say(chat):
        return "dunno" if "numbers between" in chat.text and "You are code" in chat.text else say_by_purpose(chat)

    state = scored(say)
    score = state.traces[0]["stages"][-1]
    assert score["unparsed"] == 1 and score["matrix"][0] == [None] * 3  # code comes first
    assert score["relevance"] == pytest.approx([1.0, 0.5, 0.5])


def test_a_second_try_is_another_draw_and_asks_only_who_failed():
    tried = []

    def say(chat):
        if "numbers between" in chat.text:
            tried.append(chat)
            return "dunno" if len(tried) <= 6 else say_by_purpose(chat)
        return say_by_purpose(chat)

    state = scored(say, tries=3)
    assert len(tried) == 12 and len({chat.stream for chat in tried}) == 12
    assert state.relevance.tolist() == pytest.approx([1.0] * 6)


def test_with_two_agents_each_gives_the_other_one():
    assert scored(say_by_purpose, n=2).relevance.tolist() == [1.0] * 4


def test_a_lone_agent_is_relevant_without_a_judge():
    state = scored(say_by_purpose, n=1)
    assert state.relevance.tolist() == [1.0, 1.0] and state.kept.all()
    assert not [c for c in state.recorder.calls[0] if c.purpose == "score"]


@given(st.integers(2, 6), st.randoms(use_true_random=False), st.sampled_from(["paper", "released"]))
def test_relevance_does_not_depend_on_the_order_of_scores(n, random, mode):
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    scores = [random.uniform(0.1, 1) for _ in pairs]
    batch = torch.zeros(n, dtype=torch.long)

    def relevance(order):
        judge, judged = (torch.tensor([pairs[p][e] for p in order]) for e in (0, 1))
        return relevance_from_scores(judge, judged, torch.tensor([scores[p] for p in order]), batch, mode)

    order = list(range(len(pairs)))
    shuffled = order[:]
    random.shuffle(shuffled)
    assert torch.allclose(relevance(order), relevance(shuffled), atol=1e-6)
    if mode == "released":
        assert relevance(order).sum() == pytest.approx(1)


@pytest.mark.parametrize("mode", ["paper", "released"])
def test_no_score_at_all_is_relevance_zero_with_finite_gradients(mode):
    none = torch.zeros(0, dtype=torch.long)
    score = torch.zeros(0, requires_grad=True)
    relevance = relevance_from_scores(none, none, score, torch.tensor([0, 0, 1]), mode)
    assert relevance.tolist() == [0, 0, 0]
    zero = torch.zeros(2, requires_grad=True)
    relevance_from_scores(torch.tensor([0, 1]), torch.tensor([1, 0]), zero, torch.tensor([0, 0]), mode).sum().backward()
    assert torch.isfinite(zero.grad).all()


def judged_as(numbers, n=3):
    """Judges of three agents, who write ``numbers[name]``."""
    def say(chat):
        if "numbers between" not in chat.text:
            return say_by_purpose(chat)
        return next(said for name, said in numbers.items() if f"You are {name}." in chat.text)

    return scored(say, n=n)


def test_arithmetic_decides_no_tie():
    state = judged_as({"code": "0.3, 0.7", "general": "0.2, 0.8", "math": "0.7, 0.3"})  # code, general, math
    assert state.relevance[:3].tolist() == [0.9, 0.6, 1.5]
    state = judged_as({"code": "0.4, 0.6", "general": "0.3, 0.7", "math": "0.4, 0.6"})
    assert state.relevance[0].item() == 0.7 and state.relevance[1].item() == 1.0  # .4 + .6, not 1.0000001


def test_a_judge_that_cannot_read_all_replies_is_not_asked_and_counted():
    pool = echo_pool(lambda chat: "I say x " * 40, n=3, context_length=64 + 150)
    asked = questions(1)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    Scoring(tries=3)(state)
    score = state.traces[0]["stages"][-1]
    assert len(pool.meta.model.chats) == 3 and score["unparsed"] == 3
    assert {judge for _, judge in score["cut"]} == {0, 1, 2}


def test_tau_of_zero_drops_nobody():
    state = scored(lambda chat: "1, 0" if "numbers between" in chat.text else say_by_purpose(chat), tau=0.0)
    assert 0 in state.relevance.tolist() and state.kept.all()


@pytest.mark.parametrize("mode", ["paper", "released"])
def test_a_lone_reply_gets_one_whatever_its_judge_writes(mode):
    for number in ("0", "0.3", "1"):
        state = scored(lambda chat, n=number: n if "Write one number" in chat.text else "I say x", n=2, mode=mode)
        assert state.relevance.tolist() == ([1.0] * 4 if mode == "paper" else [0.5] * 4) and state.kept.all()
    state = scored(lambda chat: None if "Write one number" in chat.text else "I say x", n=2, mode=mode)
    assert state.traces[0]["stages"][-1]["unparsed"] == 2


@given(st.integers(1, 9), st.integers(2, 9), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_a_sample_of_pairs_is_balanced(n, pairs, seed):
    pool = echo_pool(n=1)
    asked = questions(2)
    state = Copies(n=n)(asked, pool, Recorder(asked, seed, pool.sampling))
    judged, judge = sampled_pairs(state, torch.ones(2 * n, dtype=torch.bool), pairs)
    wanted = min(pairs, n - 1)
    assert torch.bincount(judged, minlength=2 * n).tolist() == [wanted] * (2 * n)
    assert torch.bincount(judge, minlength=2 * n).tolist() == [wanted] * (2 * n)
    assert not bool((judged == judge).any()) and torch.equal(state.batch[judged], state.batch[judge])
    assert len(set(zip(judged.tolist(), judge.tolist()))) == 2 * n * wanted
    if wanted == n - 1:
        everybody = complete_edges(state.batch)
        assert set(zip(judged.tolist(), judge.tolist())) == set(zip(*everybody.tolist()))


def test_who_said_nothing_is_not_judged_in_a_sample_either_but_judges():
    def say(chat):
        return None if "You are code" in chat.text and "numbers between" not in chat.text else say_by_purpose(chat)

    state = scored(say, n=6, pairs=3)
    score = state.traces[0]["stages"][-1]
    code = sorted(DOMAINS).index("code")
    judged = [sum(row[j] is not None for row in score["matrix"]) for j in range(6)]
    assert judged[code] == 0 and score["relevance"][code] == 0 and not score["kept"][code]
    assert sum(value is not None for value in score["matrix"][code]) == 3
    assert sum(score["relevance"]) == pytest.approx(6)


def test_a_sample_of_pairs_costs_as_many_calls_and_shorter_prompts_whatever_the_listing():
    full, few = (build_method("goa", echo_pool(say_by_purpose), k=6, **how)(questions(1))[0]
                 for how in ({}, {"pairs": 2}))

    def spent(result):
        calls = [call for call in result.calls if call.purpose == "score"]
        return len(calls), sum(call.usage.prompt_tokens for call in calls)

    assert spent(full)[0] == spent(few)[0] == 6 and spent(few)[1] < spent(full)[1]
    listed = build_method("goa", echo_pool(say_by_purpose, names=list(DOMAINS[::-1])), k=6, pairs=2)(questions(1))[0]
    assert listed.trace["stages"][2] == few.trace["stages"][2]
