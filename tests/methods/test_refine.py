"""Self-Refine and Self-MoA: one agent, its feedback, its samples."""

from __future__ import annotations

import pytest

from goa_torch.errors import UserError
from goa_torch.methods import build_method
from tests.worlds import echo_pool, questions


def spoken(feedback):
    """Says which step it is; ``feedback`` answers the feedback prompts in order."""
    items = iter(feedback)

    def say(chat):
        if "Check this reply step by step" in chat.text:
            return next(items)
        return "refined x" if "Feedback on it" in chat.text else "first x"

    return say


def test_feedback_reads_the_reply_and_the_next_reply_reads_both():
    pool = echo_pool(spoken(["mend a", "mend b"]))
    [result] = build_method("refine", pool)(questions(1))
    chats = [chat.text for chat in pool.meta.model.chats]
    assert len(chats) == 5 and result.reply.text == "refined x" and result.depth == 5
    assert "first x" in chats[1] and "first x" in chats[2] and "mend a" in chats[2]
    assert "refined x" in chats[3] and "mend a" not in chats[3]
    assert "refined x" in chats[4] and "mend b" in chats[4] and "mend a" not in chats[4]
    assert all("What is 0 and 0?" in chat for chat in chats)


def test_satisfied_feedback_ends_the_question():
    [result] = build_method("refine", echo_pool(spoken(["All is well.\nNothing to change."])))(questions(1))
    assert len(result.calls) == 2 and result.reply.text == "first x"
    critical = spoken(["I see nothing to change here, but\nadd 1", "more"])
    [told] = build_method("refine", echo_pool(critical))(questions(1))
    assert len(told.calls) == 5


def test_a_satisfied_question_leaves_the_batch():
    pool = echo_pool(lambda chat: "nothing to change" if "Check" in chat.text and "What is 0" in chat.text else "y")
    first, second = build_method("refine", pool)(questions(2))
    assert len(first.calls) == 2 and len(second.calls) == 5
    assert pool.meta.model.batches == [2, 2, 1, 1, 1]


def test_feedback_that_fails_leaves_the_reply():
    [result] = build_method("refine", echo_pool(spoken([None, "mend"])))(questions(1))
    assert result.reply.text == "refined x" and len(result.calls) == 4
    assert sum(call.error is not None for call in result.calls) == 1


def test_self_moa_is_written_by_the_agent_that_was_sampled():
    pool = echo_pool(lambda chat: f"{len(chat.senders)} x")
    [result] = build_method("self_moa", pool, agent="law", n=4)(questions(1))
    assert [(call.purpose, call.agent) for call in result.calls] == [("answer", "law")] * 4 + [("readout", "law")]
    assert pool.meta.model.chats[-1].senders == [0, 1, 2, 3]


def test_self_moa_with_more_layers_is_mixture_of_agents_of_copies():
    [result] = build_method("self_moa", echo_pool(), n=3, layers=3)(questions(1))
    assert len(result.calls) == 3 * 3 + 1 and result.depth == 4


@pytest.mark.parametrize("name, settings, words", [
    ("refine", {"rounds": -1}, "rounds"), ("refine", {"agent": "nobody"}, "unknown agent"),
    ("self_moa", {"n": 0}, "n must be"), ("self_moa", {"layers": True}, "layers"),
])
def test_wrong_settings_are_one_line(name, settings, words):
    with pytest.raises(UserError, match=words):
        build_method(name, echo_pool(), **settings)


def test_a_prompt_set_without_the_templates_is_refused_before_any_call():
    with pytest.raises(UserError, match="feedback.jinja"):
        build_method("refine", echo_pool(prompts="released"))
