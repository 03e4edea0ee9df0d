"""How much batching gains: one Graph-of-Agents pipeline, served in three ways, in one run.

    python experiments/throughput.py

(a) batched in process, on many questions; (b) in process, one call at a time; (c) against `transformers serve` on
loopback, one call at a time; (b) and (c) on a few of the same questions: of the 48, every twelfth (numbers 0, 12, 24
and 36), a rule that looks at nothing but the order of the file. The same pool, prompts, method and sampling everywhere.
Judges and the selecting meta-LLM decode their numbers and are paid for them, but the numbers are drawn, so that each
way runs all 11 calls of a question although the model is too small to judge. Prints seconds and generated tokens a
question, tokens a second, and two ratios: by question, and by generated token, which makes up for replies of different
length; `--out FILE` keeps them as JSON.
Needs `pip install -e ".[test]"` for (c).
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from drawn_judge import DrawnJudge

from goa_torch.agents.base import Agent, LanguageModel
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.pools import load_pool
from goa_torch.methods import build_method
from goa_torch.tasks import load_questions
from goa_torch.types import Chat, Question, Reply, Result, Sampling, Usage

HERE = Path(__file__).parent


class OneByOne(LanguageModel):
    """A model that is asked one chat at a time and keeps no prefix between calls."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.name, self.fingerprint = f"{model.name}, one by one", f"{model.fingerprint}|one by one"
        self.capabilities, self.context_length, self.lane = model.capabilities, model.context_length, model.lane

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        samplings = [sampling] * len(chats) if isinstance(sampling, Sampling) else sampling
        return [self.model.generate([chat], how)[0] for chat, how in zip(chats, samplings)]

    def count_tokens(self, chat: Chat) -> int | None:
        return self.model.count_tokens(chat)


def with_model(pool: Pool, model: LanguageModel) -> Pool:
    """The pool with every agent played by ``model``."""
    agents = [Agent(a.name, model, a.card, a.system) for a in pool.agents]
    return Pool(agents, pool.prompts, pool.meta.name, pool.sampling, pool.name, pool.variables)


def measure(pool: Pool, questions: Sequence[Question], settings: dict, at_once: bool) -> dict:
    """Runs the method over the questions, all at once or one after the other, and counts."""
    method = build_method("goa", pool, **settings)
    brief = build_method("goa", pool.with_sampling(max_new_tokens=2), **settings)
    brief(questions[:1])  # warm up: the first calls pay for threads and lazy imports
    started = time.perf_counter()
    results: list[Result] = []
    for batch in [questions] if at_once else [[q] for q in questions]:
        results += method(batch)
        print(f"  {len(results)} of {len(questions)} questions, {time.perf_counter() - started:.0f} s", flush=True)
    seconds = time.perf_counter() - started
    usage = sum((result.usage for result in results), Usage())
    failed = sum(call.error is not None for result in results for call in result.calls)
    return {"questions": len(questions), "seconds": seconds, "seconds_per_question": seconds / len(questions),
            "calls": usage.calls, "calls_per_question": usage.calls / len(questions), "failed_calls": failed,
            "prompt_tokens": usage.prompt_tokens, "cached_tokens": usage.cached_tokens,
            "new_tokens": usage.completion_tokens, "new_tokens_per_question": usage.completion_tokens / len(questions),
            "new_tokens_per_second": usage.completion_tokens / seconds,
            "seconds_per_call": seconds / usage.calls}


