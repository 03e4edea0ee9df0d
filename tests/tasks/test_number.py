"""A number is read whatever surrounds it, and not at all where it is not clear which."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.tasks import NumberReader, read_number
from goa_torch.tasks.number import format_number

QUICK = settings(derandomize=True, deadline=None, max_examples=300)

WORKING = [
    "",
    "First 3 apples, then 4. ",
    "Step 1: 16-3-4=9. Step 2: 9*2=18.\n",
    "1. Take 5.\n2. Add 6.\n",
    "<think>99</think>",
    "In 2020 she had $5, so <<5+6=11>>11.\n",
    "If the answer is 5, it works.\n",
]
MARKED = [
    "The answer is {}.",
    "Answer: {}",
    "**Answer:** {}",
    "#### {}",
    "\\boxed{{{}}}",
    "The final answer is **{}**",
    "So the answer is: {} dollars.",
    "The answer is {} because of that.",
    '{{"answer": {}}}',
    "### Answer\n{}",
    "Therefore the answer to the question is\n\n$\\boxed{{{}}}$.",
    "The answer is x = {}.",
    "The answer is {} (not 6).",
]
UNMARKED = [
    "She has {} left",
    "It takes her {} hours in total.",
    "So that makes {}.",
    "x + 3 = {}",
    "{}",
    "He pays {} dollars",
]
NOISE = ["", "\n", " I hope this helps!", "\n\nQuestion: what about 99?\nAnswer: 98", "\nThank you.", " <think>77"]


def spellings(value: float) -> list[str]:
    """Ways to write a number that people use."""
    sign, size = ("-" if value < 0 else ""), abs(value)
    plain = f"{size:g}" if size < 1e5 and size != int(size) else f"{int(size)}" if size == int(size) else repr(size)
    grouped = (
        f"{size:,.2f}"
        if round(size, 2) == size and size != int(size)
        else f"{int(size):,}"
        if size == int(size)
        else plain
    )
    ways = [
        sign + plain,
        sign + grouped,
        f"{sign}${grouped}",
        f"{sign}{plain}%",
        sign.replace("-", "\u2212") + plain,
        f"${sign}{grouped}$",
        f"{sign}{grouped} dollars",
        f"**{sign}{plain}**",
        f"{sign}{grouped.replace(',', '{,}')}",
    ]
    if size == int(size):
        ways += [f"{sign}{plain}.00", f"{sign}{plain}.0"]
    if 0 < size < 1:
        ways.append(sign + plain.lstrip("0"))
    return ways


numbers = st.one_of(
    st.integers(-(10**7), 10**7).map(float),
    st.integers(-(10**6), 10**6).map(lambda n: n / 100),
    st.integers(-999, 999).map(lambda n: n / 1000),
)


@QUICK
@given(numbers, st.data(), st.sampled_from(WORKING), st.sampled_from(MARKED), st.sampled_from(NOISE))
def test_a_number_called_the_answer_is_read(value, data, working, phrase, noise):
    text = working + phrase.format(data.draw(st.sampled_from(spellings(value)))) + noise
    assert read_number(text) == pytest.approx(value)


@QUICK
@given(numbers, st.data(), st.sampled_from(WORKING), st.sampled_from(UNMARKED), st.sampled_from(NOISE))
def test_otherwise_the_last_number_is_read(value, data, working, phrase, noise):
    text = working + phrase.format(data.draw(st.sampled_from(spellings(value)))) + noise
    assert read_number(text) == pytest.approx(value)


@QUICK
@given(
    st.integers(-99, 99),
    st.integers(1, 99),
    st.sampled_from(["{}/{}", "{} / {}", "\\frac{{{}}}{{{}}}", "\\dfrac{{{}}}{{{}}}"]),
    st.sampled_from(MARKED),
)
def test_fractions_are_computed(above, below, way, phrase):
    assert read_number(phrase.format(way.format(above, below))) == pytest.approx(above / below)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 1e3", 1000),
        ("The answer is 1.2 \u00d7 10^3", 1200),
        ("\\boxed{1.2 \\times 10^{-3}}", 0.0012),
        ("The answer is $1.5 million.", 1.5e6),
        ("It costs $80k", 80000),
        ("The answer is 3 1/2", 3.5),
        ("3\u00bd hours", 3.5),
        ("The answer is negative 5", -5),
        ("The answer is - 5", -5),
        ("-$5", -5),
        ("- 5 apples", 5),
        ("\\boxed{12 \\text{ cm}}", 12),
        ("The answer is 3 + 4 = 7.", 7),
        ("The answer is 20 dollars (5*4=20)", 20),
        ("The difference is 5-8=-3", -3),
        ("The final answer to question 2 is 15.", 15),
        ("#### 18\nThe answer is helpful", 18),
        ("The answer is 7. Answer: 8", 8),
        ("The answer is 5 km/h", 5),
        ("The answer is 033", 33),
        ("Answer: No, 5", 5),
        ('{"answer": 18, "explanation": "the answer is 3*6 = 17"}', 18),
        ('{"answer": "1,234"}', 1234),
        ("The answer is 5 and not 6", 5),
        ("from 3x = 12, x = 4", 4),
    ],
)
def test_usual_spellings(text, value):
    assert read_number(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 3 + 4",
        "The answer is 2 hours and 30 minutes",
        "The answer is 5 or 6",
        "The answer is 5-6",
        "The answer is 5 to 6 days.",
        "The answer is x = 5 and y = 6",
        "The answer is 10:30",
        "The answer is 3:2",
        "The answer is 3,5",
        "The answer is 1.2.3",
        "The answer is 2^10",
        "The answer is \\sqrt{3}",
        "The answer is 1e999",
        "The answer is 6/0",
        "The answer is 5/6/2020",
        "The answer is $5, $6",
        "The answer is 1/2 of 10",
        "COVID-19",
        "R2D2",
        "16-3=13. The answer is unknown.",
        "So 18 left. I cannot say more.",
        "\\boxed{seven}",
        "Step 2",
        "<think>5",
        "16 - 3",
        "The answer is 7.5 \u00d7 2",
        "The answer is 2\\pi",
        "It costs 1 000 000 dollars",
        "The answer cannot be determined. 5 or 6.",
        "from 5 to 6",
    ],
)
def test_what_is_not_one_number_is_not_read(text):
    assert read_number(text) is None


@QUICK
@given(st.text(alphabet="0123456789.,-+/*=$%()eExk \n#\\{}boxedanswer is:", max_size=120))
def test_anything_is_read_or_not_but_never_breaks(text):
    value = read_number(text)
    assert value is None or abs(value) < float("inf")


@QUICK
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_canonical_spelling_is_the_same_number(value):
    assert float(format_number(value)) == value


@pytest.mark.parametrize(
    "piece", ["the answer is ", "1", "1,", "####", "\\boxed{", "- ", "3/", "a1 ", "<<", ". 5", "= 5 ", "\n"]
)
def test_reading_a_rambling_reply_is_quick(piece):
    start = time.monotonic()
    read_number(piece * 20_000)
    assert time.monotonic() - start < 2


def test_the_reader_spells_and_compares_numbers():
    reader = NumberReader()
    assert reader.read("The answer is $1,234.50") == "1234.5" and reader.read("#### 18.00") == "18"
    assert reader.equal("18", "18.0") and not reader.equal("18", "18.01") and not reader.equal("10000001", "10000002")
