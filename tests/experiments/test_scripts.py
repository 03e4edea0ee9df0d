"""The scripts of experiments/ run at toy size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import yaml

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def script(name):
    sys.path.insert(0, str(EXPERIMENTS))  # as when it is run as a script
    spec = importlib.util.spec_from_file_location(f"experiments_{name}", EXPERIMENTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXPERIMENTS))
    return module


def test_gpu_check_runs_every_stage_on_a_cpu_at_toy_size(tmp_path, capsys):
    out = tmp_path / "figures.json"
    script("gpu_check").main(["--size", "toy", "--models", "2", "--questions", "3", "--max-new-tokens", "8",
                              "--device", "cpu", "--out", str(out)])
    figures = json.loads(out.read_text())
    calls = {label: f["calls_per_question"] for label, f in figures.items() if isinstance(f, dict) and "calls" in f}
    assert calls == {"goa k=3": 11, "goa k=3 readout=mean": 12, "moa layers=3": 19}
    assert all(f["failed_calls"] == 0 for f in figures.values() if isinstance(f, dict) and "calls" in f)
    assert "new tokens/s" in capsys.readouterr().out


def test_gpu_check_refuses_a_pool_of_no_models():
    with pytest.raises(SystemExit):
        script("gpu_check").main(["--models", "0"])


def test_throughput_compares_on_questions_spread_over_all_and_says_how_long_replies_are(capsys):
    throughput = script("throughput")
    assert throughput.spread(range(48), 4) == [0, 12, 24, 36] and throughput.spread(range(5), 5) == list(range(5))
    assert throughput.spread(range(7), 3) == [0, 2, 4]
    few = {"questions": 4, "seconds_per_question": 12.0, "calls_per_question": 11.0, "new_tokens_per_question": 300.0,
           "new_tokens_per_second": 25.0, "seconds_per_call": 1.1, "cached_tokens": 0, "prompt_tokens": 100}
    many = few | {"questions": 48, "seconds_per_question": 1.0, "new_tokens_per_question": 400.0,
                  "new_tokens_per_second": 400.0, "cached_tokens": 40}
    throughput.report({"a": many, "c": few})
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].split() == "questions s/question calls/q new tokens/q new tokens/s s/call reused".split()
    assert lines[1].split()[-7:] == ["48", "1.00", "11.0", "400.0", "400.0", "1.100", "40%"]
    assert lines[-1].startswith("(a) over (c): 12.0x by question") and "16.0x by generated token" in lines[-1]


def test_learned_topology_trains_draws_and_compares_at_toy_size(tmp_path):
    from tests.agents.tiny import save_tiny

    save_tiny(tmp_path / "model")
    agents = [{"name": name, "model": "m", "card": {"domain": name}} for name in ("ann", "bob", "cat")]
    (tmp_path / "pool.yaml").write_text(json.dumps({
        "name": "toy", "about": "random agents", "prompts": "relay", "sampling": {"max_new_tokens": 4},
        "models": {"m": {"backend": "hf", "source": "./model"}}, "agents": agents}))
    out = script("learned_topology").main([
        "--quick", "--out", str(tmp_path / "out"), "--seeds", "0", "--regimes", "chain",
        "--runs", "edge_gnn", "edge_logits+score+reward", "gptswarm",
        "--limit", "2", "--jobs", "1", "--set", f"pool={tmp_path / 'pool.yaml'}", "task.limit=8", "validation.limit=4",
        "schedule.steps=2", "schedule.batch=2", "debate.rounds=2", "debate.k=1"])
    tuning = json.loads((out / "tuning.json").read_text())["chain"]
    assert set(tuning) == {"edge_gnn", "edge_logits+score+reward", "gptswarm"}
    for name, facts in tuning.items():
        assert set(facts["tried"]) == {"0.3", "1", "3"}
        assert facts["factor"] == 1 or facts["tried"][f"{facts['factor']:g}"] > facts["tried"]["1"]
        rate = [json.loads((folder / "best" / "topology.json").read_text())["trained"]["training"]["schedule"]["lr"]
                for folder in (out / "tuning" / "chain" / f"{name}-1", out / "chain" / f"{name}-0")]
        assert rate[1] == pytest.approx(rate[0] * facts["factor"])
    figures = json.loads((out / "training.json").read_text())["chain"]
    assert set(figures) == {"edge_gnn 0", "edge_logits+score+reward 0", "gptswarm 0"}
    assert all(facts["tokens"] > 0 for facts in figures.values()) and (out / "curves_chain.png").is_file()
    summary = json.loads((out / "compare_chain" / "summary.json").read_text())
    assert summary["results"] > 0
    assert {"edge_gnn untrained 0", "gptswarm untrained 0"} <= {row.get("label") for row in methods_of(out)}
    rows = {row["name"]: row for row in json.loads((out / "seeds_chain.json").read_text())}
    assert rows["edge_gnn"]["to_untrained"] and rows["random_nodup"]["to_random"] == [0, 0, 0]
    assert [path.name for path in script("learned_graphs").main([str(out / "chain"), "--limit", "2"])] == ["graphs.png"]
    drawn = json.loads((out / "chain" / "graphs.json").read_text())
    assert set(drawn) == {"edge_gnn untrained", "edge_gnn-0", "edge_logits untrained", "edge_logits+score+reward-0"}
    assert all(max(map(max, facts["heard"][0])) <= 1 for facts in drawn.values())


def methods_of(out):
    return yaml.safe_load((out / "compare_chain.yaml").read_text())["methods"]


def test_rows_of_a_controllers_seeds_are_told_as_one_with_an_interval_over_questions_and_seeds(tmp_path, capsys):
    def line(method, question, correct):
        return json.dumps({"method": method, "question": question, "seed": 0, "correct": correct,
                           "usage": {"prompt_tokens": 9, "completion_tokens": 1}})

    answers = {"random_nodup": "0101", "a+score 0": "1111", "a+score 1": "1101", "a untrained 0": "0000",
               "a untrained 1": "0001"}
    (tmp_path / "results.jsonl").write_text("\n".join(
        line(method, f"q{number}", right == "1") for method, all_of in answers.items()
        for number, right in enumerate(all_of)))
    rows = {row["name"]: row for row in script("learned_topology_seeds").main([str(tmp_path)])}
    mine = rows["a+score"]
    assert mine["accuracy"] == 87.5 and mine["seeds"] == [100, 75] and mine["tokens"] == 10
    assert mine["to_random"][0] == 37.5 and mine["to_untrained"][0] == 75
    assert rows["a untrained"]["to_untrained"] is None
    assert mine["interval"][0] < 87.5 < mine["interval"][1] and mine["to_random"][1] < 37.5 < mine["to_random"][2]
    assert "+37.5 [" in capsys.readouterr().out


def test_the_learning_rate_that_does_best_on_validation_is_used_and_among_equals_the_one_in_the_middle(tmp_path):
    accuracies = {("a", 0.3): 0.5, ("a", 1.0): 0.4, ("a", 3.0): 0.1, ("b", 0.3): 0.2, ("b", 1.0): 0.2, ("b", 3.0): 0.2}
    trials = {}
    for (name, factor), accuracy in accuracies.items():
        folder = trials["chain", name, factor] = tmp_path / f"{name}-{factor}"
        folder.mkdir()
        (folder / "summary.json").write_text(json.dumps({"best": {"validation": {"accuracy": accuracy}}}))
    found = script("learned_topology").tuned({**trials, ("chain", "c", 1.0): tmp_path / "unfinished"})
    assert {name: facts["factor"] for name, facts in found["chain"].items()} == {"a": 0.3, "b": 1.0}


def test_edge_step_measures_models_one_by_one_and_stacked(tmp_path, capsys):
    rows = script("edge_step").main(["--batch", "2", "--steps", "1", "--out", str(tmp_path / "steps.json")])
    assert json.loads((tmp_path / "steps.json").read_text()) == rows and len(rows) == 8
    one, stacked = ([row["tokens"] for row in rows if row["stacked"] is how] for how in (False, True))
    assert [row["calls"] for row in rows] == [24, 24, 24, 24, 48, 48, 48, 48] and len(one) == len(stacked)
