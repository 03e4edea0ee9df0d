"""Training a controller: it learns, it can be stopped anywhere, and nothing is chosen on test questions."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from goa_torch import cli, load_pool, load_questions
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.ceiling import perfect_pool
from goa_torch.methods.rumad import find_controller
from goa_torch.rl.ppo import PPO, PPOConfig
from goa_torch.rl.rewards import RewardConfig
from goa_torch.rl.rollout import evaluate, roll_out
from goa_torch.rl.trainer import Schedule, Trainer
from goa_torch.rl.training import plan_training, read_training, train_controller
from goa_torch.topology.controller import Controller, load_controller
from goa_torch.topology.observation import ObservationConfig
from goa_torch.topology.policies import PolicyConfig, WeightPolicy
from tests.rl.world import debates, hashed, oracle
from tests.worlds import questions


def trainer(folder, updates: int = 6, outputs=hashed, architecture: str = "mlp", **schedule) -> Trainer:
    engine = debates(outputs, rounds=3, observation=ObservationConfig(rounds=3, features=("card", "round")),
                     reward=RewardConfig(sparsity=0.5))
    policy = WeightPolicy(PolicyConfig(architecture, hidden=16), engine.config.observation, 6)
    ppo = PPO(policy, PPOConfig(lr=1e-2, minibatch=None, epochs=2, value=0.5, edges=6, budget=0.02))
    plan = Schedule(**{"updates": updates, "episodes": 8, "validate_every": 2, **schedule})
    return Trainer(engine, ppo, questions(6), questions(9)[6:], plan, folder, {"made for": "tests"})


def weights(made: Trainer) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in made.policy.parameters()])


def test_a_training_that_was_stopped_ends_like_one_that_was_not(tmp_path):
    whole = trainer(tmp_path / "whole")
    whole.run()
    trainer(tmp_path / "parts", updates=3).run()
    rest = trainer(tmp_path / "parts")
    rest.run()
    assert torch.equal(weights(whole), weights(rest))

    def curve(folder):
        lines = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
        return [(line["update"], line.get("learned"), (line.get("train") or line.get("validation"))["return"])
                for line in lines if "train" in line or line["update"] != 3]

    assert curve(tmp_path / "whole") == curve(tmp_path / "parts")


def test_a_training_that_was_killed_between_two_files_is_put_right(tmp_path):
    trainer(tmp_path, updates=2).run()
    with (tmp_path / "curve.jsonl").open("a") as file:
        file.write(json.dumps({"update": 3, "train": {}}) + '\n{"upda')
    trainer(tmp_path, updates=4).run()
    updates = [json.loads(line)["update"] for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert updates == [0, 1, 2, 2, 3, 4, 4]


def test_a_folder_that_holds_another_training_is_not_touched(tmp_path):
    trainer(tmp_path, updates=1).run()
    other = trainer(tmp_path)
    other.state["facts"] = {"made for": "something else"}
    with pytest.raises(UserError, match="another made for"):
        other.run()


def test_a_damaged_file_is_one_line(tmp_path):
    trainer(tmp_path, updates=1).run()
    (tmp_path / "training.safetensors").write_bytes(b"\0" * 20)
    with pytest.raises(UserError, match="delete it to begin anew"):
        trainer(tmp_path).run()


def test_it_learns_whom_to_ask_and_the_method_does_what_was_learned(tmp_path):
    """Only one agent knows; asking the others to hear it is worth it, everything else costs."""
    made = trainer(tmp_path, updates=50, outputs=oracle, architecture="mlp", episodes=16, validate_every=25)
    before = evaluate(made.debates, made.policy, made.validation)
    summary = made.run()
    policy, gate, _ = load_controller(tmp_path / "best")
    after = evaluate(made.debates, policy, made.validation)
    assert after["return"] > before["return"] + 0.5 and after["accuracy"] == 1
    assert after["return"] == pytest.approx(summary["best"]["score"], rel=1e-5)
    method = build_method("rumad", made.debates.pool, checkpoint=str(tmp_path / "best"), rounds=3)
    results = method(made.validation)
    assert [r.correct for r in results] == [True] * 3
    assert sum(len(r.calls) for r in results) / 3 == pytest.approx(after["calls"])
    assert 0 < summary["paid_calls"] < summary["calls"] and summary["cached_share"] > 0.5


def test_the_files_say_what_happened_and_what_it_cost(tmp_path):
    made = trainer(tmp_path, updates=3)
    lines = []
    made.say = lines.append
    summary = made.run()
    assert {p.name for p in tmp_path.iterdir()} == {"best", "last", "curve.jsonl", "curve.png", "summary.json",
                                                   "training.safetensors"}
    assert summary == json.loads((tmp_path / "summary.json").read_text())
    assert summary["paid_calls"] == len(made.debates.pool.agents[0].model.chats)
    assert len(lines) == 4 and lines[0].startswith("update    0")


def test_the_best_policy_on_validation_is_kept(tmp_path):
    made = trainer(tmp_path, updates=5, validate_every=1)
    summary = made.run()
    scores = {}
    for line in map(json.loads, (tmp_path / "curve.jsonl").read_text().splitlines()):
        if "validation" in line:
            scores[line["update"]] = line["validation"]["return"]
    assert summary["best"]["update"] == max(scores, key=lambda update: (scores[update], -update))
    assert load_controller(tmp_path / "best")[2]["trained"]["update"] == summary["best"]["update"]


# ---------------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("architecture", ["mlp", "graph"])
def test_a_controller_is_the_same_after_it_was_saved(tmp_path, architecture):
    policy = WeightPolicy(PolicyConfig(architecture, "beta", 8), ObservationConfig(features=("round",)), 6, seed=3)
    Controller(policy).save(tmp_path)
    back = Controller.load(tmp_path)
    x, here = torch.rand(2, 6, 7), torch.ones(2, 6, dtype=torch.bool)
    assert torch.equal(policy(x, here).mean, back.policy(x, here).mean)
    assert back.policy.config == policy.config and back.policy.observation == policy.observation


@pytest.mark.parametrize(("damage", "match"), [
    (lambda f: (f / "controller.safetensors").unlink(), "holds no controller"),
    (lambda f: (f / "controller.safetensors").write_bytes(b"x" * 40), "does not fit"),
    (lambda f: (f / "controller.json").write_text("{"), "not a controller"),
    (lambda f: (f / "controller.json").write_text('{"format": 9}'), "format 9"),
    (lambda f: (f / "controller.json").write_text((f / "controller.json").read_text().replace(
        '"hidden": 8', '"hidden": 9')), "does not fit"),
    (lambda f: (f / "controller.json").write_text((f / "controller.json").read_text().replace(
        '"hidden"', '"hiden"')), "Did you mean 'hidden'"),
])
def test_a_damaged_checkpoint_is_one_line(tmp_path, damage, match):
    Controller(WeightPolicy(PolicyConfig(hidden=8), ObservationConfig(), 6)).save(tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=match):
        Controller.load(tmp_path)


# ---------------------------------------------------------------------- goa train

POOL = """
name: tiny
prompts: relay
meta: math
sampling: {temperature: 0.0, max_new_tokens: 32}
models:
  echo:
    backend: echo
    rules: [{when: "", say: "42"}]
