"""Files of questions: every format is read, and what is wrong is said with file and row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.tasks import ChoiceReader, MathReader, NumberReader, TextReader, load_questions
from goa_torch.tasks.files import split_options

ROWS = [
    {"question": "Capital of France?", "gold_answer": "B", "choices": ["Rome", "Paris"], "category": "geo", "id": "q1"},
    {
        "question": "Capital of Italy?",
        "gold_answer": "Rome",
        "choices": ["Rome", "Paris"],
        "category": "geo",
        "id": "q2",
    },
]
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CSV = (
    "id,question,gold_answer,choices,category\nq1,Capital of France?,B,Rome|Paris,geo\n"
    'q2,Capital of Italy?,Rome,"[""Rome"", ""Paris""]",geo\n'
)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("q.jsonl", JSON_LINES),
        ("q.jsonl", "\ufeff" + JSON_LINES.replace("\n", "\r\n\r\n")),
        ("q.json", json.dumps(ROWS)),
        ("q.csv", CSV),
        ("q.CSV", "\ufeff" + CSV.replace("\n", "\r\n")),
    ],
)
def test_every_format_gives_the_same_questions(tmp_path, name, text):
    first, second = load_questions("file", file=write(tmp_path, name, text))
    assert (
        first.text == "Capital of France?\nA) Rome\nB) Paris" and first.gold == "B" and first.reader == ChoiceReader(2)
    )
    assert (second.id, second.gold, second.category, second.choices) == ("q2", "A", "geo", ("Rome", "Paris"))
    assert first.task == "file" and first.split == "test"


def test_cells_of_several_lines_are_one_question(tmp_path):
    path = write(tmp_path, "q.csv", 'question,gold_answer\n"two\nlines, really",4\n')
    assert [q.text for q in load_questions("file", file=path)] == ["two\nlines, really"]


@pytest.mark.parametrize(
    ("golds", "reader"),
    [
        (["4", "$1,234.50", "-3"], NumberReader()),
        (["4", "\\frac{1}{2}"], MathReader()),
        (["4", "Paris"], TextReader()),
    ],
)
def test_how_answers_are_read_follows_from_all_of_them(tmp_path, golds, reader):
    rows = [{"question": f"How much is {n}?", "gold_answer": gold} for n, gold in enumerate(golds)]
    questions = load_questions("file", file=write(tmp_path, "q.json", json.dumps(rows)))
    assert {q.reader for q in questions} == {reader}


def test_a_row_may_say_how_its_answer_is_read(tmp_path):
    rows = [{"question": "Say 4", "gold_answer": 4, "answers": "text"}, {"question": "Say 5", "gold_answer": 5}]
    questions = load_questions("file", file=write(tmp_path, "q.json", json.dumps(rows)))
    assert [q.reader for q in questions] == [TextReader(), NumberReader()] and [q.gold for q in questions] == ["4", "5"]


def test_further_columns_are_kept_as_metadata(tmp_path):
    row = {"question": "How much?", "gold_answer": "4", "depth": 3}
    assert load_questions("file", file=write(tmp_path, "q.json", json.dumps([row])))[0].metadata["depth"] == 3


GOOD = '{"question": "How much?", "gold_answer": "4"}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.jsonl", "", "q.jsonl: the file holds no questions"),
        ("q.json", " ", "q.json: the file holds no questions"),
        ("q.csv", "question,gold_answer\n", "q.csv: the file holds no questions"),
        ("q.txt", GOOD, "questions come from .jsonl, .json, .csv files"),
        ("q.jsonl", GOOD + "\n{oops}\n", "q.jsonl, line 3: not JSON"),
        ("q.json", "[1, 2", "q.json: not JSON"),
        ("q.json", GOOD, "is a list of objects; this is dict"),
        ("q.json", "[1]", "q.json, row 1: expected an object"),
        ("q.jsonl", GOOD + "[]", "q.jsonl, line 2: expected an object"),
        ("q.jsonl", GOOD + '{"gold_answer": "4"}', "q.jsonl, line 2: no 'question'; the row has gold_answer"),
        (
            "q.jsonl",
            '{"question": "How?", "gold": "4"}',
            "q.jsonl, line 1: no 'gold_answer'; the row has question, gold",
        ),
        ("q.csv", "question,gold_answer\nHow?,\n", "q.csv, row 1: no 'gold_answer'"),
        ("q.csv", "question,gold_answer\nHow?,4,5\n", "q.csv, row 1: more cells than columns"),
        ("q.jsonl", GOOD + '{"question": " ", "gold_answer": "4"}', "q.jsonl, line 2: the question is empty"),
        ("q.jsonl", GOOD + '{"question": "How?", "gold_answer": " "}', "q.jsonl, line 2: the gold answer is empty"),
        ("q.jsonl", '{"question": "How?", "gold_answer": null}', "line 1: not a row of task 'file'"),
        ("q.jsonl", '{"question": ["How?"], "gold_answer": "4"}', "line 1: not a row of task 'file'"),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "C", "choices": ["x", "y"]}',
            "line 1: the gold answer 'C' is neither a letter from A to B nor the text of one option",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "A", "choices": ["x"]}',
            "'choices' must hold at least two options",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "A", "choices": ["x", ""]}',
            "line 1: there must be at most 26 choices, none",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "A", "choices": {"a": 1}}',
            "'choices' must be a list of texts",
        ),
        ("q.csv", 'question,gold_answer,choices\nHow?,A,"[1,"\n', "'choices' is not a JSON list"),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "A", "answers": "choice"}',
            "a choice needs two options or more",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "A", "answers": "poem"}',
            "unknown 'answers' 'poem'; it is one of choice",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "x", "answers": "number"}',
            "the gold answer 'x' is no number",
        ),
        (
            "q.jsonl",
            '{"question": "a", "gold_answer": "4", "id": 7}\n{"question": "b", "gold_answer": "4", "id": "7"}',
            "line 2: id '7' is already that of .*line 1",
        ),
        (
            "q.jsonl",
            '{"question": "How?", "gold_answer": "B", "choices": ["B", "C"]}',
            r"line 1: .*'B' is ambiguous: a letter, and the text of option A; write '\(B\)' or '\(A\)'",
        ),
        ("q.jsonl", '{"question": "How?", "gold_answer": ' + "9" * 5000 + "}", "line 1: a number too long to read"),
        ("q.jsonl", '{"question": "How?", "gold_answer": NaN}', "'gold_answer' text or a number"),
        ("q.jsonl", '{"question": "How?", "gold_answer": 1e999}', "'gold_answer' is too large a number"),
        ("q.jsonl", '{"question": "How?", "gold_answer": 1, "id": [1]}', "'id' must be text or a number"),
        ("q.csv", "question,gold_answer,gold_answer\nHow?,4,5\n", "q.csv: two columns are named 'gold_answer'"),
        ("q.jsonl", b"\xff\xfe\x00", "q.jsonl: not UTF-8"),
        ("q.json", "[" * 100000, "nested too deeply"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 60 and value.isprintable() else "",
)
def test_what_is_wrong_is_said_with_file_and_row(tmp_path, name, text, message):
    with pytest.raises(UserError, match=message) as caught:
        load_questions("file", file=write(tmp_path, name, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("gold", "choices", "letter"), [
    ("B", ["A", "B"], "B"), ("(B)", ["B", "C"], "B"), ("b", ["x", "y"], "B"), ("C", ["B", "C"], "B"),
])
def test_a_gold_answer_that_is_letter_and_text_is_taken_where_both_agree(tmp_path, gold, choices, letter):
    row = {"question": "Which?", "gold_answer": gold, "choices": choices}
    assert load_questions("file", file=write(tmp_path, "q.json", json.dumps([row])))[0].gold == letter


@pytest.mark.parametrize("nothing", ["null", "NaN"])
def test_an_id_that_is_nothing_is_made_from_the_words(tmp_path, nothing):
    rows = ", ".join(f'{{"question": "How much is {n}?", "gold_answer": 1, "id": {nothing}}}' for n in range(2))
    ids = [q.id for q in load_questions("file", file=write(tmp_path, "q.json", f"[{rows}]"))]
    assert len(set(ids)) == 2 and all(len(name) == 12 for name in ids)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_questions("mmlu", file=tmp_path / "nowhere.jsonl")
    with pytest.raises(UserError, match="task 'file' has no data set on the hub; name a file"):
        load_questions("file")


def test_a_file_of_another_task_is_refused(tmp_path):
    path = write(tmp_path, "q.jsonl", '{"prompt": "def f():", "test": ""}')
    with pytest.raises(
        UserError, match="line 1: no 'answer' .or 'question' and 'gold_answer'.; the row has prompt, test"
    ):
        load_questions("gsm8k", file=path)
    with pytest.raises(UserError, match="line 1: a choice needs two options or more"):
        load_questions("mmlu", file=write(tmp_path, "q.jsonl", GOOD))


option = (
    st.text(alphabet="abc dEF12.,()$", min_size=1, max_size=20)
    .map(str.strip)
    .filter(
        lambda text: (
            text and not text.startswith("(") and "(E" not in text and "(F" not in text and not text.endswith(".")
        )
    )
)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(option, min_size=2, max_size=10), st.booleans())
def test_options_in_the_question_are_told_apart(options, dotted):
    text = "Which one?\nReally? The options are: " + " ".join(f"({c}) {o}" for c, o in zip("ABCDEFGHIJ", options))
    assert split_options(text + "." * dotted) == ("Which one?\nReally?", tuple(options))


@pytest.mark.parametrize(
    "text", ["No options", "The options are: none", "The options are: (A) x (C) y", "The options are: (A) x"]
)
def test_options_that_cannot_be_told_apart_stay_in_the_question(text):
    assert split_options(text) == (text, ())
