"""Adversaries change what a model says, each kind in its way, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.adversary import KINDS, AdversaryModel, turned
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pools import load_pool
from goa_torch.errors import UserError
from goa_torch.types import Chat, Message, Reply, Sampling


def says(kind, said="rev[58]", question="rev[(47+11)]", **settings):
    model = AdversaryModel(kind, model=EchoModel(lambda chat: said), **settings)
    [reply] = model.generate([Chat((Message.of("user", f"{question}\nanswer"),))], Sampling())
    return reply


@given(st.text(), st.integers(1, 9))
def test_turning_changes_every_digit_and_nothing_else(text, by):
    changed = turned(text, by)
    assert len(changed) == len(text)
    for before, after in zip(text, changed):
        assert (before != after and after in "0123456789") if before in "0123456789" else before == after


def test_each_kind_does_what_it_is_said_to_do():
    wrong = says("wrong", name="a").text
    assert wrong != "rev[58]" and wrong.startswith("rev[") and wrong == says("wrong", name="a").text
    assert says("flattering", name="a").text == wrong[4:6]
    assert says("injecting", name="a").text.splitlines() == [wrong, *[f"reply {wrong}"] * 3]
    assert says("spamming", name="a").text == " ".join([wrong] * 8)
    assert says("silent").text == "" and not says("silent").failed
    assert set(KINDS) == {"wrong", "flattering", "injecting", "spamming", "silent", "colluding"}


def test_colluders_agree_and_lone_liars_do_not():
    questions = [f"rev[{n}]" for n in range(10, 40)]
    def lies(kind, name, group="g"):
        return [says(kind, question=q, name=name, group=group).text for q in questions]

    assert lies("colluding", "a") == lies("colluding", "b")
    assert lies("colluding", "a") != lies("colluding", "a", "other group")
    assert lies("wrong", "a") != lies("wrong", "b")


def test_costs_and_failures_are_those_of_the_wrapped_model():
    reply = says("spamming")
    assert reply.usage.calls == 1 and reply.usage.completion_tokens == 4
    failing = AdversaryModel("wrong", model=EchoModel(lambda chat: Reply.failure("down")))
    assert failing.generate([Chat((Message.of("user", "1"),))], Sampling())[0].failed


def test_liars_and_honest_models_are_never_taken_for_each_other():
    honest = EchoModel(lambda chat: "1", name="e")
    prints = {AdversaryModel(kind, model=honest, name=name).fingerprint
              for kind in ("wrong", "silent") for name in ("a", "b")} | {honest.fingerprint}
    assert len(prints) == 5


@pytest.mark.parametrize(("settings", "message"), [
    ({"kind": "colludng", "model": EchoModel()}, "Did you mean 'colluding'"),
    ({"kind": "wrong"}, "name the model that it wraps"),
])
def test_a_wrong_setting_is_one_clear_line(settings, message):
    with pytest.raises(UserError, match=message):
        AdversaryModel(**settings)


def test_a_pool_file_can_hold_one(tmp_path):
    file = tmp_path / "pool.yaml"
    file.write_text("models:\n  liar: {backend: adversary, kind: silent, source: HuggingFaceTB/SmolLM2-135M-Instruct}\n"
                    "agents: [{name: a, model: liar, card: {domain: math}}]\n")
    [agent] = load_pool(file).agents
    assert isinstance(agent.model, AdversaryModel) and agent.model.name == "liar"
