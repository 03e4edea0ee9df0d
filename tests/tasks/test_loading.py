"""Questions are loaded whole, in a stable order, with stable ids, and train never holds what is tested on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.tasks import Row, Task, get_task, load_questions, without_overlap
from goa_torch.tasks import loading as loading_module

DATA = Path(__file__).parents[2] / ".." / "shared" / "data"
SHIPPED = Path(__file__).parents[2] / "experiments" / "data"


def lines(folder: Path, rows: list[dict], name: str = "q.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def twenty(tmp_path):
    return lines(tmp_path, [{"question": f"How much is {n}?", "gold_answer": n} for n in range(20)])


def test_a_limit_takes_the_first_of_one_seeded_order(twenty, tmp_path):
    ten, five = (load_questions("file", file=twenty, limit=n, seed=3) for n in (10, 5))
    assert [q.id for q in ten[:5]] == [q.id for q in five]
    assert [q.id for q in five] != [q.id for q in load_questions("file", file=twenty, limit=5, seed=4)]
    backwards = lines(tmp_path, [json.loads(line) for line in twenty.read_text().splitlines()[::-1]], "b.jsonl")
    assert [q.id for q in load_questions("file", file=backwards, limit=5, seed=3)] == [q.id for q in five]


def test_without_limit_or_seed_the_order_is_the_files(twenty):
    golds = [str(n) for n in range(20)]
    assert [q.gold for q in load_questions("file", file=twenty)] == golds
    assert [q.gold for q in load_questions("file", file=twenty, limit=3, seed=None)] == golds[:3]
    assert len(load_questions("file", file=twenty, limit=99)) == 20


def test_a_limit_below_one_is_refused(twenty):
    with pytest.raises(UserError, match="limit must be at least 1, not 0"):
        load_questions("file", file=twenty, limit=0)


def test_the_same_question_twice_gets_two_ids_and_its_id_does_not_depend_on_its_place(tmp_path):
    row, other = {"question": "How much?", "gold_answer": 1}, {"question": "How many?", "gold_answer": 1}
    ids = [q.id for q in load_questions("file", file=lines(tmp_path, [row, other, row, row]))]
    assert len(set(ids)) == 4 and ids[2:] == [f"{ids[0]}-2", f"{ids[0]}-3"]
    assert [q.id for q in load_questions("file", file=lines(tmp_path, [other, row]))] == [ids[1], ids[0]]


def test_splits_are_what_they_say(twenty):
    assert {q.split for q in load_questions("file", file=twenty, split="train")} == {"train"}
    with pytest.raises(UserError, match="'mmlu_pro' has no split 'train'"):
        load_questions("mmlu_pro", file=twenty, split="train")
    with pytest.raises(UserError, match="'gsm8k' has no split 'dev'; it has test, train"):
        load_questions("gsm8k", file=twenty, split="dev")


def test_what_is_tested_on_is_left_out_of_train_and_validation(monkeypatch):
    splits = {
        "train": ["Which is  RED?", "Which is blue?", "Which is green?"],
        "validation": ["Which is blue?", "Which is black?"],
        "test": ["which is red", "Which is black?"],
    }

    def rows(task, split):
        return [{"q": text} for text in splits[split]]

    monkeypatch.setattr("goa_torch.tasks.hub.load_rows", rows)
    task = Task(
        "colours", "colours", lambda row: Row(row["q"], "A", ("x", "y")), hub="a/b", splits={s: s for s in splits}
    )
    assert [q.text.splitlines()[0] for q in load_questions(task, split="train")] == ["Which is green?"]
    assert [q.text.splitlines()[0] for q in load_questions(task, split="validation")] == ["Which is blue?"]
    assert len(load_questions(task)) == 2


def test_overlap_ignores_the_order_of_options_but_not_the_options(tmp_path):
    def load(*choices):
        row = {"question": "Which is red?", "gold_answer": "A", "choices": choices}
        return load_questions("file", file=lines(tmp_path, [row]))

    assert without_overlap(load("x", "y"), load("y", "x")) == []
    assert len(without_overlap(load("x", "y"), load("x", "z"))) == 1


@pytest.mark.parametrize("one, other, same", [
    ("strand<(9*9)>", "strand<99>", False), ("rev[(47+8)]", "rev[(47-8)]", False), ("(2+3)*4", "2+3*4", False),
    ("x + y = 3", "x - y = 3", False), ("1.5 m", "15 m", False), ("What is 2 + 3?", "what is 2+3", True),
    ("1,000 apples", "1000 apples", True), ("A well-known fact - really?", "a well known fact, really", True),
    ("COVID-19 (2020)", "covid 19: 2020", True), ("* Why (exactly)?", "why exactly", True),
    ("cannot", "can not", True), ("What is |-3|?", "What is |3|?", False), ("What is 3\u22122?", "what is 3-2", True),
    ("3\\cdot2", "3*2", True), ("3 \u00d7 2", "3*2", True), ("ages 3-5", "ages 3 - 5", True), ("~5 m", "5 m", True)])
def test_overlap_ignores_punctuation_but_not_the_signs_of_formulas(tmp_path, one, other, same):
    def load(text):
        return load_questions("file", file=lines(tmp_path, [{"question": text, "gold_answer": "1"}]))

    assert without_overlap(load(one), load(other)) == ([] if same else load(one))


@given(st.lists(st.from_regex(r"[a-z]{2,8}|[0-9]{1,4}", fullmatch=True), min_size=1), st.data())
def test_words_stay_the_same_whatever_stands_between_them(words, data):
    marks = st.lists(st.sampled_from([" ", ".", ", ", ": ", "; ", "!", "? ", " \"", "' "]), min_size=1).map("".join)
    between = [data.draw(marks) for _ in words]
    assert loading_module._bare("".join(map("".join, zip(words, between)))) == loading_module._bare(" ".join(words))


@given(st.lists(st.integers(0, 99), min_size=2, max_size=5), st.data())
def test_formulas_that_differ_in_a_sign_are_different(numbers, data):
    signs = [data.draw(st.sampled_from("+-*/^")) for _ in numbers[1:]]
    changed = data.draw(st.integers(0, len(signs) - 1))
    other = [*signs[:changed], "%", *signs[changed + 1 :]]

    def formula(signs):
        return "".join(f"{number} {sign} " for number, sign in zip(numbers, [*signs, ""]))

    assert loading_module._bare(formula(signs)) != loading_module._bare(formula(other))


def test_a_task_of_ones_own_needs_no_registration(twenty):
    task = Task(
        "mine",
        "mine",
        lambda row: Row(row["question"], str(row["gold_answer"])),
        answers="number",
        splits={"test": "test"},
    )
    assert load_questions(task, file=twenty)[0].task == "mine"


def test_rows_of_the_hub_are_read_from_files_too(tmp_path):
    row = {"question": "Which?", "choices": ["w", "x", "y", "z"], "answer": 2, "subject": "anatomy"}
    assert load_questions("mmlu", file=lines(tmp_path, [row]))[0].gold == "C"
    with pytest.raises(UserError, match="line 1: not a row of task 'mmlu'"):
        load_questions("mmlu", file=lines(tmp_path, [{**row, "answer": 99}]))


@pytest.mark.parametrize(
    ("task", "file", "split", "n", "options"),
    [
        ("mmlu", "MMLU_sampled_dev.json", "test", 50, {4}),
        ("mmlu_pro", "MMLU_Pro_sampled_dev.json", "test", 50, {4, 7, 9, 10}),
        ("medmcqa", "MedMCQA_sampled_dev.json", "test", 50, {4}),
        ("math500", "MATH_dev.json", "test", 50, {0}),
        ("gsm8k", "gsm8k_test_first100.jsonl", "test", 100, {0}),
        ("gsm8k", "gsm8k_train_first200.jsonl", "train", 200, {0}),
    ],
)
def test_real_benchmark_files_are_read_whole(task, file, split, n, options):
    if not (DATA / file).is_file():
        pytest.skip("../shared/data is not here")
    questions = load_questions(task, file=DATA / file, split=split)
    assert len(questions) == len({q.id for q in questions}) == n
    assert {len(q.choices) for q in questions} == options
    for question in questions:
        assert "The options are:" not in question.text and question.reader.equal(question.gold, question.gold)
        if question.choices:
            assert question.is_correct(question.reader.read(f"**{question.gold}**"))
            assert not any(choice.endswith("..") for choice in question.choices)


def test_gold_solutions_of_gsm8k_are_read_right():
    for file, split in (("gsm8k_test_first100.jsonl", "test"), ("gsm8k_train_first200.jsonl", "train")):
        if not (DATA / file).is_file():
            pytest.skip("../shared/data is not here")
        questions = load_questions("gsm8k", file=DATA / file, split=split)
        solutions = [json.loads(line)["answer"] for line in (DATA / file).read_text(encoding="utf-8").splitlines()]
        assert all(q.is_correct(q.reader.read(solution)) for q, solution in zip(questions, solutions, strict=True))


def test_train_and_test_files_of_gsm8k_share_no_question():
    if not (DATA / "gsm8k_test_first100.jsonl").is_file():
        pytest.skip("../shared/data is not here")
    test = load_questions("gsm8k", file=DATA / "gsm8k_test_first100.jsonl")
    train = load_questions("gsm8k", file=DATA / "gsm8k_train_first200.jsonl", split="train")
    assert without_overlap(train, test) == train


@pytest.mark.parametrize(
    ("task", "n", "source"), [("mmlu", 48, "MMLU_sampled_dev.json"), ("gsm8k", 16, "gsm8k_test_first100.jsonl")]
)
def test_the_shipped_questions_follow_their_rule(task, n, source):
    shipped = load_questions(task, file=SHIPPED / f"quickstart_{task}.jsonl")
    assert len(shipped) == n and {q.reader for q in shipped} == {get_task(task).reader(Row("", "", shipped[0].choices))}
    if (DATA / source).is_file():
        drawn = load_questions(task, file=DATA / source, limit=n)
        assert [(q.id, q.text, q.gold) for q in shipped] == [(q.id, q.text, q.gold) for q in drawn]


def test_every_split_that_must_differ_is_a_split_some_task_has():
    splits = {split for name in ("mmlu", "gsm8k", "scienceqa") for split in get_task(name).splits}
    assert set(loading_module._KEPT_FROM) <= splits
