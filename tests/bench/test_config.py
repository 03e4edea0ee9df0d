from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from goa_torch.bench.config import load_experiment
from goa_torch.errors import UserError


def test_an_experiment_has_sensible_defaults(write):
    experiment = load_experiment(write())
    assert experiment.methods == [{"name": "single"}, {"name": "vote"}]
    assert experiment.pools == ["tiny"] and experiment.config.seeds == [0]
    assert experiment.out == Path("runs/experiment") and experiment.cache == Path("runs/experiment/cache")
    assert experiment.tasks[0].split == "test" and experiment.tasks[0].label == "letters"


def test_files_are_found_beside_the_experiment_then_in_the_current_folder(write, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "here.jsonl").write_text("{}")
    path = write(tasks=[{"name": "letters", "file": "questions.jsonl"},
                        {"name": "letters", "file": "here.jsonl", "label": "here"}])
    files = [task.file for task in load_experiment(path).tasks]
    assert files == [str(tmp_path / "questions.jsonl"), str(tmp_path / "elsewhere" / "here.jsonl")]


def test_overrides_limit_seeds_and_out_win_over_the_file(write):
    path = write(seeds=[5], validation=[{"name": "letters", "file": "validation.jsonl", "limit": 3}])
    overrides = ["methods=[{name: goa, k: [2, 3]}]", "sampling.temperature=0", "tasks.0.split=train", "cache=off",
                 "methods.0.tau=1e-2"]
    experiment = load_experiment(path, overrides, limit=2, seeds=[1, 2], out="there")
    assert experiment.methods == [{"name": "goa", "k": [2, 3], "tau": 0.01}]
    assert experiment.sampling.of("score") == {"temperature": 0.0}
    assert experiment.tasks[0].split == "train" and experiment.cache is None
    assert experiment.config.seeds == [1, 2] and experiment.out == Path("there")
    assert [task.limit for task in experiment.tasks + experiment.validation] == [2, 2]


def test_sampling_by_purpose_wins_over_sampling(write):
    sampling = {"temperature": 0.5, "max_new_tokens": 64, "by_purpose": {"score": {"temperature": 0, "stop": ["\n"]}}}
    changes = load_experiment(write(sampling=sampling)).sampling
    assert changes.of("answer") == {"temperature": 0.5, "max_new_tokens": 64}
    assert changes.of("score") == {"temperature": 0.0, "max_new_tokens": 64, "stop": ["\n"]}
    assert changes.of("score", kept={"max_new_tokens"}) == {"temperature": 0.0, "stop": ["\n"]}


def test_what_it_writes_down_is_an_experiment_that_says_the_same(write, tmp_path):
    path = write(methods=["single", {"name": "goa", "k": [2, 3]}], cache="off", margin=0.05, seeds=[0, 3],
                 sampling={"by_purpose": {"answer": {"temperature": 0}}}, baseline="single")
    first = load_experiment(path, out="x")
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(first.as_dict() | {"resolved": {"identity": {}}}))
    assert load_experiment(again).as_dict() == first.as_dict()


@pytest.mark.parametrize(("change", "says"), [
    ({"methds": []}, "unknown key 'methds'. Did you mean 'methods'?"),
    ({"methods": None}, "methods"),
    ({"methods": []}, "list at least one"),
    ({"methods": "single"}, "methods"),
    ({"methods": [{"k": 3}]}, "with 'name'"),
    ({"methods": [{"name": "goa", "k": []}]}, "not empty"),
    ({"methods": [{"name": "goa", "label": " "}]}, "not empty"),
    ({"methods": [3]}, "must be a method's name"),
    ({"pool": []}, "list at least one"),
    ({"pool": [1]}, "name or path of a pool"),
    ({"pool": ["tiny", "tiny"]}, "listed twice"),
    ({"tasks": []}, "list at least one"),
    ({"tasks": [{"name": "letters", "fil": "x"}]}, "Did you mean 'file'?"),
    ({"tasks": [{"name": "letters", "file": "nowhere.jsonl"}]}, "no file nowhere.jsonl"),
    ({"tasks": [{"name": "letters", "limit": 0}]}, "at least 1"),
    ({"tasks": ["letters", "letters"]}, "give each a label"),
    ({"seeds": []}, "list at least one"),
    ({"seeds": [0, 0]}, "listed twice"),
    ({"seeds": ["a"]}, "seeds"),
    ({"batch_questions": 0}, "at least 1"),
    ({"draws": 3}, "at least 100"),
    ({"margin": 5}, "between 0 and 1"),
    ({"cache": 3}, "folder or off"),
    ({"cache": ""}, "folder or off"),
    ({"cache": __file__}, "is a file, not a folder"),
    ({"cache": "x" * 300}, "File name too long"),
    ({"out": ""}, "the run folder needs a name"),
    ({"out": f"{__file__}/run"}, "is a file, not a folder"),
    ({"draws": 10**9}, "at most 1,000,000"),
    ({"margin": 10**400}, "margin: int does not fit"),
    ({"methods": {}}, "methods: dict does not fit"),
    ({"methods": [{"name": "goa", 1: 2}]}, "must be a method's name"),
    ({"sampling": [1]}, "sampling: list does not fit"),
    ({"sampling": {"stop": {}}}, "stop"),
    ({"sampling": {"temprature": 1}}, "Did you mean 'temperature'?"),
    ({"sampling": {"by_purpose": {"judge": {}}}}, "unknown purpose 'judge'"),
    ({"sampling": {"by_purpose": {"score": {"heat": 1}}}}, "unknown key 'heat'"),
])
def test_what_is_wrong_is_said_in_one_line_with_its_place(write, change, says):
    path = write(**change)
    with pytest.raises(UserError) as error:
        load_experiment(path)
    assert says in str(error.value) and "experiment.yaml" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("word", ["seeds", "=3", "tasks.7.limit=3", "seeds=[1", "methods.first=3", "nonsense=1",
                                  "pool=${oc.env:NO_SUCH_VARIABLE}", "pool=${", "methods=${x}"])
def test_an_override_that_is_none_is_said_in_one_line(write, word):
    with pytest.raises(UserError) as error:
        load_experiment(write(), [word])
    assert "\n" not in str(error.value)


def test_a_file_that_is_missing_or_no_yaml_is_said_in_one_line(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        load_experiment(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("methods: [")
    with pytest.raises(UserError, match="bad.yaml"):
        load_experiment(tmp_path / "bad.yaml")
    assert os.listdir(tmp_path) == ["bad.yaml"]