agents:
  - {name: code, model: echo, card: {domain: code}}
  - {name: math, model: echo, card: {domain: math}}
"""
TRAINING = """
kind: ppo
pool: pool.yaml
task: {name: relay, limit: 6, settings: {depth: 1}}
validation: {name: relay, split: validation, limit: 4, settings: {depth: 1}}
debate: {rounds: 3, gate: {background: 0.05}}
policy: {hidden: 8}
schedule: {updates: 2, episodes: 3, validate_every: 1}
presets:
  graph: {policy: {architecture: graph}}
  wide: {policy: {hidden: 12}}
"""


@pytest.fixture
def training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pool.yaml").write_text(POOL)
    (tmp_path / "tiny.yaml").write_text(TRAINING)
    return tmp_path / "tiny.yaml"


def test_goa_train_trains_resumes_and_serves_goa_ask(training, capsys):
    assert cli.main(["train", str(training), "schedule.updates=1"]) == 0
    assert cli.main(["train", str(training)]) == 0
    out = capsys.readouterr().out
    assert "resumed at update 1 of 2" in out and "2 updates in" in out
    run = training.parent / "runs" / "tiny"
    assert load_controller(run / "best")[0].config.hidden == 8
    assert load_controller(run / "best")[1].background == 0.05
    assert cli.main(["ask", "(1+1)", "--pool", "pool.yaml", "--method", "rumad", f"checkpoint={run / 'best'}"]) == 0


def test_a_controller_learns_from_perfect_agents_and_starts_on_real_ones_from_there(training):
    run = train_controller(training, ["agents=perfect", "out=first"], say=lambda line: None)
    learned, _, facts = load_controller(run / "last")
    assert facts["trained"]["agents"] == "perfect"
    words = [f"start={run / 'last'}", "schedule.updates=1", "ppo.lr=1.0e-12"]
    run = train_controller(training, words, say=lambda line: None)
    assert torch.allclose(load_controller(run / "last")[0].actor.body.head.weight, learned.actor.body.head.weight)
    with pytest.raises(UserError, match="another policy"):
        train_controller(training, ["start=first/last", "policy.hidden=9", "out=second"])
    assert not (training.parent / "second").exists()


def test_presets_change_keys_and_name_the_folder(training):
    config = read_training(training, ["preset=graph", "schedule.updates=7"])
    assert config.policy == {"hidden": 8, "architecture": "graph"} and config.schedule["updates"] == 7
    assert config.out.endswith("tiny-graph")
    both = read_training(training, ["preset=graph+wide"])
    assert both.policy == {"hidden": 12, "architecture": "graph"} and both.out.endswith("tiny-graph+wide")


def test_trainings_that_share_a_cache_pay_once(training):
    words = ["cache=replies", "schedule.updates=1"]
    paid = []
    for name in ("first", "second"):
        run = train_controller(training, [*words, f"out={name}"], say=lambda line: None)
        paid.append(json.loads((run / "summary.json").read_text())["paid_calls"])
    assert paid[0] > 0 == paid[1]


def test_the_shipped_file_and_all_its_presets_are_right():
    shipped = Path(__file__).parents[2] / "experiments" / "rumad.yaml"
    plain = plan_training(shipped)
    presets = plain.config.presets
    assert {"published", "no_activation", "no_budget", "no_round_reward", "no_final_reward", "beta"} <= set(presets)
    plans = {name: plan_training(shipped, [f"preset={name}"]) for name in presets}
    assert all(plan.facts() != plain.facts() for name, plan in plans.items())
    assert plans["published"].ppo == PPOConfig() and plans["published"].debate.reward == RewardConfig()
    assert plans["published"].policy == PolicyConfig() and not plans["no_activation"].debate.gate.activation


@pytest.mark.parametrize(("words", "match"), [
    (["preset=grahp"], "Did you mean 'graph'"), (["task.split=test"], "test questions"), (["ppo.lr=0"], "lr"),
    (["validation.split=test"], "test questions"), (["debate.round=3"], "Did you mean 'rounds'"),
    (["polcy.hidden=3"], "Did you mean 'policy'"), (["task.name=gsm9k"], "gsm8k"), (["pool=nowhere"], "nowhere"),
    (["policy.architecture=tree"], "architecture"), (["schedule.episodes=0"], "episodes"),
    (["agents=ideal"], "perfect"), (["start=nowhere"], "no controller"), (["kind=dpo"], "dpo"),
    (["task.split=validation", "task.limit=4"], "also a validation question"),
])
def test_what_a_training_file_may_not_say_is_one_line_before_any_call(training, words, match):
    with pytest.raises(UserError, match=match) as error:
        train_controller(training, words)
    assert "\n" not in str(error.value) and not (training.parent / "runs").exists()


def test_an_unknown_kind_is_named(training, capsys):
    training.write_text(TRAINING.replace("kind: ppo", "kind: pp"))
    assert cli.main(["train", str(training)]) == 2
    assert "Did you mean 'ppo'" in capsys.readouterr().err


def test_without_the_extra_goa_train_says_what_to_install(training, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("goa_torch.rl.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensordict", None)
    assert cli.main(["train", str(training)]) == 2
    assert "pip install 'goa_torch[rl]'" in capsys.readouterr().err


# ---------------------------------------------------------------------- the method


@pytest.mark.parametrize(("features", "planes"), [
    ((), ()), (("round", "answered", "changed", "length", "card", "surprise"), ("card",))])
def test_the_method_gives_the_debates_of_the_environment(tmp_path, features, planes):
    seen = ObservationConfig(features=features, planes=planes, rounds=5)
    engine = debates(rounds=5, observation=seen)
    policy = WeightPolicy(PolicyConfig("graph", hidden=16), seen, 6)
    torch.nn.init.normal_(policy.actor.body.head.weight, std=0.5, generator=torch.Generator().manual_seed(1))
    Controller(policy).save(tmp_path)
    method = build_method("rumad", engine.pool, checkpoint=str(tmp_path), rounds=5)
    played, results = roll_out(engine, policy, questions(8)), method(questions(8))
    assert [episode.standing.right for episode in played.episodes] == [result.correct for result in results]
    assert [episode.usage.tokens for episode in played.episodes] == [result.usage.tokens for result in results]
    assert [max(call.depth for call in e.calls) for e in played.episodes] == [result.depth for result in results]
    assert max(len(result.calls) for result in results) > 6


def test_a_controller_for_another_number_of_agents_is_refused(tmp_path):
    Controller(WeightPolicy(PolicyConfig(hidden=8), ObservationConfig(), 4)).save(tmp_path / "four")
    with pytest.raises(UserError, match="trained for 4 agents, but 6"):
        build_method("rumad", debates().pool, checkpoint=str(tmp_path / "four"))
    with pytest.raises(UserError, match="no controller 'five'"):
        build_method("rumad", debates().pool, checkpoint="five")


@pytest.mark.parametrize("name, preset, messages", [("relay", "perfect", 5), ("relay_two", "perfect+read2", 2),
                                                    ("relay_one", "perfect+read1", 1)])
def test_shipped_controllers_ask_few_and_stop_when_there_is_an_answer(name, preset, messages):
    pool = perfect_pool(load_pool("relay"))
    asked = load_questions("relay", depth=(1, 2, 3, 4), limit=60)
    results = build_method("rumad", pool, checkpoint=name)(asked)
    everybody = build_method("mad", pool, n=None, rounds=6, history=False)(asked)
    assert sum(r.correct for r in everybody) == 60 and sum(r.correct for r in results) >= 51
    assert sum(len(r.calls) for r in results) < 0.4 * sum(len(r.calls) for r in everybody)
    plan = plan_training(Path(__file__).parents[2] / "experiments" / "rumad.yaml", [f"preset={preset}"])
    heard = [stage["edges"] for result in results for stage in result.trace["stages"] if stage["stage"] == "pass"]
    assert max(sum(edge[1] == node for edge in edges) for edges in heard for node in range(6)) == messages
    policy, gate, facts = load_controller(find_controller(name))
    assert (policy.config, policy.observation, gate) == (plan.policy, plan.debate.observation, plan.debate.gate)
    assert facts["trained"]["ppo"] == asdict(plan.ppo)


def test_a_method_knows_which_controller_it_has(tmp_path):
    marks = []
    for seed in (0, 0, 1):
        Controller(WeightPolicy(PolicyConfig(hidden=8), ObservationConfig(), 6, seed)).save(tmp_path)
        marks.append(build_method("rumad", debates().pool, checkpoint=str(tmp_path)).fingerprint)
    assert marks[0] == marks[1] != marks[2] and build_method("rumad", debates().pool).fingerprint is None


def test_a_graph_controller_serves_any_number_of_agents(tmp_path):
    Controller(WeightPolicy(PolicyConfig("graph", hidden=8), ObservationConfig(features=("card",)), 4)).save(tmp_path)
    for n in (2, 6):
        results = build_method("rumad", debates().pool, checkpoint=str(tmp_path), n=n)(questions(2))
        assert [stage["weights"] for stage in results[0].trace["stages"] if stage["stage"] == "controller"]
