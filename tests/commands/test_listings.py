"""What goa tasks, pools and methods list, and what goa ask remarks on expressions."""

from __future__ import annotations

from dataclasses import fields

import pytest
import yaml

from goa_torch.cli import main
from goa_torch.tasks import load_questions, task_names
from goa_torch.tasks.relay import RelaySpec, parse
from goa_torch.tasks.relay.expression import DEEPEST, resembles


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_a_task_that_makes_its_questions_shows_its_settings_and_some_of_them(capsys):
    assert main(["tasks", "relay"]) == 0
    shown = capsys.readouterr().out
    for field in fields(RelaySpec):
        assert any(line.split()[:1] == [field.name] for line in shown.splitlines()), field.name
    assert "whole" not in shown and "``" not in shown and "held-out variant" in shown
    example = next(line for line in shown.splitlines() if line.startswith("In an experiment file"))
    [task] = yaml.safe_load(example.partition("tasks:")[2])
    assert load_questions(task["name"], limit=2, **task["settings"])
    assert load_questions("relay", limit=1)[0].text in shown


@pytest.mark.parametrize("task", [name for name in task_names() if name != "relay"])
def test_other_tasks_say_where_their_questions_come_from(task, capsys):
    assert main(["tasks", task]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{task}: ") and "file: questions.jsonl" in shown


def test_a_task_that_is_none_is_said_with_the_nearest(capsys):
    assert main(["tasks", "realy"]) == 2
    assert "Did you mean 'relay'?" in capsys.readouterr().err


def test_a_pool_of_many_lists_each_card_once_and_says_how_many(tmp_path, capsys):
    (tmp_path / "many.yaml").write_text(yaml.safe_dump({
        "size": 500, "models": {"m": {"backend": "echo"}}, "agents": [{"name": "a", "model": "m",
                                                                      "card": {"domain": "law"}}]}))
    assert main(["pools", str(tmp_path / "many.yaml")]) == 0
    assert "size: 500; these and copies of them in turn" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["rev[(47+9)", "(470+9)", "rev(56)", "2+2", "revv[5]", "forty two (3)", "REV [ 4 ]]"])
def test_what_was_meant_to_be_an_expression_is_remarked(text, capsys):
    assert parse(text) is None and resembles(text)
    assert main(["ask", text, "--pool", "echo", "--method", "single"]) == 0
    said = capsys.readouterr().err
    assert said.count("goa: note:") == 1 and "goa tasks relay" in said


@pytest.mark.parametrize("text", ["What is 47 + 9?", "hello", "(a+b)", "f(x)", "I (think) - no", "", "[]", "Löwe [5]"])
def test_other_questions_are_not(text):
    assert not resembles(text)


def test_every_question_of_relay_is_read_without_a_remark():
    for families in ("primary", "second"):
        for question in load_questions("relay", limit=60, families=families):
            assert parse(question.text) is not None


def test_expressions_deeper_than_agents_were_taught_are_remarked(capsys):
    text = "5"
    for _ in range(DEEPEST):
        text = f"rev[{text}]"
    assert main(["ask", text, "--pool", "echo", "--method", "single"]) == 0
    assert "note" not in capsys.readouterr().err
    assert main(["ask", f"inc[{text}]", "--pool", "echo", "--method", "single"]) == 0
    assert f"7 layers; Relay's agents were taught {DEEPEST} at most" in capsys.readouterr().err
