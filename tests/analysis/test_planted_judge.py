"""Judges whose quality is set: their scores have the AUROC that was asked for, and nothing else changes."""

from __future__ import annotations

import pytest

from goa_torch.agents.echo import EchoModel
from goa_torch.analysis.planted_judge import PlantedJudge
from goa_torch.errors import UserError
from goa_torch.nn.reading import read_scores
from goa_torch.types import Chat, Message, Sampling


def asked(text, number=0):
    return Chat((Message.of("user", text),), number)


@pytest.mark.parametrize("wanted", [0.5, 0.75, 0.9, 1.0])
def test_scores_have_the_auroc_that_was_asked_for(wanted):
    judge = PlantedJudge(wanted, model=EchoModel(lambda chat: "1 1"))
    chats = [asked("rev[(47+8)]\nreply rev[55]\nreply rev[(47+8)]\nreply rev[54]\nscore", n) for n in range(800)]
    scores = [read_scores(reply.text, 3) for reply in judge.generate(chats, Sampling())]
    for higher, lower in ((0, 1), (1, 2)):
        wins = [(s[higher] > s[lower]) + (s[higher] == s[lower]) / 2 for s in scores]
        assert sum(wins) / len(wins) == pytest.approx(wanted, abs=0.04)


def test_what_is_no_judgement_is_left_as_it_is():
    judge = PlantedJudge(0.9, model=EchoModel(lambda chat: "said"))
    prompts = ["rev[(47+8)]\nanswer", "rev[(47+8)]\nreply 55\npass", "What is right?\nreply 55\nscore", "score"]
    assert [reply.text for reply in judge.generate([asked(p) for p in prompts], Sampling())] == ["said"] * 4


def test_the_same_judgement_is_the_same_tomorrow():
    judge = PlantedJudge(0.7, model=EchoModel(lambda chat: "x"))
    chat = asked("rev[55]\nreply 55\nreply rev[55]\nscore", 5)
    assert judge.generate([chat], Sampling()) == judge.generate([chat], Sampling())


@pytest.mark.parametrize("settings", [{"auroc": 0.4, "model": EchoModel()}, {"auroc": 0.9}])
def test_a_wrong_setting_is_one_clear_line(settings):
    with pytest.raises(UserError, match="planted judge"):
        PlantedJudge(**settings)


def test_whatever_else_the_wrapped_model_can_do_the_judge_can():
    judge = PlantedJudge(0.9, model=EchoModel(lambda chat: "x"))
    assert "embed" in judge.capabilities and judge.embed(["a", "b"]).shape[0] == 2
    assert judge.log_likelihood([asked("a b")], ["a"]) == [-1.0]
