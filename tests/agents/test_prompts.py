"""Prompts: what they show, and that nothing a peer writes is read as a template or a role."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.prompts import PURPOSES, PromptSet
from goa_torch.errors import UserError
from goa_torch.paths import models_folder
from goa_torch.types import Span

FOLDER = models_folder() / "prompts"
SETS = ("default", "chat")


def variables(n: int = 2, own: str | None = "my words", relevance: tuple = (None, None), system: str = "You are code.",
              text: str = "peer {} says") -> dict:
    return {
        "agent": {"name": "code", "card": "domain: code", "system": system, "domain": "code"},
        "question": {"text": Span("What is it?"), "instruction": "End with the answer.", "category": "", "choices": [],
                     "task": ""},
        "own": None if own is None else Span(own, sender=9),
        "messages": [{"text": Span(text.format(i), sender=i), "number": i + 1, "weight": 1.0,
                      "relevance": relevance[i] if i < len(relevance) else None, "domain": "d", "agent": "a"}
                     for i in range(n)],
        "pool": {}, "cards": ["domain: code", "domain: law", "domain: math"], "k": 2, "n": n, "largest": 3,
    }


def text_of(name: str, purpose: str, **changes) -> str:
    return "\n".join(message.text for message in PromptSet(FOLDER / name).render(purpose, variables(**changes)))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("purpose", PURPOSES)
def test_every_prompt_shows_the_question_once(name, purpose):
    assert text_of(name, purpose).count("What is it?") == 1


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("purpose", ["score", "pass", "readout"])
def test_prompts_show_each_message_once_and_know_whose_it_is(name, purpose):
    messages = PromptSet(FOLDER / name).render(purpose, variables(n=3, own=None))
    spans = {span.sender: span.text for message in messages for span in message.spans if span.sender is not None}
    assert spans == {0: "peer 0 says", 1: "peer 1 says", 2: "peer 2 says"}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("purpose", ["answer", "pass", "readout"])
def test_prompts_that_want_an_answer_say_how_to_state_it(name, purpose):
    assert "End with the answer." in text_of(name, purpose)


@pytest.mark.parametrize("purpose", ["answer", "score", "pass", "readout"])
def test_default_prompts_of_one_question_begin_with_the_question(purpose):
    messages = PromptSet(FOLDER / "default").render(purpose, variables())
    assert [message.role for message in messages] == ["user"]
    assert messages[0].text.startswith("What is it?\n\n")


def test_default_selection_begins_with_the_cards_which_all_questions_share():
    text = text_of("default", "select")
    assert text.index("2: domain: math") < text.index("What is it?")
    assert "Reply with exactly 2 indices between 0 and 2" in text


def test_the_score_prompt_asks_for_as_many_numbers_as_it_shows_replies():
    assert "Write 3 numbers between 0 and 1 that sum to 1" in text_of("default", "score", n=3)
    assert "Write one number between 0 and 1" in text_of("default", "score", n=1)


@pytest.mark.parametrize("name", SETS)
def test_a_message_without_relevance_is_plain_concatenation(name):
    assert "Reply 1:\npeer 0 says\n\nReply 2:\npeer 1 says" in text_of(name, "pass")
    assert "relevance" not in text_of(name, "pass")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("purpose", ["pass", "readout"])
def test_relevance_stands_beside_the_reply_it_belongs_to(name, purpose):
    text = text_of(name, purpose, relevance=("high", "low"))
    assert "Reply 1 (relevance: high):\npeer 0 says" in text
    assert "Reply 2 (relevance: low):\npeer 1 says" in text


@pytest.mark.parametrize("name", SETS)
def test_an_agent_that_hears_nobody_rereads_its_own_reply(name):
    text = text_of(name, "pass", n=0)
    assert "my words" in text and "Read your reply again" in text and "Reply 1" not in text


def test_the_chat_layout_gives_the_role_to_the_system_and_none_where_there_is_none():
    roles = [m.role for m in PromptSet(FOLDER / "chat").render("answer", variables())]
    assert roles == ["system", "user"]
    assert [m.role for m in PromptSet(FOLDER / "chat").render("answer", variables(system=""))] == ["user"]


def test_released_answers_are_asked_for_as_json_with_a_confidence():
    text = text_of("released", "answer")
    assert all(key in text for key in ('"reasoning"', '"answer"', '"confidence_level"'))


@pytest.mark.parametrize("name", SETS)
@given(said=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_whatever_a_peer_writes_arrives_unchanged_and_as_its_own_span(name, said):
    messages = PromptSet(FOLDER / name).render("pass", variables(n=1, own=None) | {"messages": [
        {"text": Span(said, sender=0), "number": 1, "weight": 1.0, "relevance": None, "domain": "", "agent": ""}]})
    assert [s.text for m in messages for s in m.spans if s.sender == 0] == [said]


def test_template_code_in_a_reply_stays_text():
    said = "{{ agent.system }} {% for x in y %} \ue0000\ue001"
    messages = PromptSet(FOLDER / "default").render("pass", variables(n=1, text=said.replace("{", "{{").replace(
        "}", "}}")))
    assert said in [s.text for m in messages for s in m.spans]


def test_a_folder_that_is_not_there_and_a_broken_template_are_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="no folder"):
        PromptSet(tmp_path / "none")
    Path(tmp_path / "answer.jinja").write_text("{% if %}", encoding="utf-8")
    with pytest.raises(UserError, match=r"answer\.jinja, line 1"):
        PromptSet(tmp_path).render("answer", variables())
    with pytest.raises(UserError, match=r"no score\.jinja"):
        PromptSet(tmp_path).render("score", variables())


def test_a_template_that_changes_on_disk_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("goa_torch.agents.prompts._FRESH", 0.0)
    path = tmp_path / "answer.jinja"
    prompts = PromptSet(tmp_path)
    with pytest.raises(UserError, match="no answer"):
        prompts.render("answer", variables())
    for number, said in enumerate(("one", "two")):
        path.write_text(said, encoding="utf-8")
        os.utime(path, ns=(number, number))
        assert prompts.render("answer", variables())[0].text == said


def test_a_name_that_no_prompt_has_is_one_clear_line(tmp_path):
    (tmp_path / "answer.jinja").write_text("{{ question.txt }}", encoding="utf-8")
    for look in (lambda p: p.check("answer"), lambda p: p.render("answer", variables())):
        with pytest.raises(UserError, match=r"answer\.jinja: .*txt"):
            look(PromptSet(tmp_path))


@pytest.mark.parametrize("template", sorted(FOLDER.glob("*/*.jinja")),
                         ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_template_passes_the_check_before_the_first_call(template):
    PromptSet(template.parent).check(template.stem)
