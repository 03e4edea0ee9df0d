"""The evaluation harness drives whole graphs, and comes to the number that goa bench comes to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("lm_eval", reason="the evaluation harness is not installed (pip install 'goa_torch[eval]')")

import lm_eval
from lm_eval.api.instance import Instance
from lm_eval.tasks import TaskManager

from goa_torch import load_pool, load_questions, randomness
from goa_torch.agents.base import Agent, LanguageModel
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.pools import read_pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.bench import run_experiment
from goa_torch.errors import UserError
from goa_torch.lm_eval import GraphLM, write_task
from goa_torch.lm_eval.__main__ import main
from goa_torch.types import Card, Sampling
from tests.worlds import DOMAINS, PROMPTS, say_by_purpose

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "experiments" / "data" / "quickstart_mmlu.jsonl"


def say(chat):
    """A letter that depends on everything that was asked, and on the stream: different for every seed and question."""
    return say_by_purpose(chat, f"So be it.\n\nAnswer: {'ABCD'[randomness.stream(chat.text, chat.stream) % 4]}")


def make_pool(outputs=say, n: int = 4) -> Pool:
    model = EchoModel(outputs, name="oracle")
    return Pool([Agent(name, model, Card(name)) for name in DOMAINS[:n]], PromptSet(PROMPTS / "default"),
                sampling=Sampling(max_new_tokens=64), name="tiny")


def harness(lm, task: str, folder: Path) -> float:
    found = lm_eval.simple_evaluate(lm, tasks=[task], task_manager=TaskManager(include_path=str(folder),
                                                                                  include_defaults=False),
                                    bootstrap_iters=0, verbosity="ERROR")
    return found["results"][task]["exact_match,none"]


def bench(tmp_path: Path, pool, task: dict, methods: list, seed: int = 3) -> dict[str, float]:
    path = tmp_path / "bench.yaml"
    path.write_text(yaml.safe_dump({"methods": methods, "pool": pool if isinstance(pool, str) else pool.name,
                                    "tasks": [task], "seeds": [seed], "draws": 200, "cache": "off"}))
    pools = None if isinstance(pool, str) else {pool.name: pool}
    folder = run_experiment(path, out=tmp_path / "run", pools=pools, quiet=True)
    summary = json.loads((folder / "summary.json").read_text())
    return {row["method"]: row["accuracy"] for row in summary["tasks"][task["name"]]["rows"]}


@pytest.mark.parametrize(("method", "settings"), [("single", {}), ("vote", {}), ("goa", {"k": 3, "readout": "mean"}),
                                                  ("random_nodup", {"n": None, "rounds": 2})])
def test_the_number_is_that_of_goa_bench(method, settings, tmp_path):
    pool, task = make_pool(), {"name": "mmlu", "file": str(QUESTIONS), "seed": None}
    expected = bench(tmp_path, pool, task, [{"name": method, **settings}])[method]
    write_task(load_questions("mmlu", file=QUESTIONS), tmp_path / "tasks")
    lm = GraphLM(pool, method, seed=3, answers="choice", returns="answer", batch_questions=5, **settings)
    assert harness(lm, "mmlu", tmp_path / "tasks") == pytest.approx(expected)
    assert 0 < expected < 1


def in_float32(name: str) -> Pool:
    """A shipped pool in the numbers in which replies do not depend on what shares their batch."""
    try:
        pool = load_pool(name, [f"models.{label}.dtype=float32" for label in read_pool(name).models])
        pool.check()
    except UserError as error:
        pytest.skip(f"no weights of pool {name} here: {error}")
    return pool


def test_the_number_is_that_of_goa_bench_on_trained_agents(tmp_path):
    pool, task = in_float32("relay"), {"name": "relay", "limit": 24, "settings": {"depth": [1, 2]}}
    expected = bench(tmp_path, pool, task, [{"name": "goa", "k": 3}])["goa"]
    write_task(load_questions("relay", limit=24, depth=(1, 2)), tmp_path / "tasks")
    lm = GraphLM(pool, "goa", seed=3, answers="relay", returns="answer", k=3, batch_questions=7)
    assert harness(lm, "relay", tmp_path / "tasks") == pytest.approx(expected)
    assert 0 < expected < 1


def test_the_number_is_that_of_goa_bench_on_a_small_language_model(tmp_path):
    pool, task = in_float32("smollm2").with_sampling(max_new_tokens=12), {"name": "mmlu", "limit": 3, "seed": None,
                                                                         "file": str(QUESTIONS)}
    agent = pool.agents[0].name
    expected = bench(tmp_path, pool, task, [{"name": "self_consistency", "agent": agent, "n": 2}])["self_consistency"]
    write_task(load_questions("mmlu", file=QUESTIONS, limit=3, seed=None), tmp_path / "tasks")
    lm = GraphLM(pool, "self_consistency", seed=3, answers="choice", returns="answer", batch_questions=2, agent=agent,
                 n=2)
    assert harness(lm, "mmlu", tmp_path / "tasks") == pytest.approx(expected)
    replies = [(call.usage.completion_tokens, result.reply.text) for result, _ in lm._answer(
        [request("generate_until", question.text, {}, id=question.id) for question in load_questions(
            "mmlu", file=QUESTIONS, limit=3, seed=None)], None, 3) for call in result.calls]
    assert all(tokens for tokens, _ in replies)  # the model did speak


def request(kind: str, *args, **doc) -> Instance:
    return Instance(kind, doc or {"id": "q"}, args, 0, metadata=("t", 0, 1))


def test_text_is_cut_at_the_first_stop_and_failures_are_empty():
    def talk(chat):
        return None if "fail" in chat.text else "one\n\ntwo three. END four"

    lm = GraphLM(make_pool(talk), "single")
    asked = [request("generate_until", "Q?", {"until": until}, id=str(i)) for i, until in
             enumerate(([], ["\n\n"], ["END", "three"], "two"))]
    asked += [request("generate_until", "fail", {"until": []})]
    assert lm.generate_until(asked) == ["one\n\ntwo three. END four", "one", "one\n\ntwo ", "one\n\n", ""]


def test_a_limit_of_tokens_holds_and_an_unfinished_reply_is_none():
    lm = GraphLM(make_pool(lambda chat: "a b c d e f"), "single")
    short, long = (request("generate_until", "Q?", {"until": [], "max_gen_toks": n}) for n in (3, 30))
    assert lm.generate_until([short, long]) == ["", "a b c d e f"]


def test_repeats_are_other_samples_and_the_same_in_every_run():
    lm = GraphLM(make_pool(), "single", answers="choice", returns="answer")
    asked = [request("generate_until", "Q?", {"until": []}) for _ in range(12)]
    first = lm.generate_until(asked)
    assert len(set(first)) > 1 and lm.generate_until(asked) == first


def test_all_questions_of_a_batch_are_asked_in_one_call_of_the_model():
    pool = make_pool()
    GraphLM(pool, "vote").generate_until([request("generate_until", f"Q{i}?", {}, id=str(i)) for i in range(6)])
    assert pool.agents[0].model.batches == [24]


class Weighs(EchoModel):
    """Keeps what it was asked to weigh."""

    def log_likelihood(self, chats, continuations):
        self.weighed = list(zip(chats, continuations))
        return super().log_likelihood(chats, continuations)


def test_log_likelihood_is_that_of_the_last_speaker_after_all_it_was_shown():
    model = Weighs(lambda chat: say_by_purpose(chat, "Paris" if "Paris" in chat.text else f"Paris {chat.stream}"))
    pool = Pool([Agent(n, model, Card(n)) for n in DOMAINS[:3]], PromptSet(PROMPTS / "default"),
                sampling=Sampling(max_new_tokens=64))
    lm = GraphLM(pool, "goa", k=3, readout="mean")
    asked = [request("loglikelihood", "Capital of France?", text) for text in (" Paris", " London")]
    (paris, begins), (london, other) = lm.loglikelihood(asked)
    assert paris > london and begins and not other
    assert [text for _, text in model.weighed] == ["Paris", "London"]
    chats = {chat.text for chat, _ in model.weighed}
    assert len(chats) == 1 and chats.pop().count("Paris") >= 3  # the synthesis, in which all replies stand


def test_what_has_no_likelihood_is_said_in_a_line():
    asked = [request("loglikelihood", "Q?", " A")]
    with pytest.raises(UserError, match="ends in a vote"):
        GraphLM(make_pool(), "vote").loglikelihood(asked)
    with pytest.raises(UserError, match="perplexity"):
        GraphLM(make_pool(), "single").loglikelihood_rolling(asked)

    class Mute(EchoModel):
        capabilities = frozenset({"generate"})

    assert issubclass(Mute, LanguageModel)
    pool = Pool([Agent("a", Mute(), Card("a"))], PromptSet(PROMPTS / "default"))
    with pytest.raises(UserError, match="log-likelihood"):
        GraphLM(pool, "single").loglikelihood(asked)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"answers": "poem"}, "unknown kind of answers"), ({"answers": "choice:1"}, "2 to 26"),
    ({"returns": "both"}, "returns"), ({"method": "gao"}, "Did you mean 'goa'"), ({"k": 99}, "k"),
])
def test_wrong_arguments_are_said_before_the_first_call(arguments, message):
    with pytest.raises(UserError, match=message):
        GraphLM(make_pool(), **arguments)


def test_a_task_is_written_only_of_questions_of_one_task(tmp_path):
    with pytest.raises(UserError, match="one task"):
        write_task([], tmp_path)


def test_the_shell_command_runs_the_harness_with_the_model_registered(tmp_path):
    write_task(load_questions("mmlu", file=QUESTIONS)[:3], tmp_path / "tasks")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run(
        [sys.executable, "-m", "goa_torch.lm_eval", "--model_args", "pool=echo,method=vote,answers=choice", "--tasks",
         "mmlu", "--include_path", str(tmp_path / "tasks"), "--output_path", str(tmp_path / "out")],
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "exact_match" in done.stdout and list((tmp_path / "out").rglob("results*.json"))


@pytest.mark.parametrize(("words", "model"), [
    (["--tasks", "x"], True), (["run", "--tasks", "x"], True), (["--model", "hf", "--tasks", "x"], False),
    (["--model=hf"], False), (["ls", "tasks"], False), (["--help"], False), ([], False),
])
def test_the_model_may_be_left_out_in_the_shell(words, model, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr("lm_eval.__main__.cli_evaluate", lambda: None)
    assert main(words) == 0
    assert sys.argv == ["goa_torch.lm_eval", *words, *(["--model", "goa"] if model else [])]
