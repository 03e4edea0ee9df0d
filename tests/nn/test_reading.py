"""Scores and choices are read in any usual spelling, and not at all where it is not clear."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.nn.reading import read_indices, read_scores

QUICK = settings(derandomize=True, deadline=None, max_examples=150)
LEADS = [
    "",
    "Answer: ",
    "Scores: ",
    "**Scores:** ",
    "The scores are ",
    "Here are my scores:\n",
    "Final scores:\n\n",
    "<think>1, 2, 3, 4, 5</think>\n",
    "Let me compare the 2 replies first.\n",
]
TAILS = ["", ".", "\n", " because the first one is right.", "\nThe first one is right.", "\n\nI used 7 criteria."]


def spelled(value: float, style: str) -> str:
    return {
        "plain": f"{value:.3f}",
        "short": f"{value:g}",
        "percent": f"{100 * value:.1f}%",
        "points": f"{100 * value:.1f}",
        "fraction": f"{10 * value:.2f}/10",
    }[style]


values = st.lists(st.integers(0, 1000), min_size=2, max_size=6).filter(any)
styles = st.sampled_from(["plain", "percent", "points", "fraction"])


def shares(weights):
    return [weight / sum(weights) for weight in weights]


@QUICK
@given(
    values,
    styles,
    st.sampled_from(LEADS),
    st.sampled_from(TAILS),
    st.sampled_from(["{}", "[{}]", "({})", "`{}`", "**{}**", "$[{}]$"]),
    st.sampled_from([", ", ",", "; ", " | ", "\n"]),
)
def test_lists_are_read_in_any_spelling(weights, style, lead, tail, bracket, separator):
    if separator == "\n":
        bracket, tail = "{}", "\n" if tail.startswith(" ") else tail
    text = lead + bracket.format(separator.join(spelled(w / 1000, style) for w in weights)) + tail
    scores = read_scores(text, len(weights))
    rounded = [float(spelled(w / 1000, style).rstrip("%").split("/")[0]) for w in weights]
    assert scores == (pytest.approx(shares(rounded)) if any(rounded) else None)


@QUICK
@given(
    values,
    styles,
    st.sampled_from(LEADS[:7]),
    st.randoms(use_true_random=False),
    st.sampled_from(
        [
            "Response {}: {}",
            "Reply {} = {}",
            "Agent {}: {}",
            "{}: {}",
            "- Response {}: {}",
            "Response {} ({})",
            "**Response {}:** {}",
            "Response {} (the lawyer): {}",
            "Response #{}: {}",
            "Response {} gets {}",
        ]
    ),
    st.sampled_from(["\n", ", ", "; "]),
)
def test_labelled_scores_are_sorted_by_label(weights, style, lead, random, label, separator):
    if label.startswith("-"):
        separator = "\n"
    lines = [label.format(place + 1, spelled(w / 1000, style)) for place, w in enumerate(weights)]
    random.shuffle(lines)
    rounded = [float(spelled(w / 1000, style).rstrip("%").split("/")[0]) for w in weights]
    expected = pytest.approx(shares(rounded)) if any(rounded) else None
    assert read_scores(lead + separator.join(lines), len(weights)) == expected


@QUICK
@given(values, st.sampled_from("'\""), st.booleans())
def test_dictionaries_are_read_whatever_their_keys(weights, quote, fenced):
    text = "{" + ", ".join(f"{quote}{2 * place}{quote}: {w / 1000}" for place, w in enumerate(weights)) + "}"
    text = f"```json\n{text}\n```" if fenced else text
    assert read_scores(text, len(weights)) == pytest.approx(shares(weights))


@QUICK
@given(values, st.integers(1, 7), styles)
def test_another_number_of_scores_is_no_reading(weights, n, style):
    if n != len(weights):
        text = ", ".join(spelled(w / 1000, style) for w in weights)
        assert read_scores(text, n) is None


@QUICK
@given(st.text(max_size=200), st.integers(1, 4), st.booleans())
def test_whatever_is_read_is_a_distribution(text, n, released):
    scores = read_scores(text, n, released)
    assert scores is None or (len(scores) == n and min(scores) >= 0 and math.isclose(sum(scores), 1))


@QUICK
@given(values)
def test_the_released_rule_wants_a_sum_between_point_nine_and_one(weights):
    text, total = ", ".join(f"{w / 1000:.3f}" for w in weights), sum(weights) / 1000
    scores = read_scores(text, len(weights), released=True)
    assert (scores is not None) == (0.9 < round(total, 3) <= 1)


@pytest.mark.parametrize(
    "text",
    [
        "I looked at 3, 4 replies",
        "0.7, 0.3\n0.2, 0.3, 0.5",
        "0,7; 0,3",
        "inf, 1",
        "NaN, NaN",
        "1e999, 1",
        "0.7",
        "",
        "Response 1: 16 eggs\nResponse 2: 3 eggs",
        "Response 1 is wrong about 3 apples. Response 2: 4",
        "0.7, N/A",
        "7, -3",
        "<think>0.7, 0.3",
        "<think>0.7, 0.3</think>",
        "0.7, 0.3, N/A",
        "1/0, 1",
    ],
)
def test_what_is_not_clear_is_not_read(text):
    assert read_scores(text, 2) is None


@pytest.mark.parametrize(
    "text",
    [
        "R1: 0.8, R2: 0.2",
        "A: 0.8, B: 0.2",
        "| Response 1 | 0.8 |\n| Response 2 | 0.2 |",
        "80%, 20%",
        "0.8 and 0.2",
        '{"scores": {"1": 0.8, "2": 0.2}}',
        '{"response_2": 0.2, "response_1": 0.8}',
        "1: 0.8; 2: 0.2",
        "score_1=0.8 score_2=0.2",
        "Response 1: 0.8. It is right.\nResponse 2: 0.2. It is wrong.",
        "[0.8, 0.2]\n\nResponse 1 is good because 3+4=7.",
    ],
)
def test_usual_spellings_of_scores(text):
    assert read_scores(text, 2) == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize(
    "text",
    [
        "0, 2, and 3 are the best.",
        "Agent_0, Agent_2, Agent_3",
        '"0", "2", "3"',
        "The best 3 agents are 0, 2, 3",
        "#0, #2, #3",
        "Selected agents: 0, 2, 3 (math, bio, law)",
        "0,2,3\n\nExplanation: 0 is math, 2 is bio, 3 is law",
        "0\n2\n3",
    ],
)
def test_usual_spellings_of_choices(text):
    assert read_indices(text, 6, 3) == [0, 2, 3]


def test_the_last_statement_counts():
    assert read_scores("First I thought 0.9, 0.1\nFinal: 0.6, 0.4", 2) == [0.6, 0.4]
    assert read_scores("Response 1: 0.9\nResponse 2: 0.1\nFinal: 0.6, 0.4", 2) == [0.6, 0.4]


@QUICK
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=5),
    st.sampled_from(
        [
            "{}",
            "[{}]",
            "Answer: {}",
            "Agents {}",
            "I choose agents {}.",
            '{{"agents": [{}]}}',
            "<think>9, 9</think>{}",
            "The best agents are {} because they know law.",
            "```json\n[{}]\n```",
        ]
    ),
    st.sampled_from([", ", ",", " and ", ", Agent "]),
)
def test_choices_are_read_in_any_spelling(chosen, phrase, separator):
    text = phrase.format(separator.join(map(str, chosen)))
    assert read_indices(text, 10, len(chosen)) == chosen
    assert read_indices(text, 10, len(chosen) + 1) is None
    if max(chosen) > 0:
        assert read_indices(text, max(chosen), len(chosen)) is None


@QUICK
@given(st.lists(st.integers(0, 5), min_size=2, max_size=5), st.sampled_from(["- ", "1. ", ""]))
def test_choices_are_read_from_a_list_with_reasons(chosen, bullet):
    text = "\n".join(f"{bullet}Agent {agent}: knows its field" for agent in chosen)
    assert read_indices(text, 6, len(chosen)) == chosen


@pytest.mark.parametrize("text", ["1", "Agent 1", "[1]", "The best is 1.", "Answer: 1", "Agent 1: the lawyer"])
def test_one_agent_is_chosen_by_one_number(text):
    assert read_indices(text, 6, 1) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "1.5, 2, 3",
        "-1, 2, 3",
        "Agent 0 is bad. Agent 2 and Agent 3 too.",
        "",
        "none",
        "0, 1, 2, 3",
        "0-2",
        "nan, 1, 2",
        "<think>0, 1, 2",
    ],
)
def test_a_choice_that_is_not_clear_is_not_read(text):
    assert read_indices(text, 6, 3) is None


@QUICK
@given(st.text(max_size=200), st.integers(1, 6), st.integers(1, 4))
def test_whatever_is_chosen_exists(text, n_agents, k):
    chosen = read_indices(text, n_agents, k)
    assert chosen is None or (len(chosen) == k and set(chosen) <= set(range(n_agents)))


@pytest.mark.parametrize("piece", ["1, ", "Response ", "Response 1: ", "(", "\n", " ", "0", "1:1,", "- ", "</think>"])
def test_reading_a_rambling_reply_is_quick(piece):
    start = time.monotonic()
    read_scores(piece * 50_000, 3)
    read_indices(piece * 50_000, 6, 3)
    assert time.monotonic() - start < 2
