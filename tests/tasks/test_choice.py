"""A letter is read where a reply settles for one, and nowhere else."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.tasks import ChoiceReader, read_choice

QUICK = settings(derandomize=True, deadline=None, max_examples=300)
LETTERS = "ABCDEFGHIJ"
LEADS = [
    "",
    "A perfect day. ",
    "(A) is wrong, (B) is wrong. ",
    "Let me think. As an AI, I like it.\n",
    "<think>The answer is (A)</think>",
    "I do not think the answer is C. ",
    "Answer seems to be A at first.\n",
    "A) one\nB) two\nC) three\n",
]
PHRASES = [
    "The answer is {}.",
    "So the answer is {}",
    "Answer: {}",
    "**Answer:** {}",
    "The correct answer is: {}",
    "ANSWER: {}",
    "The correct option is {}.",
    "The best answer is option {}",
    "My choice: {}",
    "The answer is {} because I checked it.",
    "The answer is definitely {}!",
    "The answer should be {}",
    "Final answer: {}\n",
    '{{"answer": "{}"}}',
    "{{'answer': '{}'}}",
    '{{"reasoning": "A is tempting", "answer": "{}", "confidence_level": "0.8"}}',
    "The answer is {}, I think.",
    "$\\boxed{{{}}}$",
    "\\boxed{{\\text{{{}}}}}",
    "The final answer is $\\boxed{{{}}}$. I hope it is correct.",
    "Answer = {}",
]
CHOSEN = [
    "I choose {}.",
    "I'd go with {}.",
    "I think it is option {}",
    "I believe it's {}.",
    "Therefore, {}.",
    "Option {} is correct.",
    "It must be {}.",
]
FORMS = ["{}", "({})", "[{}]", "**{}**", "{})", "`{}`"]
TAILS = ["", "\n", "\n\nQuestion: next?\nAnswer: A", "\nThank you."]


@QUICK
@given(
    st.sampled_from(LETTERS),
    st.sampled_from(LEADS),
    st.sampled_from(PHRASES),
    st.sampled_from(FORMS),
    st.sampled_from(TAILS),
)
def test_what_the_reply_calls_its_answer_is_read(letter, lead, phrase, form, tail):
    if letter == "I" and form in ("{}", "**{}**", "`{}`") and "{}, I" in phrase:
        return  # "The answer is I, I think" may be a stutter
    text = lead + phrase.format(form.format(letter)) + tail
    assert read_choice(text, 10) == letter
    n = LETTERS.index(letter)
    if n >= 2:
        assert read_choice(text, n) is None, "a letter beyond the options is no answer"


@QUICK
@given(st.sampled_from(LETTERS), st.sampled_from(LEADS[:5]), st.sampled_from(CHOSEN), st.sampled_from(FORMS[:4]))
def test_what_the_reply_chooses_is_read(letter, lead, phrase, form):
    assert read_choice(lead + phrase.format(form.format(letter)), 10) == letter


@QUICK
@given(
    st.sampled_from(LETTERS),
    st.sampled_from(
        [
            "{}",
            "({})",
            "**{}**",
            "{}.",
            "{})",
            "({}) Paris",
            "{}) Paris",
            "{}. Paris",
            "{}\n\nIt is the capital.",
            "It is the capital.\n{}",
            "{}. Paris\nIt is.",
        ]
    ),
)
def test_a_line_that_is_an_option_is_read(letter, form):
    assert read_choice(form.format(letter), 10) == letter


@QUICK
@given(
    st.sampled_from(LETTERS),
    st.sampled_from(LETTERS),
    st.sampled_from(
        ["{} or {}", "({}) or ({})", "{} and {}", "({}), ({})", "{} / {}", "either {} or {}", "both {} and {}"]
    ),
)
def test_two_letters_are_no_answer(one, other, joined):
    if one != other:
        assert read_choice(f"The answer is {joined.format(one, other)}", 10) is None


@QUICK
@given(
    st.sampled_from(LETTERS),
    st.sampled_from(
        [
            "The answer is not {}.",
            "I do not think the answer is {}",
            "If the answer is {}, then 2.",
            "Is the answer {}?",
            "I don't think {} is correct.",
            "The answer could be {}",
            "Neither {} nor X is correct",
            "So ({}) is wrong.",
            "({}) is tempting",
            "({}) or (X)",
            "Option {} is not correct",
            "<think>The answer is {}",
        ]
    ),
)
def test_what_is_denied_or_supposed_is_no_answer(letter, phrase):
    assert read_choice(phrase.format(letter), 10) is None


@pytest.mark.parametrize(
    "text",
    [
        "The answer is a car",
        "The answer is A car",
        "The answer is B cells",
        "It is A perfect day",
        "I think",
        "",
        "I cannot determine the answer.",
        "Answer: As an AI I cannot",
        "A) x\nB) y\nC) z",
        "a is correct",
        "(A) is correct and (B) is correct",
        "Answer: (ii)",
        "The answer is X-rays",
        "12",
    ],
)
def test_a_letter_that_is_a_word_is_no_answer(text):
    assert read_choice(text, 10) is None


@QUICK
@given(st.text(alphabet="ABCDabcdi ().:,\n*'answer is the option correct", max_size=120), st.integers(2, 26))
def test_whatever_is_read_is_an_option(text, n):
    assert read_choice(text, n) in (None, *"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:n])


@pytest.mark.parametrize(
    "piece", ["answer ", "the answer is ", "answer: A or ", "(", "so ", "I think ", "A is ", "A) \n", "I'd go with "]
)
def test_reading_a_rambling_reply_is_quick(piece):
    start = time.monotonic()
    read_choice(piece * 20_000, 4)
    assert time.monotonic() - start < 2


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ('{"answer": "B", "reasoning": "the answer is A at first"}', "B"),
        ("Answer: A\nSo the answer is B or C", None),
        ("Correct Answer - C", "C"),
        ("Answer B", "B"),
        ("option (d)", "D"),
        ("The answer is B and here is why", "B"),
        ("The answer is (C) both A and B", "C"),
        ("Answer: None of the above", None),
        ("The answer is not A but B", None),
    ],
)
def test_usual_spellings(text, letter):
    assert read_choice(text, 4) == letter


def test_the_reader_knows_how_many_options_there_are():
    assert ChoiceReader(4).read("The answer is (E).") is None and ChoiceReader(5).read("The answer is (E).") == "E"
    assert ChoiceReader(4).equal("B", "B") and not ChoiceReader(4).equal("B", "C")
