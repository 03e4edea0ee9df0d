from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.reasoning import split_reasoning

PLAIN = st.text(st.characters(exclude_characters="<>"), max_size=20)
TAG = st.sampled_from(["think", "Think", "thinking", "thought", "REASONING"])


@pytest.mark.parametrize("text, visible, reasoning", [
    ("four", "four", ""),
    ("", "", ""),
    ("<think>2 + 2</think>four", "four", "2 + 2"),
    ("<think>\n\n</think>\n\nfour", "four", ""),
    ("It is <think>hm</think>four", "It is four", "hm"),
    ("<think>a</think>b<think>c</think>d", "bd", "a\n\nc"),
    ("<think>a <think>b</think> c</think>d", "d", "a <think>b</think> c"),
    ("<think>a <reasoning>b</think>c", "c", "a <reasoning>b"),
    ("<THINK>a</Think>b", "b", "a"),
    ("opened by the template</think>four", "four", "opened by the template"),
    ("4 < 5 and <thin>k", "4 < 5 and <thin>k", ""),
])
def test_what_is_thought_is_told_from_what_is_said(text, visible, reasoning):
    assert split_reasoning(text) == (visible, reasoning)


@pytest.mark.parametrize("text, reasoning", [
    ("<think>cut", "cut"), ("<think>", ""), ("<think>a<think>b</think>", "a<think>b</think>")])
def test_thinking_that_never_ends_says_nothing(text, reasoning):
    assert split_reasoning(text) == ("", reasoning)


@pytest.mark.parametrize("text, visible, reasoning", [
    ("so</think>four", "four", "so"),
    ("never closed", "", "never closed"),
    ("<think>opened twice</think>four", "four", "opened twice"),
    ("", "", ""),
])
def test_a_reply_may_begin_inside_a_tag_that_the_prompt_opened(text, visible, reasoning):
    assert split_reasoning(text, opened=True) == (visible, reasoning)


@given(PLAIN)
def test_text_without_tags_is_said(text):
    assert split_reasoning(text) == (text.strip(), "")


@given(PLAIN, PLAIN, PLAIN, TAG)
def test_one_block_anywhere_is_thought(before, thought, after, tag):
    assert split_reasoning(f"{before}<{tag}>{thought}</{tag}>{after}") == ((before + after).strip(), thought.strip())


PIECES = st.sampled_from([*"a <>/\n", "<think>", "</think>", "<reasoning>", "</reasoning>"])


@given(st.lists(PIECES).map("".join), st.booleans())
def test_any_text_is_split_and_nothing_is_made_up(text, opened):
    visible, reasoning = split_reasoning(text, opened)
    tags = text.count("reasoning")  # the letter in a tag's name may stay, if the tag is text
    assert text.count("a") - tags <= visible.count("a") + reasoning.count("a") <= text.count("a")


@given(st.lists(st.sampled_from(["x", "<think>", "</think>", "\n"])).map("".join))
def test_what_is_said_holds_no_tag(text):
    visible, _ = split_reasoning(text)
    assert "<think>" not in visible and "</think>" not in visible
