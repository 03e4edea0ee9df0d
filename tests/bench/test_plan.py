from __future__ import annotations

from dataclasses import replace

import pytest

from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from goa_torch.errors import UserError

from . import world

BEST = {"name": "single", "agent": "best"}


def plan(path, *overrides, pools=None, **more):
    return make_plan(load_experiment(path, overrides, **more), pools or {"tiny": world.make_pool()})


def labels(path, *overrides, **more):
    return [cell.label for cell in plan(path, *overrides, **more).cells]


def test_lists_in_a_methods_settings_are_swept_and_the_label_shows_what_varies(write):
    path = write(methods=["single", {"name": "goa", "k": [2, 3], "readout": ["max", "mean"], "tau": 0.1},
                          {"name": "moa", "layers": [2], "agents": [["math", "law"]], "label": "small"}])
    made = plan(path)
    assert [cell.label for cell in made.cells] == [
        "single", "goa(k=2, readout=max)", "goa(k=2, readout=mean)", "goa(k=3, readout=max)", "goa(k=3, readout=mean)",
        "small"]
    assert made.cells[2].settings == {"k": 2, "readout": "mean", "tau": 0.1}
    assert made.cells[-1].settings == {"layers": 2, "agents": ["math", "law"]}
    assert made.configs["goa(k=3, readout=max)"]["flow"] == "both"  # defaults are filled in


def test_methods_listed_separately_are_told_apart(write):
    path = write(methods=["single", {"name": "single", "agent": "math"}, {"name": "goa", "k": 2}, {"name": "goa"}])
    assert labels(path) == ["single", "single(agent=math)", "goa(k=2)", "goa"]
    with pytest.raises(UserError, match="'single' is listed twice"):
        plan(write(methods=["single", "single"]))


def test_every_method_runs_on_every_pool_against_the_baseline_of_its_pool(write):
    pools = {"tiny": world.make_pool(), "other": world.make_pool(name="big")}
    cells = plan(write(pool=["tiny", "other"], baseline="vote"), pools=pools).cells
    assert [(c.label, c.baseline) for c in cells] == [
        ("single @ tiny", "vote @ tiny"), ("vote @ tiny", "vote @ tiny"), ("single @ big", "vote @ big"),
        ("vote @ big", "vote @ big")]


@pytest.mark.parametrize(("baseline", "row"), [(None, "single"), ("vote", "vote"), ("goa", "graph(k=2)"),
                                               ("graph", "graph(k=2)")])
def test_the_baseline_is_a_label_or_a_name_and_the_first_by_default(write, baseline, row):
    path = write(methods=["single", "vote", {"name": "goa", "k": [2, 2], "label": "graph"}], baseline=baseline)
    with pytest.raises(UserError, match="listed twice"):
        plan(path)
    path = write(methods=["single", "vote", {"name": "goa", "k": 2, "label": "graph(k=2)"}], baseline=baseline)
    assert {cell.baseline for cell in plan(path).cells} == {row}


def test_the_experiments_sampling_changes_the_pools(write):
    pool, sampling = world.make_pool(), {"temperature": 0, "by_purpose": {"score": {"max_new_tokens": 7}}}
    made = plan(write(sampling=sampling), pools={"tiny": pool})
    changed = made.pools["tiny"].sampling
    assert changed["score"].max_new_tokens == 7 and changed["answer"].max_new_tokens == 40
    assert {how.temperature for how in changed.values()} == {0} and pool.sampling["score"].temperature == 0.7


def test_what_a_pool_sets_for_one_purpose_is_changed_by_name_only(write):
    pool = world.make_pool()
    pool.sampling["score"] = replace(pool.sampling["score"], max_new_tokens=24)
    sampling = {"max_new_tokens": 96, "temperature": 0.2}
    changed = plan(write(sampling=sampling), pools={"tiny": pool}).pools["tiny"].sampling
    assert changed["score"].max_new_tokens == 24 and changed["select"].max_new_tokens == 96
    assert {how.temperature for how in changed.values()} == {0.2}
    named = plan(write(sampling=sampling | {"by_purpose": {"score": {"max_new_tokens": 48}}}), pools={"tiny": pool})
    assert named.pools["tiny"].sampling["score"].max_new_tokens == 48


