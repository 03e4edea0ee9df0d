"""What runs say beside accuracies: debates, calibration, pass@k and Relay's bars."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from goa_torch.bench import reference as reference_module
from goa_torch.bench import run_experiment
from goa_torch.bench.diagnostics import diagnostics, facts
from goa_torch.bench.side_tables import print_tables, side_tables
from goa_torch.bench.tables import TABLE_WIDTH
from goa_torch.methods import build_method, method_names
from goa_torch.methods.ceiling import structural_ceiling
from goa_torch.tasks.loading import load_questions
from tests.bench.world import make_pool
from tests.worlds import Spy, echo_pool, questions


@pytest.fixture
def run(write, tmp_path):
    """Runs an experiment in its folder."""

    def run(pool=None, **data):
        return run_experiment(write(**data), out=tmp_path / "run", pools={"tiny": pool or make_pool()}, quiet=True)

    return run


def line(question, correct, debate=None, confidence=None):
    told = None if debate is None else {"agents": ["a.0", "b.0"], "rounds": debate}
    return {"question": question, "correct": correct, "debate": told, "confidence": confidence or {}}


@pytest.mark.parametrize("name", method_names())
def test_every_methods_results_can_be_diagnosed(name):
    spy = Spy()
    with spy.watching():
        results = build_method(name, echo_pool(spy.reply))(questions(3))
    told = [json.loads(json.dumps(facts(result))) for result in results]
    for fact, result in zip(told, results):
        heard = any(stage["stage"] == "pass" for stage in result.trace["stages"])
        assert (fact["debate"] is not None) == (heard and len(result.trace["agents"]) > 1)
        assert all(0 <= level <= 1 for level in fact["confidence"].values())


def test_debates_of_a_method_are_one_row_and_methods_that_do_not_debate_none():
    lines = {"vote": [line("q0", True)], "mad": [line("q0", True, ["10", "11"]), line("q1", False, ["00", "01"])]}
    [row] = diagnostics(lines, {"name": "mmlu"}, 200)["debates"]
    assert row["method"] == "mad" and row["right"] == (0.25, 0.75) and row["gained"] == (0.5,)
    assert row["readout_loss"] == 0.5


def test_lines_of_older_runs_have_nothing_to_say():
    lines = {"vote": [{"question": "q0", "correct": True}]}
    assert not any(diagnostics(lines, {"name": "mmlu"}, 200).values())
    assert side_tables({"tasks": {"mmlu": {"rows": []}}}) == []


def test_calibration_is_a_row_for_each_source_of_confidence():
    lines = {"vote": [line(f"q{i}", i % 3 > 0, confidence={"agreement": (1 + i % 3) / 3, "tokens": 0.5})
                      for i in range(30)] + [line("q30", False)]}
    rows = diagnostics(lines, {"name": "mmlu"}, 200)["calibration"]
    assert [row["source"] for row in rows] == ["agreement", "tokens"]
    assert rows[0]["answers"] == 30 and rows[0]["results"] == 31 and rows[0]["auroc"]["value"] == 1.0
    assert rows[1]["auroc"]["value"] == 0.5


def test_samples_of_functions_have_pass_at_k():
    lines = {"single": [line(f"q{q}", q == 0 and s == 0) for q in range(2) for s in range(5)]}
    [row] = diagnostics(lines, {"name": "humaneval"}, 200)["pass_at_k"]
    assert row["samples"] == 5 and row["pass"] == pytest.approx({1: 0.1, 2: 0.2, 5: 0.5})
    assert diagnostics(lines, {"name": "mmlu"}, 200)["pass_at_k"] == []


def test_a_run_with_debates_shows_them_below_its_table(run):
    folder = run(methods=["single", {"name": "ring_mad", "n": 3, "rounds": 3}])
    text = (folder / "table.md").read_text(encoding="utf-8")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    [row] = next(iter(summary["tasks"].values()))["diagnostics"]["debates"]
    assert row["method"] == "ring_mad" and row["rounds"] == 2 and row["agents"] == 3
    assert "## Debates on" in text and "## Calibration on" in text and "## Bars" not in text
    console = Console(width=TABLE_WIDTH, record=True, file=open("/dev/null", "w"))
    print_tables(summary, console)
    shown = console.export_text()
    assert "Debates on" in shown and "martingale" in shown
    assert all(len(line.rstrip()) <= TABLE_WIDTH for line in shown.splitlines())


RELAY = {"name": "relay", "split": "validation", "limit": 6, "settings": {"depth": [1, 2, 3]}}


def test_relay_has_bars_that_are_found_once(run, monkeypatch):
    methods = ["single", "goa", "handoff", {"name": "sparse_mad", "n": None, "rounds": 4}]
    pool = make_pool(lambda chat: "7")
    folder = run(pool, methods=methods, tasks=[RELAY])
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    rows = {row["method"]: row for row in summary["tasks"]["relay"]["diagnostics"]["reference"]}
    asked = load_questions("relay", split="validation", limit=6, depth=(1, 2, 3))
    for name, settings in (("single", {}), ("goa", {}), ("sparse_mad", {"n": None, "rounds": 4})):
        right = structural_ceiling(build_method(name, pool, **settings), asked)
        assert rows[name]["ceiling"] == pytest.approx(sum(right) / 6)
        assert rows[name]["ceiling"] <= rows[name]["oracle"] and rows[name]["static"] <= rows[name]["oracle"]
        assert rows[name]["regret"] == pytest.approx(rows[name]["oracle"] - rows[name]["accuracy"])
    assert rows["handoff"]["ceiling"] is None and rows["handoff"]["oracle"] is None
    assert 0 <= rows["blind guess"]["accuracy"] <= 1
    assert "## Bars on relay" in (folder / "table.md").read_text(encoding="utf-8")
    monkeypatch.setattr(reference_module, "_bars", lambda *_: pytest.fail("looked for again"))
    run(pool, methods=methods, tasks=[RELAY])


def test_bars_of_a_mean_over_depths_weigh_each_depth_the_same(run):
    tasks = [RELAY | {"label": f"depth {d}", "limit": n, "settings": {"depth": d}} for d, n in ((1, 6), (2, 2))]
    folder = run(make_pool(lambda chat: "7"), methods=["single", "goa", "handoff"], tasks=tasks)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    rows = {row["method"]: row for row in summary["macro"]["diagnostics"]["reference"]}
    for method in ("single", "goa", "blind guess"):
        each = [next(row for row in table["diagnostics"]["reference"] if row["method"] == method)
                for table in summary["tasks"].values()]
        for bar in ("accuracy", "ceiling", "oracle"):
            wanted = None if each[0][bar] is None else pytest.approx(sum(row[bar] for row in each) / 2)
            assert rows[method][bar] == wanted
        assert rows[method]["results"] == sum(row["results"] for row in each)
    assert rows["handoff"]["ceiling"] is None
    assert "## Bars on the mean over depth 1, depth 2" in (folder / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name, settings", [
    ("single", {}), ("vote", {}), ("goa", {}), ("goa", {"readout": "mean"}), ("moa", {}), ("self_moa", {}),
    ("s2_mad", {}), ("random_nodup", {"n": None, "rounds": 4}), ("armor_mad", {}), ("iterate", {}), ("learned", {}),
    ("rumad", {}), ("gptswarm", {}),
])
def test_no_topology_does_better_than_the_oracle(name, settings):
    asked = load_questions("relay", split="validation", limit=12, depth=(1, 2, 3, 4))
    bars = reference_module._bars(build_method(name, make_relay_pool(), **settings), asked, {})
    for ceiling, static, oracle in zip(bars["ceiling"], bars["static"], bars["oracle"]):
        assert ceiling <= oracle and static <= oracle
    if name == "s2_mad":  # nobody is heard who has no answer: what it could have done counts all the same
        assert sum(bars["ceiling"]) < sum(bars["oracle"])


def make_relay_pool():
    from goa_torch.agents.base import Agent
    from goa_torch.agents.pool import Pool
    from goa_torch.tasks.relay import DOMAINS
    from goa_torch.types import Card

    pool = make_pool(lambda chat: "7")
    agents = [Agent(domain, pool.meta.model, Card(domain)) for domain in DOMAINS]
    return Pool(agents, pool.prompts, Agent("chief", pool.meta.model, Card("generalist")), name="six")


def test_a_damaged_reference_is_made_again(run):
    folder = run(methods=["single"], tasks=[RELAY])
    whole = (folder / "reference.json").read_text(encoding="utf-8")
    (folder / "reference.json").write_text(whole[:20], encoding="utf-8")
    run(methods=["single"], tasks=[RELAY])
    assert (folder / "reference.json").read_text(encoding="utf-8") == whole
