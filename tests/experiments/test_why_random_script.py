"""why_random.py and main_table.py with agents that make no mistakes."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import yaml

from goa_torch import load_pool
from goa_torch.bench import run_experiment
from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from goa_torch.errors import UserError
from goa_torch.methods.ceiling import perfect_pool

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(EXPERIMENTS))  # as when it is run as a script

    def load(name):
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


@pytest.fixture
def perfect_run(tmp_path):
    """A run of four rounds on the chain of eight, by specialists that make no mistakes and two who only pass on."""
    real = load_pool(EXPERIMENTS / "pools" / "relay_chain8.yaml")
    pool = perfect_pool(real, {"generalist": (), "equal_a": ()})
    tasks = [{"name": "relay", "label": f"depth {d}", "limit": 12, "settings": {"depth": d}} for d in (2, 3)]
    methods = [{"name": name, "n": None, "rounds": 4, "label": label} for name, label in (
        ("random_nodup", "random anew"), ("random_fixed", "random fixed"), ("ring_mad", "ring"))]
    run_experiment(EXPERIMENTS / "why_random.yaml", [
        "pool=perfect", f"tasks={json.dumps(tasks)}", f"methods={json.dumps(methods)}"], seeds=[0, 1],
        out=tmp_path / "chain", pools={"perfect": pool}, quiet=True)
    return tmp_path / "chain", real


def test_theory_is_drawn_beside_simulation(script):
    why = script("why_random")
    rows = why.simulated((8, 64), seeds=2, chains=8)
    found = {(row["rule"], row["n"], row["measure"]): row for row in rows}
    assert found["ring", 8, "everyone"]["value"] == found["ring", 8, "everyone"]["theory"] == 4
    assert found["full", 64, "hop"]["value"] == 1 and found["random fixed", 64, "never"]["value"] > 0
    assert abs(found["random anew", 64, "factor"]["value"] - found["random anew", 64, "factor"]["theory"]) < 0.02
    why.show_theory(rows)
    assert why.plots.draw_theory(rows).startswith(b"\x89PNG")


def test_agents_without_mistakes_are_right_exactly_where_the_work_could_arrive(script, perfect_run):
    why = script("why_random")
    rows = why.outcomes_of(*perfect_run)
    assert len(rows) == 3 * 24 * 2 * 4  # rules x questions x seeds x rounds
    assert all(row["right"] == row["reached"] for row in rows)
    assert {row["reached"] for row in rows if row["rounds"] == 2 and row["depth"] == 2} == {False, True}
    table = why.horizons_of(rows)
    assert {(row["rounds"], row["accuracy"]) for row in table if row["depth"] == 3 and row["rounds"] < 3} == {
        (1, 0.0), (2, 0.0)}
    assert all(row["difference"] == 0 for row in table if row["method"] == "random anew")
    said = why.explained(rows)
    assert said["correlation"] == pytest.approx([1, 1, 1]) and said["effect"] == pytest.approx([1, 1, 1])


def test_recorded_graphs_of_a_run_are_measured(script, perfect_run):
    by = {line["method"]: line for line in script("why_random").recorded(perfect_run[0])}
    assert by["ring"]["heard"] == by["random anew"]["heard"] == 2
    assert by["ring"]["reach 1"] == pytest.approx(2 / 7) and by["ring"]["reach 2"] == pytest.approx(4 / 7)
    assert by["random anew"]["reach 3"] > by["random fixed"]["reach 3"]


def test_a_folder_that_is_no_run_is_named(script, tmp_path):
    with pytest.raises(UserError, match="is not a run folder"):
        list(script("why_random").recorded(tmp_path))


def test_planted_experts_stand_as_far_apart_as_agents_drawn_at_random(script):
    why = script("why_random")
    for n, places in why.PLACES.items():
        pool = why.planted(load_pool("relay"), n)
        assert len(pool) == n and [pool.agents[place].name for place in places] == list(why.NEEDED)
        assert sum(agent.card.domain in why.NEEDED for agent in pool.agents) == 3
        steps = [abs(a - b) for a in places for b in places if a < b]
        assert sum(min(step, n - step) for step in steps) / 3 == n / 4


def test_every_regime_of_the_main_table_is_a_sound_experiment_of_equal_calls(script, tmp_path):
    main = script("main_table")
    base = yaml.safe_load((EXPERIMENTS / "main_table.yaml").read_text())
    for regime in main.REGIMES:
        file = tmp_path / f"{regime}.yaml"
        file.write_text(yaml.safe_dump(main.for_regime(base, regime)))
        plan = make_plan(load_experiment(file, limit=2))
        settings = {cell.label: cell.settings for cell in plan.cells}
        agents = len(next(iter(plan.pools.values())))
        four = 4 * agents
        assert settings["iterate (best)"]["calls"] == settings["self-consistency (best)"]["n"] == four
        assert 2 * settings["handoff, 4 rounds"]["turns"] == four == 4 * settings["handoff, 2 rounds"]["turns"]
        assert settings["random peers, 4 rounds"]["rounds"] * agents == four
        honest = settings["oracle route"].get("agents")
        assert honest is None or not {"mistaken", "liar"} & {name.split("_")[0] for name in honest}


def test_rows_of_trained_topologies_appear_where_their_checkpoint_is(script, tmp_path, capsys):
    main = script("main_table")
    (tmp_path / "chain").mkdir()
    asked = {"gradient": str(tmp_path / "{regime}"), "reinforce": "none", "rumad": "relay"}
    assert set(main.trained_rows("chain", asked)) == {"gradient", "rumad"}
    assert set(main.trained_rows("harm", asked)) == {"rumad"}
    assert "no row 'gradient-learned'" in capsys.readouterr().out


def test_runs_of_a_regime_become_one_table_paired_by_question(script, tmp_path):
    main = script("main_table")
    pool = perfect_pool(load_pool("relay"))
    for folder, methods in (("chain", [{"name": "vote", "label": "vote, 2 rounds"},
                                       {"name": "random_nodup", "n": None, "rounds": 4, "label": "random"}]),
                            ("chain_rumad", [{"name": "mad", "n": None, "history": False, "rounds": 3,
                                              "label": "PPO controller"}])):
        file = tmp_path / f"{folder}.yaml"
        file.write_text(yaml.safe_dump({"pool": "perfect", "methods": methods, "seeds": [0], "tasks": [
            {"name": "relay", "label": f"depth {d}", "limit": 20, "settings": {"depth": d}} for d in (1, 3)]}))
        run_experiment(file, out=tmp_path / folder, pools={"perfect": pool}, quiet=True)
    table = main.merged(tmp_path, "random")
    rows = {row["method"]: row for row in table["chain"]["rows"]}
    assert list(table) == ["chain"] and table["chain"]["questions"] == 40
    assert rows["vote, 2 rounds"]["accuracy"] == 0.5 and rows["PPO controller"]["accuracy"] == 1
    assert rows["vote, 2 rounds"]["difference"] == pytest.approx(0.5 - rows["random"]["accuracy"])
    assert rows["random"]["difference"] is None
    told = main.markdown(table)
    assert "| vote, 2 rounds | 50.0 [" in told and "| random | baseline |" in told
    assert main.as_csv(table).count("\n") == 4 and main.draw_table(table).startswith(b"\x89PNG")
    assert main.merged(tmp_path / "nowhere", "random") == {}