@pytest.mark.parametrize(("change", "says"), [
    ({"methods": ["gao"]}, "Did you mean 'goa'?"),
    ({"methods": [{"name": "goa", "kk": 3}]}, "Did you mean 'k'?"),
    ({"methods": [{"name": "goa", "k": [2, 9]}]}, "k"),
    ({"methods": [{"name": "goa", "readout": "min"}]}, "readout"),
    ({"methods": [{"name": "single", "agent": "maths"}]}, "Did you mean 'math'?"),
    ({"methods": [BEST]}, "list tasks under 'validation'"),
    ({"pool": "smolm2"}, "Did you mean 'smollm2'?"),
    ({"tasks": ["nonsense"]}, "unknown task"),
    ({"baseline": "singel"}, "Did you mean 'single'?"),
    ({"methods": ["vote", {"name": "goa", "k": [2, 3]}], "baseline": "goa"}, "choose one of"),
    ({"sampling": {"temperature": -1}}, "temperature must be >= 0"),
    ({"sampling": {"temperature": float("inf")}}, "temperature must be >= 0 and finite"),
    ({"sampling": {"stop": [""]}}, "stop must be strings that are not empty"),
    ({"texts": ["What?", " "]}, "'q1'"),
    ({"methods": [BEST], "validation": [{"name": "letters", "file": "questions.jsonl"}]}, "also a test question"),
])
def test_what_is_wrong_is_said_in_one_line(write, change, says):
    path = write(**change)
    with pytest.raises(UserError) as error:
        plan(path)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_empty_and_ambiguous_question_files_are_refused(write, tmp_path):
    path = write()
    (tmp_path / "questions.jsonl").write_text("")
    with pytest.raises(UserError, match="no questions"):
        plan(path)
    world.write_questions(tmp_path / "questions.jsonl", ["a?", "b?"])
    with (tmp_path / "questions.jsonl").open("a") as file:
        file.write('{"id": "q0", "text": "c?"}\n')
    with pytest.raises(UserError, match="two questions .* 'q0'"):
        plan(path)


def test_more_seeds_and_more_questions_are_no_change(write):
    path = write(seeds=[0, 1])
    old = plan(path, limit=3).identity()
    assert plan(path, limit=3).changes_since(old) == []
    assert plan(path, seeds=[1, 0, 2], limit=6).changes_since(old) == []
    assert plan(path, "baseline=vote", "batch_questions=2", "margin=0.1", "cache=off", limit=3).changes_since(old) == []
    assert plan(path, "methods=[vote, single]", limit=3).changes_since(old) == []


@pytest.mark.parametrize(("overrides", "names"), [
    (["seeds=[0]"], "seeds"), (["tasks.0.limit=2"], "tasks.letters.questions"),
    (["sampling.temperature=0"], "temperature"),
    (["methods=[single, {name: vote, samples: 2}]"], "samples: 1 there, 2 here"),
    (["methods=[single]"], "methods.vote"), (["methods=[single, vote, moa]"], "methods.moa"),
])
def test_any_other_change_is_named(write, overrides, names):
    path = write(seeds=[0, 1])
    old = plan(path, limit=3).identity()
    changed = plan(path, "tasks.0.limit=3", *overrides).changes_since(old)
    assert changed and any(names in line for line in changed)


def test_changed_questions_prompts_and_agents_are_a_change(write, tmp_path):
    path = write()
    old = plan(path).identity()
    other = world.make_pool()
    other.agents[0] = type(other.agents[0])("general", other.agents[0].model, other.agents[0].card, "You are rude.")
    assert any("system" in line for line in plan(path, pools={"tiny": other}).changes_since(old))
    write(texts=["Something else"] + [f"What is {i}?" for i in range(1, 6)])
    assert any("tasks.letters.digest" in line for line in plan(path).changes_since(old))
