"""What is wrong with a method's settings, prompts or questions shows as one line before any call."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest

from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.methods import build_method, method_names
from goa_torch.methods.goa import GoA
from tests.worlds import PROMPTS, echo_pool, questions, say_by_purpose


@pytest.mark.parametrize("name, settings, words", [
    ("armor_mad", {"gate": "0.5"}, "gate"), ("armor_mad", {"gate": None}, "gate"),
    ("armor_mad", {"gate": True}, "gate"),
    ("armor_mad", {"outlier": "1"}, "outlier"), ("uncertainty_guided", {"temperature": "0.5"}, "temperature"),
    ("uncertainty_guided", {"temperature": None}, "temperature"),
    ("uncertainty_guided", {"temperature": 0}, "temperature"),
    ("sparse_mad", {"density": "0.4"}, "density"), ("sparse_mad", {"density": None}, "density"),
    ("macnet", {"density": "0.4"}, "density"),
    *[("sparse_mad", {"graph": "tree", "k": k}, "k must") for k in (0, 1.5, "2", -1)],
    *[(name, {"agents": agents}, "agents") for name in ("moa", "dylan", "colmad") for agents in (5, "law", [], [1])],
    ("dylan", {"agents": ["law", "law", "math"]}, "twice"), ("random_switching", {"rules": 5}, "rules"),
    ("routed_single", {"tries": "3"}, "tries"), ("routed_single", {"tries": 0}, "tries"),
    ("vote", {"k": 2, "tries": "x"}, "tries"), ("vote", {"tries": 0}, "tries"),
    ("mad", {"history": "false"}, "history"),
    ("mad", {"history": 1}, "history"), ("goa", {"rounds": 3}, "rounds = 3"),
    *[("goa", {"graph": "complete", **settings}, next(iter(settings))) for settings in (
        {"tau": 0.1}, {"flow": "reversed"}, {"weights": "ones"}, {"mode": "released"}, {"tries": 2},
        {"judging": "text"})],
])
def test_wrong_settings_are_one_line(name, settings, words):
    with pytest.raises(UserError) as error:
        build_method(name, echo_pool(), **settings)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_the_complete_graph_takes_all_agents_of_the_pool_by_default():
    [result] = build_method("goa", echo_pool(say_by_purpose), graph="complete")(questions(1))
    assert len(result.trace["agents"]) == 6


def test_numbers_of_numpy_are_numbers():
    method = build_method("goa", echo_pool(say_by_purpose), k=np.int64(2), tau=np.float64(0.1))
    assert len(method(questions(1))[0].trace["agents"]) == 2
    assert type(method.config["k"]) is int and type(method.config["tau"]) is float


@pytest.mark.parametrize("name", method_names())
def test_a_method_knows_its_name_and_settings_however_it_is_built(name):
    built = build_method(name, echo_pool())
    direct = type(built)(built.pool)
    defaults = type(built).parameters_of()
    assert direct.name == built.name == name and direct.config == built.config and list(built.config) == list(defaults)
    decided = {key for key, value in built.config.items() if value != defaults[key]}
    assert all(defaults[key] is None for key in decided)  # what is left open is settled, and nothing else
    assert type(built)(built.pool, **built.config).config == built.config


def test_settings_given_by_place_are_known_and_methods_can_be_copied():
    method = GoA(echo_pool(say_by_purpose), 2, readout="mean")
    assert method.config["k"] == 2 and method.config["readout"] == "mean" and method.config["tau"] == 0.05
    assert copy.copy(method).config == method.config


@pytest.mark.parametrize("batch, words", [
    (questions(1)[0], "give [question]"), ("text", "a list of questions"), (5, "a list of questions"),
    (["text"], "not str"),
    (questions(2) + questions(1), "question 'q0' of task 'sums' is in the batch twice"),
])
def test_a_wrong_batch_is_one_line(batch, words):
    with pytest.raises(UserError) as error:
        build_method("single", echo_pool())(batch)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_questions_may_come_from_a_generator():
    assert len(build_method("vote", echo_pool())(q for q in questions(3))) == 3


NEEDED = {"goa": {"select", "answer", "score", "pass", "readout"}, "vote": {"answer"},
          "moa": {"answer", "pass", "readout"},
          "routed_single": {"select", "answer"}, "mad": {"answer", "pass", "debate"},
          "reconcile": {"confident", "reconcile"},
          "dylan": {"answer", "rate", "rank"}, "handoff": {"handoff", "answer", "pass"},
          "self_moa": {"answer", "readout"},
          "macnet": {"answer", "critic", "actor", "readout"}, "groupdebate": {"answer", "pass", "summary", "group"}}


@pytest.mark.parametrize("name", NEEDED)
def test_exactly_the_templates_that_a_method_asks_for_must_be_there_and_right(name, tmp_path):
    def pool(folder):
        model = echo_pool()
        return Pool(model.agents, PromptSet(folder), model.meta, model.sampling)

    for template in NEEDED[name]:
        shutil.copy(PROMPTS / "default" / f"{template}.jinja", tmp_path)
    build_method(name, pool(tmp_path))
    for template in NEEDED[name]:
        path = tmp_path / f"{template}.jinja"
        text = path.read_text(encoding="utf-8")
        path.unlink()
        with pytest.raises(UserError, match=f"{template}.jinja"):
            build_method(name, pool(tmp_path))
        path.write_text(text + "{{ question.txt }}", encoding="utf-8")
        with pytest.raises(UserError, match=f"{template}.jinja.*txt"):
            build_method(name, pool(tmp_path))
        path.write_text(text, encoding="utf-8")
