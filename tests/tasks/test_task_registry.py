"""Tasks are found by name, each makes questions of the hub's rows, and names do not collide."""

from __future__ import annotations

import json

import pytest

from goa_torch.errors import UserError
from goa_torch.tasks import Row, Task, describe, get_task, register, registry, task_names

# A row of each data set as the hub has it: (row, question's end, gold, number of choices, category).
HUB_ROWS = {
    "mmlu": (
        {"question": "Which?", "choices": ["w", "x", "y", "z"], "answer": 2, "subject": "anatomy"},
        "C",
        4,
        "other",
    ),
    "mmlu_pro": (
        {
            "question_id": 70,
            "question": "Which?",
            "options": ["w", "x", "y", "N/A"],
            "answer": "B",
            "answer_index": 1,
            "category": "law",
            "src": "x",
        },
        "B",
        3,
        "law",
    ),
    "medmcqa": (
        {
            "id": "e9",
            "question": "Which?",
            "opa": "w",
            "opb": "x",
            "opc": "y",
            "opd": "z",
            "cop": 3,
            "subject_name": "Anatomy",
            "topic_name": None,
        },
        "D",
        4,
        "Anatomy",
    ),
    "gpqa": (
        {
            "Question": "Which?",
            "Correct Answer": "right ",
            "Incorrect Answer 1": "x",
            "Incorrect Answer 2": "y",
            "Incorrect Answer 3": "z",
            "Record ID": "rec1",
            "High-level domain": "Physics",
            "Subdomain": "Optics",
        },
        None,
        4,
        "Physics",
    ),
    "arc_challenge": (
        {
            "id": "M1",
            "question": "Which?",
            "choices": {"text": ["w", "x", "y"], "label": ["1", "2", "3"]},
            "answerKey": "3",
        },
        "C",
        3,
        "",
    ),
    "scienceqa": (
        {
            "question": "Which?",
            "choices": ["w", "x"],
            "answer": 1,
            "hint": "Look.",
            "image": None,
            "subject": "natural science",
            "topic": "physics",
            "grade": "grade3",
        },
        "B",
        2,
        "natural science",
    ),
    "math500": (
        {
            "problem": "How?",
            "answer": "\\frac12",
            "solution": "",
            "subject": "Algebra",
            "level": 3,
            "unique_id": "test/algebra/1.json",
        },
        "\\frac12",
        0,
        "Algebra",
    ),
    "aime24": ({"id": 60, "problem": "How?", "answer": "033", "solution": "", "year": "2024"}, "33", 0, ""),
    "gsm8k": ({"question": "How many?", "answer": "16-3=<<16-3=13>>13\n#### 1,300"}, "1300", 0, ""),
    "humaneval": (
        {
            "task_id": "HumanEval/1",
            "prompt": "def f(x):\n    \"\"\"One more.\"\"\"\n",
            "entry_point": "f",
            "test": "def check(candidate):\n    assert candidate(1) == 2\n",
            "canonical_solution": "    return x + 1\n",
        },
        "def check(candidate):\n    assert candidate(1) == 2",
        0,
        "",
    ),
    "file": ({"question": "Which?", "gold_answer": "B", "choices": ["w", "x"], "answers": "choice"}, "B", 2, ""),
}


def test_every_task_is_tried_here():
    assert set(HUB_ROWS) <= set(task_names())


@pytest.mark.parametrize("name", sorted(HUB_ROWS))
def test_every_task_makes_a_question_of_a_row(name):
    row, gold, n_choices, category = HUB_ROWS[name]
    task = get_task(name)
    question = task.question(task.read(row), "test", "row 1")
    assert question.task == name and question.split == "test" and question.category == category and question.id
    assert gold is None or question.gold == gold
    assert len(question.choices) == n_choices
    if n_choices:
        assert question.choices["ABCDEFGHIJ".index(question.gold)] in ("right", "x", "y", "z")
        lines = question.text.splitlines()[-n_choices:]
        assert lines == [f"{letter}) {choice}" for letter, choice in zip("ABCDEFGHIJ", question.choices)]
        assert question.is_correct(question.reader.read(f"The answer is ({question.gold})."))
    elif name == "humaneval":  # to be right, it would have to be run
        assert question.reader.read("    return x + 1") == "def f(x):\n    return x + 1"
    else:
        assert question.is_correct(question.reader.read(f"So \\boxed{{{question.gold}}}"))
    assert not question.is_correct(None) and json.dumps(question.metadata) is not None


def test_rows_that_are_no_question_are_passed_over():
    assert get_task("scienceqa").read({**HUB_ROWS["scienceqa"][0], "image": {"bytes": b"", "path": ""}}) is None
    assert get_task("medmcqa").read({**HUB_ROWS["medmcqa"][0], "cop": -1}) is None


def test_options_of_gpqa_are_shuffled_the_same_way_every_time_and_evenly():
    task, row = get_task("gpqa"), HUB_ROWS["gpqa"][0]
    golds = [task.read({**row, "Record ID": f"rec{n}"}).gold for n in range(400)]
    assert golds == [task.read({**row, "Record ID": f"rec{n}"}).gold for n in range(400)]
    assert all(70 < golds.count(letter) < 130 for letter in "ABCD")


@pytest.mark.parametrize("name", sorted(HUB_ROWS))
def test_every_task_describes_itself_in_one_line(name):
    task, line = get_task(name), describe(name)
    assert "\n" not in line and len(line) < 160 and "test" in task.splits
    assert task.hub == "" or task.hub in line
    assert task.has_train == ("train" in line.split("splits:")[1])


def test_an_unknown_task_is_answered_with_the_known_ones():
    with pytest.raises(
        UserError, match="unknown task 'mmlu-pro'. Did you mean 'mmlu_pro'. Available: aime24, .*scienceqa"
    ):
        get_task("mmlu-pro")


def test_a_name_belongs_to_one_task(monkeypatch):
    monkeypatch.setattr(registry, "_TARGETS", dict(registry._TARGETS))
    mine = Task("mine", "mine", lambda row: Row(row["q"], row["a"]), answers="text", splits={"test": "test"})
    register("mine", mine)
    register("mine", mine)  # the same again is no collision
    assert get_task("mine") is mine and "mine" in task_names()
    with pytest.raises(ValueError, match="task 'mmlu' is already registered"):
        register("mmlu", mine)


def test_a_task_for_testing_alone_refuses_to_train():
    with pytest.raises(UserError, match="'mmlu_pro' has no split 'train'; it is for testing alone"):
        get_task("mmlu_pro").need_split("train")
