"""goa train for topologies: what it writes, resumes and refuses; with random agents of milliseconds."""

from __future__ import annotations

import json

import pytest
import torch
import yaml

from goa_torch import load_pool, load_questions
from goa_torch.agents.stacked_decoding import StackedExchange
from goa_torch.cli import main
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.topology.learned import controller_class
from goa_torch.topology.learned.checkpoint import load_topology, save_topology
from goa_torch.training.topology.curves import read_lines
from goa_torch.training.topology.estimators import EstimatorConfig, estimate
from goa_torch.training.topology.training import read_training, train_topology
from goa_torch.training.topology.world import DebateWorld, MemoryCache, Supervision
from goa_torch.types import Reply
from tests.agents.tiny import save_tiny

NAMES = ("ann", "bob", "cat")


@pytest.fixture(scope="module")
def pool_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pool")
    for number in range(2):
        save_tiny(folder / f"m{number}", seed=number)
    (folder / "three.yaml").write_text(yaml.safe_dump({
        "name": "three", "about": "random agents", "prompts": "relay", "sampling": {"max_new_tokens": 4},
        "models": {f"m{i}": {"backend": "hf", "source": f"./m{i}", "dtype": "float32"} for i in range(2)},
        "agents": [{"name": name, "model": f"m{i % 2}", "card": {"domain": name}} for i, name in enumerate(NAMES)]}))
    return folder / "three.yaml"


@pytest.fixture
def training(tmp_path, pool_file):
    settings = {
        "kind": "topology", "pool": str(pool_file),
        "task": {"name": "relay", "limit": 8, "settings": {"depth": [2, 3]}},
        "validation": {"name": "relay", "split": "validation", "limit": 4, "settings": {"depth": [2, 3]}},
        "debate": {"rounds": 2, "k": 1}, "controller": {"name": "edge_logits"}, "estimator": {"name": "pathwise"},
        "schedule": {"steps": 4, "batch": 4, "validate_every": 2},
        "presets": {"reward": {"estimator": {"name": "score", "draws": 2}, "supervision": {"value": "reward"}},
                    "gnn": {"controller": {"name": "edge_gnn"}}}}
    path = tmp_path / "training.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def quiet(line):
    pass


def test_a_training_leaves_topologies_curves_and_costs(training, tmp_path):
    assert main(["train", str(training), "--out", str(tmp_path / "run")]) == 0
    run = tmp_path / "run"
    assert {p.name for p in run.iterdir()} == {"best", "last", "curve.jsonl", "curve.png", "summary.json",
                                               "training.safetensors"}
    summary, lines = json.loads((run / "summary.json").read_text()), read_lines(run / "curve.jsonl")
    assert summary["steps"] == 4 and [line["step"] for line in lines if "value" in line] == [1, 2, 3, 4]
    assert summary["training"]["calls"] == lines[-1]["calls"] > 0 and summary["training"]["backward_tokens"] > 0
    assert summary["everybody"]["tokens"] > summary["best"]["validation"]["tokens"]
    saved = summary["everybody"]["tokens"] - summary["best"]["validation"]["tokens"]
    assert summary["tokens_saved_a_question"] == saved > 0


def test_a_training_tells_what_it_cost_and_whether_it_was_worth_it(training, tmp_path):
    lines = []
    run = train_topology(training, out=tmp_path / "run", say=lines.append)
    summary = json.loads((run / "summary.json").read_text())
    cost, best = lines[-2:]
    assert f"{summary['training']['calls']:,.0f} calls" in cost and " s" in cost
    assert f"{summary['training']['all_tokens']:,.0f} tokens" in cost
    assert summary["best"]["step"] == 0 and summary["pays_after_questions"] is None  # random agents are never right
    assert "gained nothing" in best and "pays" not in best


def test_trainings_that_share_an_exchange_share_first_answers(training, tmp_path):
    exchange, paid = StackedExchange(MemoryCache()), []
    for seed in range(2):
        settings = [f"schedule.seed={seed}", "schedule.batch=8"]
        run = train_topology(training, settings, tmp_path / str(seed), quiet, exchange)
        told = json.loads((run / "summary.json").read_text())["training"]
        paid.append(told["paid_tokens"] / told["tokens"])
    assert paid[1] < paid[0] < 1


