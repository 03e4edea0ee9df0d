"""Handoff: who is named, what it reads, and when the orchestrator is content."""

from __future__ import annotations

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from tests.worlds import echo_pool, questions

ORDER = ["biomedical", "code", "finance", "general", "law", "math"]  # as cards are shown


def directed(*choices, answer=None):
    """An orchestrator that makes ``choices``; agents say how often they were asked."""
    items = iter(choices)
    asked = []

    def say(chat):
        if "Which agent should" in chat.text:
            return next(items)
        asked.append(chat)
        return answer(len(asked)) if answer else f"reply {len(asked)}"

    return say


def named(result):
    return [stage["node"] for stage in result.trace["stages"] if stage["stage"] == "handoff"]


def test_each_agent_reads_the_latest_reply_and_its_own_earlier_one():
    pool = echo_pool(directed("5", "1", "5", "5", "6"))
    [result] = build_method("handoff", pool)(questions(1))
    assert named(result) == [5, 1, 5, 5, None]
    chats = pool.meta.model.chats
    agents, orchestrator = chats[1::2], chats[::2]
    assert [chat.senders for chat in agents] == [[], [5], [1, 5], [5]]
    assert [chat.senders for chat in orchestrator] == [[], [5], [1], [5], [5]]
    assert [call.agent for call in result.calls[1::2]] == ["math", "code", "math", "math"]
    assert result.reply.text == "reply 4" and result.depth == 9
    assert "by math" in orchestrator[1].text and "reply 1" in orchestrator[1].text


def test_at_most_so_many_turns():
    [result] = build_method("handoff", echo_pool(directed(*"012345")), turns=3)(questions(1))
    assert len(result.calls) == 6 and result.reply.text == "reply 3"


def test_a_choice_that_cannot_be_read_lets_the_latest_reply_stand_and_is_counted():
    [result] = build_method("handoff", echo_pool(directed("2", "hm")))(questions(1))
    assert result.reply.text == "reply 1" and len(result.calls) == 3
    assert [s["unparsed"] for s in result.trace["stages"] if s["stage"] == "handoff"] == [0, 1]


def test_a_first_choice_that_cannot_be_read_is_drawn():
    results = build_method("handoff", echo_pool(directed(*["hm"] * 16), n=6), turns=1)(questions(12))
    assert len({named(r)[0] for r in results}) > 1 and all(len(r.calls) == 2 for r in results)


def test_nobody_to_follow_cannot_be_final():
    [result] = build_method("handoff", echo_pool(directed("6")), turns=1)(questions(1))
    assert named(result)[0] in range(6)


def test_after_a_failure_the_next_agent_begins_afresh():
    pool = echo_pool(directed("0", "1", "2", "6", answer=lambda n: None if n == 1 else f"reply {n}"))
    [result] = build_method("handoff", pool)(questions(1))
    assert [c.senders for c in pool.meta.model.chats[1::2]] == [[], [], [1]]
    assert result.reply.text == "reply 3" and sum(call.error is not None for call in result.calls) == 1


def test_a_failed_turn_does_not_make_its_agent_the_latest_speaker():
    pool = echo_pool(directed("0", "1", "2", "6", answer=lambda n: None if n == 2 else f"reply {n}"))
    [result] = build_method("handoff", pool)(questions(1))
    assert [c.senders for c in pool.meta.model.chats[1::2]] == [[], [0], [0]] and result.reply.text == "reply 3"


def test_everybody_failing_is_a_recorded_failure():
    [result] = build_method("handoff", echo_pool(directed(*"01234", answer=lambda n: None)))(questions(1))
    assert result.reply.failed and result.answer is None


def test_finished_questions_leave_the_batch():
    def say(chat):
        if "Which agent should" not in chat.text:
            return "fine"
        return "6" if "What is 0" in chat.text and "latest reply" in chat.text else "3"

    pool = echo_pool(say)
    first, second = build_method("handoff", pool, turns=4)(questions(2))
    assert len(first.calls) == 3 and len(second.calls) == 8
    assert pool.meta.model.batches == [2, 2, 2, 1, 1, 1, 1, 1]


def test_wrong_settings_are_one_line():
    with pytest.raises(UserError, match="turns"):
        build_method("handoff", echo_pool(), turns=0)


def test_an_orchestrator_that_cannot_read_the_latest_reply_is_not_asked_and_the_reply_stands():
    pool = echo_pool(directed("5", "1", answer=lambda n: "word " * 60), context_length=64 + 130)
    pool.meta.model.context_length = 64 + 100  # cards, question and a reply of 60 words are more
    [result] = build_method("handoff", pool)(questions(1))
    first, second = [stage for stage in result.trace["stages"] if stage["stage"] == "handoff"]
    assert first["node"] == 5 and not first["cut"]
    assert second["node"] is None and second["unparsed"] == 1 and second["cut"] == [5]
    assert [call.purpose for call in result.calls] == ["select", "answer"] and result.answer == "word"


def say_by_turn(*texts):
    return directed(*"012345", answer=lambda turn: texts[turn - 1])


@pytest.mark.parametrize("until, texts, turns", [
    ("final", ["I say x"] * 4, 4), ("answered", ["?", "I say x", "I say y"], 2), ("answered", ["I say x"], 1),
    ("confirmed", ["I say x", "I say y", "I say y", "I say y"], 3), ("confirmed", ["I say x", "?", "I say x", "?"], 4),
])
def test_a_question_can_end_with_an_answer_or_one_that_is_confirmed(until, texts, turns):
    said = [text if text != "?" else "" for text in texts]
    pool = echo_pool(say_by_turn(*said))
    [result] = build_method("handoff", pool, turns=4, until=until)(questions(1))
    assert len(result.calls) == 2 * turns and result.reply.text == said[turns - 1]


def test_who_answered_at_once_costs_nothing_more_while_others_go_on():
    said = iter(["I say x", "", "I say y"])

    def say(chat):
        return "0" if "Which agent should" in chat.text else next(said)

    done, on = build_method("handoff", echo_pool(say), until="answered")(questions(2))
    assert (len(done.calls), done.answer) == (2, "x") and (len(on.calls), on.answer) == (4, "y")


def test_an_unknown_end_is_one_line():
    with pytest.raises(UserError, match="until"):
        build_method("handoff", echo_pool(), until="bored")