@contextmanager
def served(model: HFModel) -> Iterator[tuple[str, str]]:
    """`transformers serve` with the weights of ``model`` on a free port of loopback: its URL and the model's name."""
    with tempfile.TemporaryDirectory() as folder:
        model.check()
        model.module.generation_config.do_sample = True  # without it the server ignores the temperature of requests
        model.module.save_pretrained(folder)
        model.tokenizer.save_pretrained(folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", folder,
                   "--host", "127.0.0.1", "--port", str(port), "--dtype", str(model.module.dtype).split(".")[-1]]
        log = Path(folder) / "server.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT,
                                       env={**os.environ, "HF_HUB_OFFLINE": "1"})
        try:
            _wait(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1", folder
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(url: str, process: subprocess.Popen, log: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    end_of_log = log.read_text(errors="replace")[-1500:]
    raise SystemExit(f"`transformers serve` did not start; the end of its log:\n{end_of_log}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="smollm2", help="a pool whose agents share one model in process")
    parser.add_argument("--file", type=Path, default=HERE / "data" / "quickstart_mmlu.jsonl", help="MMLU questions")
    parser.add_argument("--questions", type=int, default=48, help="questions for (a)")
    parser.add_argument("--few", type=int, default=4, help="questions for (b) and (c), evenly spread over those of (a)")
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--skip", nargs="*", choices=["a", "b", "c"], default=[], help="ways to leave out")
    parser.add_argument("--out", type=Path, help="where to keep the figures as JSON")
    arguments = parser.parse_args(argv)

    questions = load_questions("mmlu", file=arguments.file, limit=arguments.questions, seed=0)
    if len(questions) < arguments.questions:
        parser.error(f"{arguments.file} holds {len(questions)} questions; ask for no more with --questions")
    if not 0 < arguments.few <= arguments.questions:
        parser.error("--few must be at least 1 and at most --questions")
    some = spread(questions, arguments.few)
    pool = load_pool(arguments.pool)
    limit = {purpose: min(how.max_new_tokens, arguments.max_new_tokens) for purpose, how in pool.sampling.items()}
    pool.sampling = {p: Sampling(how.temperature, how.top_p, limit[p], how.stop) for p, how in pool.sampling.items()}
    model = pool.meta.model
    if not isinstance(model, HFModel) or len(pool.models) != 1:
        parser.error(f"pool {arguments.pool!r} must have one model in process that all agents share")
    settings = {"k": arguments.k, "judging": "text"}
    model.check()
    print(f"{model!r}, goa {settings}, at most {arguments.max_new_tokens} new tokens")
    figures: dict[str, dict] = {}
    if "a" not in arguments.skip:
        print("(a) batched in process")
        figures["a"] = measure(with_model(pool, DrawnJudge(model)), questions, settings, at_once=True)
    if "b" not in arguments.skip:
        print("(b) in process, one call at a time")
        alone = HFModel(model.recipe.source, dtype=model.recipe.dtype, device=model.recipe.device, prefix_tokens=0)
        slow = with_model(pool, OneByOne(DrawnJudge(alone)))
        figures["b"] = measure(slow, some, settings, at_once=False)
    if "c" not in arguments.skip:
        print("(c) `transformers serve`, one call at a time")
        from goa_torch.agents.openai import OpenAIModel

        with served(model) as (url, name):
            server = OpenAIModel(name, url, concurrency=1, name="served")
            server.check()
            slow = with_model(pool, DrawnJudge(server))
            figures["c"] = measure(slow, some, settings, at_once=False)
            server.close()
    report(figures)
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def spread(questions: Sequence[Question], few: int) -> list[Question]:
    """``few`` of the questions: the first, and from there on every (how many there are / few)-th."""
    return list(questions[:: len(questions) // few][:few])


def report(figures: dict[str, dict]) -> None:
    """Prints the figures, and how many times faster (a) is, by question and by generated token."""
    names = {"a": "batched", "b": "one by one", "c": "served"}
    columns = {"questions": 10, "s/question": 12, "calls/q": 9, "new tokens/q": 14, "new tokens/s": 14, "s/call": 8,
               "reused": 8}
    print("\n" + " " * 14 + "".join(name.rjust(width) for name, width in columns.items()))
    for way, f in figures.items():
        print(f"({way}) {names[way]:10}{f['questions']:>10}{f['seconds_per_question']:>12.2f}"
              f"{f['calls_per_question']:>9.1f}{f['new_tokens_per_question']:>14.1f}{f['new_tokens_per_second']:>14.1f}"
              f"{f['seconds_per_call']:>8.3f}{f['cached_tokens'] / max(1, f['prompt_tokens']):>8.0%}")
    for way in ("b", "c"):
        if "a" in figures and way in figures:
            fast, slow = figures["a"], figures[way]
            print(f"(a) over ({way}): {slow['seconds_per_question'] / fast['seconds_per_question']:.1f}x by question, "
                  f"{slow['seconds_per_call'] / fast['seconds_per_call']:.1f}x by call, "
                  f"{fast['new_tokens_per_second'] / slow['new_tokens_per_second']:.1f}x by generated token")


if __name__ == "__main__":
    sys.exit(main())