def test_draws_of_an_estimator_start_from_the_same_answers(pool_file):
    pool = load_pool(str(pool_file))
    world = DebateWorld(pool, 2, supervision=Supervision(value="reward"))
    controller = controller_class("edge_logits").for_agents(NAMES, k=1)
    asked = load_questions("relay", split="train", depth=[2], limit=3)
    made = estimate(EstimatorConfig("score", draws=4), world, controller, asked)
    assert made.paid.calls <= 9 + 4 * 9 and made.usage.calls == 4 * 18


def test_a_memory_forgets_what_nobody_asks_for():
    memory, said = MemoryCache(2), Reply("x")
    memory.put([("a", said), ("b", said)])
    assert memory.get(["a"]) == [said]
    memory.put([("c", said)])
    assert memory.get(["a", "b", "c"]) == [said, None, said]


def test_what_was_trained_runs_in_goa_bench(training, tmp_path, pool_file):
    run = train_topology(training, ["preset=gnn"], tmp_path / "run", quiet)
    bench = tmp_path / "bench.yaml"
    bench.write_text(yaml.safe_dump({
        "pool": str(pool_file), "tasks": [{"name": "relay", "limit": 2}],
        "methods": [{"name": "learned", "checkpoint": str(run / "best"), "rounds": 2},
                    {"name": "learned", "rounds": 2, "label": "untrained"}]}))
    assert main(["bench", str(bench), "--out", str(tmp_path / "results")]) == 0


@pytest.mark.parametrize("controller", ["edge_logits", "edge_gnn", "gptswarm", "agentprune", "agentdropout",
                                        "gdesigner"])
def test_a_checkpoint_is_deployed_as_it_was_validated(training, tmp_path, pool_file, controller):
    """Without a word about k, threshold or rounds, ``goa bench`` spends exactly what validation has spent."""
    settings = [f"controller.name={controller}", "debate={rounds: 3, k: 1, threshold: 0}"]
    if controller not in ("edge_logits", "edge_gnn"):
        settings += ["estimator={name: score, draws: 1, baseline: none}", "supervision.value=reward", "schedule.lr=0.1"]
        settings += ["controller.settings={turns: 2}"] if controller != "gptswarm" else []
    run = train_topology(training, settings, tmp_path / "run", quiet)
    best = json.loads((run / "summary.json").read_text())["best"]["validation"]
    name = controller if controller not in ("edge_logits", "edge_gnn") else "learned"
    bench = tmp_path / "bench.yaml"
    validation = yaml.safe_load(training.read_text())["validation"]
    bench.write_text(yaml.safe_dump({
        "pool": str(pool_file), "tasks": [validation], "methods": [{"name": name, "checkpoint": str(run / "best")}]}))
    assert main(["bench", str(bench), "--out", str(tmp_path / "results")]) == 0
    lines = read_lines(tmp_path / "results" / "results.jsonl")
    tokens = [sum(call["usage"]["prompt_tokens"] + call["usage"]["completion_tokens"] for call in line["calls"])
              for line in lines]
    assert sum(tokens) / 4 == best["tokens"] and sum(len(line["calls"]) for line in lines) / 4 == best["calls"]


def test_a_setting_overrides_how_a_checkpoint_was_trained(training, tmp_path, pool_file):
    run = train_topology(training, ["preset=gnn"], tmp_path / "run", quiet)
    pool = load_pool(str(pool_file))
    as_trained = build_method("learned", pool, checkpoint=str(run / "best"))
    assert (as_trained.config["rounds"], as_trained.config["k"], as_trained.connect.k) == (2, 1, 1)
    other = build_method("learned", pool, checkpoint=str(run / "best"), k="all", rounds=3, weights="soft")
    assert other.connect.k is None and other.config["k"] == "all" and other.config["rounds"] == 3
    assert as_trained.config["weighting"] == "none" and other.config["weighting"] == "attention_receiver"
    for method in (as_trained, other):  # settings written down build the same method again
        assert build_method("learned", pool, **method.config).config == method.config
    assert as_trained.fingerprint == other.fingerprint
    changed = train_topology(training, ["preset=gnn", "schedule.seed=1"], tmp_path / "changed", quiet)
    assert build_method("learned", pool, checkpoint=str(changed / "best")).fingerprint != as_trained.fingerprint


@pytest.mark.parametrize("name, settings", [
    ("learned", {"controller": "edge_gnn"}), ("learned", {"controller_seed": 1}), ("gptswarm", {"spread": 0.5}),
    ("agentprune", {"turns": 3})])
