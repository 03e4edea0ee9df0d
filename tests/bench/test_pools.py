"""Pools of an experiment whose settings are swept, and comparisons between pools."""

from __future__ import annotations

import pytest
import yaml

from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from goa_torch.bench.pools import load_pools, pool_choices
from goa_torch.errors import UserError

POOL = {"prompts": "default", "models": {
    "m": {"backend": "echo", "rules": [{"when": ".", "say": "x"}]}, "n": {"backend": "echo"}},
    "agents": [{"name": "ann", "model": "m", "card": {"domain": "math"}},
               {"name": "bob", "model": "n", "card": {"domain": "law"}}]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump(POOL))
    return str(path)


def test_lists_among_the_changes_are_swept_and_the_label_shows_what_varies(file):
    told = {"name": file, "label": "told", "sampling.temperature": [0, 1], "about": "x"}
    [plain, *swept] = pool_choices([file, told])
    assert plain.changes == () and plain.label is None
    assert [(c.label, c.changes) for c in swept] == [
        ("told(temperature=0)", ("sampling.temperature=0", 'about="x"')),
        ("told(temperature=1)", ("sampling.temperature=1", 'about="x"'))]
    [unnamed, _] = pool_choices([{"name": file, "judging": ["text", "likelihood"]}])
    assert unnamed.label == "two(judging=text)"


def test_braces_give_several_keys_one_value():
    [choice] = pool_choices([{"name": "p", "models.{a, b}.kind": "wrong"}])
    assert choice.changes == ('models.a.kind="wrong"', 'models.b.kind="wrong"') and choice.label is None


def test_pools_are_built_as_changed_and_share_the_models_that_are_alike(file):
    pools = load_pools([{"name": file, "label": "cold", "sampling.temperature": 0},
                        {"name": file, "label": "hot", "sampling.temperature": 2, "models.n.context_length": 50}],
                       {}, "here")
    cold, hot = pools["cold"], pools["hot"]
    assert cold.name == "cold" and [p.sampling["answer"].temperature for p in (cold, hot)] == [0, 2]
    assert cold["ann"].model is hot["ann"].model and cold["bob"].model is not hot["bob"].model
    assert hot["bob"].model.context_length == 50


@pytest.mark.parametrize("entry, says", [
    ({"modles.m.backend": "echo"}, "unknown key 'modles'"), ({"models.m.bakend": "echo"}, "bakend"),
    ({"models.m.rules": 3}, "rules"), ({"judging": "dice"}, "judging")])
def test_a_change_that_does_not_fit_is_one_line(file, entry, says):
    with pytest.raises(UserError) as error:
        load_pools([{"name": file, **entry}], {}, "here")
    assert says in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("pool", [{"label": "x"}, {"name": ""}, {"name": "two.yaml", "label": " "},
                                  {"name": "two.yaml", "about": []}, {"name": "two.yaml", 3: 4}])
def test_an_entry_that_is_no_pool_is_one_line(write, pool):
    with pytest.raises(UserError, match="name or path of a pool") as error:
        load_experiment(write(pool=[pool]))
    assert "\n" not in str(error.value)


def test_two_pools_of_one_name_are_refused(file):
    with pytest.raises(UserError, match="named 'two'"):
        load_pools([file, {"name": file, "about": "other"}], {}, "here")


def test_each_method_is_compared_with_itself_on_the_baseline_pool(write, file):
    path = write(pool=[{"name": "two.yaml", "label": "clean"}, {"name": "two.yaml", "sampling.temperature": [0, 2]}],
                 baseline_pool="clean")
    cells = make_plan(load_experiment(path)).cells
    assert {(c.label, c.baseline) for c in cells} == {
        (f"{m} @ {p}", f"{m} @ clean") for m in ("single", "vote")
        for p in ("clean", "two(temperature=0)", "two(temperature=2)")}


def test_a_baseline_pool_that_is_none_or_one_baseline_too_many_is_one_line(write, file):
    with pytest.raises(UserError, match="Did you mean 'two'"):
        make_plan(load_experiment(write(pool=["two.yaml"], baseline_pool="tow")))
    with pytest.raises(UserError, match="not both"):
        load_experiment(write(pool=["two.yaml"], baseline_pool="two", baseline="vote"))


def test_what_is_written_down_is_the_same_experiment(write, file, tmp_path):
    path = write(pool=[{"name": "two.yaml", "sampling.temperature": [0, 2]}], baseline_pool="two(temperature=0)")
    first = load_experiment(path)
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(first.as_dict()))
    assert load_experiment(again).as_dict() == first.as_dict()