def test_settings_of_untrained_topologies_do_not_go_with_a_checkpoint(training, tmp_path, pool_file, name, settings):
    controller = "edge_gnn" if name == "learned" else name
    save_topology(tmp_path, controller_class(controller).for_agents(NAMES), controller, NAMES)
    with pytest.raises(UserError, match="untrained controllers"):
        build_method(name, load_pool(str(pool_file)), checkpoint=str(tmp_path), **settings)


def test_a_checkpoint_runs_with_the_method_it_was_trained_for(tmp_path, pool_file):
    save_topology(tmp_path, controller_class("gptswarm").for_agents(NAMES), "gptswarm", NAMES)
    with pytest.raises(UserError, match="trained for"):
        build_method("agentprune", load_pool(str(pool_file)), checkpoint=str(tmp_path))


def test_a_training_that_was_stopped_ends_in_the_same_weights(training, tmp_path):
    for preset in ("gnn", "reward"):
        whole = train_topology(training, [f"preset={preset}"], tmp_path / preset / "whole", quiet)
        train_topology(training, [f"preset={preset}", "schedule.steps=2"], tmp_path / preset / "parts", quiet)
        parts = train_topology(training, [f"preset={preset}"], tmp_path / preset / "parts", quiet)
        one, two = load_topology(whole / "last"), load_topology(parts / "last")
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(one.parameters(), two.parameters(), strict=True))
        kept = [[line["step"] for line in read_lines(run / "curve.jsonl")] for run in (whole, parts)]
        assert kept[0] == kept[1]


def test_a_training_with_other_settings_is_not_resumed(training, tmp_path):
    train_topology(training, ["schedule.steps=1"], tmp_path / "run", quiet)
    with pytest.raises(UserError, match="other settings"):
        train_topology(training, ["schedule.lr=0.5"], tmp_path / "run", quiet)


def test_it_stops_when_validation_no_longer_improves(training, tmp_path):
    run = train_topology(training, ["schedule.steps=40", "schedule.patience=2", "schedule.validate_every=1"],
                         tmp_path / "run", quiet)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["steps"] == summary["best"]["step"] + 2


@pytest.mark.parametrize("overrides, says", [
    (["task.split=test"], "test questions"), (["validation.split=test"], "test questions"),
    (["task.name=nothing"], "nothing"), (["controller.name=magic"], "Available"),
    (["estimator.name=guess"], "choose one of"), (["schedule.steps=0"], "at least 1"),
    (["preset=huge"], "Available"), (["debate.rounds=1"], "at least 2 rounds"), (["estimator.draws=0"], "draws"),
    (["supervision.value=reward"], "no gradient"), (["schedule.stepps=1"], "steps"),
    (["controller.settings={width: 3}"], "settings"),
])
def test_what_is_wrong_is_one_line_before_the_first_call(training, tmp_path, overrides, says):
    with pytest.raises(UserError, match=says):
        train_topology(training, overrides, tmp_path / "run", quiet)
    assert not (tmp_path / "run").exists()


def test_presets_can_be_combined(training):
    config = read_training(training, ["preset=gnn+reward"])
    assert config.controller.name == "edge_gnn" and config.estimator["name"] == "score"


def test_reliability_is_fitted_to_right_and_wrong_replies(training, tmp_path):
    run = train_topology(training, ["controller.name=reliability", "estimator.name=fit"], tmp_path / "run", quiet)
    assert json.loads((run / "summary.json").read_text())["training"]["backward_tokens"] == 0
    with pytest.raises(UserError, match="loss of its own"):
        train_topology(training, ["estimator.name=fit"], tmp_path / "other", quiet)


@pytest.mark.parametrize("name", ["gptswarm", "agentprune", "agentdropout", "gdesigner"])
def test_published_topologies_are_trained_by_score_and_reward(training, tmp_path, name):
    published = [f"controller.name={name}", "estimator={name: score, draws: 1, baseline: none}",
                 "supervision.value=reward", "schedule.lr=0.1"]
    run = train_topology(training, published, tmp_path / "run", quiet)
    assert json.loads((run / "summary.json").read_text())["steps"] == 4
    with pytest.raises(UserError, match="score and reward"):
        train_topology(training, [f"controller.name={name}"], tmp_path / "other", quiet)
