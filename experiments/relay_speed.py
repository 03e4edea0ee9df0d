"""How fast Relay is: first answers and Graph-of-Agents questions a second, and the time spent outside the models.

    python experiments/relay_speed.py

Every agent answers `--batch` questions at once; then Graph-of-Agents (k = 3, max readout) runs over `--questions`. What
is not spent in the models' forward passes (prompts, tokens, sampling, bookkeeping) is printed as a share. Nothing is
cached between repeats, the fastest of which counts; `--out FILE` keeps the figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.pools import load_pool
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.tasks import load_questions
from goa_torch.types import Chat


class Clock:
    """Counts the seconds that the forward passes of models take."""

    def __init__(self, pool: Pool) -> None:
        self.seconds, self.began = 0.0, 0.0
        for model in {id(m.module): m.module for m in pool.models if isinstance(m, HFModel)}.values():
            model.register_forward_pre_hook(self._start)
            model.register_forward_hook(self._stop)

    def _start(self, *_: object) -> None:
        self.began = time.perf_counter()

    def _stop(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self.began


def fastest(work: Callable[[], None], clock: Clock, repeats: int) -> tuple[float, float]:
    """Seconds of the fastest of ``repeats`` runs, and the share of it outside the models."""
    found = []
    for _ in range(repeats):
        clock.seconds = 0.0
        began = time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        found.append((seconds, 1 - clock.seconds / seconds))
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="relay")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--questions", type=int, default=256, help="questions for Graph-of-Agents")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="CPU threads (default: as many as there are cores)")
    parser.add_argument("--out", type=Path, help="where to keep the figures as JSON")
    arguments = parser.parse_args()

    for name in ("batch", "questions", "repeats"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if arguments.out and not arguments.out.absolute().parent.is_dir():
        parser.error(f"--out: there is no folder {arguments.out.parent}")

    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    try:
        pool = load_pool(arguments.pool)
        pool.check()
    except UserError as error:
        parser.error(str(error))
    if not all(isinstance(model, HFModel) for model in pool.models):
        parser.error(f"pool {arguments.pool!r} has models that are not in process; take one of Relay's")
    clock = Clock(pool)
    questions = load_questions("relay", limit=max(arguments.batch, arguments.questions))
    dtype = next(str(m.module.dtype).split(".")[-1] for m in pool.models if isinstance(m, HFModel))
    figures = {"dtype": dtype, "threads": torch.get_num_threads()}

    asked = questions[: arguments.batch]
    prompts = [pool.prompts.render("answer", {"question": {"text": q.text}, "agent": {"system": ""}}) for q in asked]

    def answers() -> None:
        for agent in pool.agents:
            agent.model.generate([Chat(prompt, i) for i, prompt in enumerate(prompts)], pool.sampling["answer"])

    answers()
    seconds, outside = fastest(answers, clock, arguments.repeats)
    figures["answers_per_second"] = len(pool.agents) * len(asked) / seconds
    figures["answers_outside"] = outside
    print(f"{dtype}, {figures['threads']} threads; first answers, batch {len(asked)}: "
          f"{figures['answers_per_second']:.0f} a second, {outside:.0%} of the time outside the models")

    method = build_method("goa", pool, k=3)
    asked = questions[: arguments.questions]
    seconds, outside = fastest(lambda: method(asked), clock, arguments.repeats)
    figures["goa_questions_per_second"], figures["goa_outside"] = len(asked) / seconds, outside
    print(f"goa k = 3, {len(asked)} questions at once: {figures['goa_questions_per_second']:.1f} questions a second, "
          f"{outside:.0%} outside the models")
    if arguments.out:
        arguments.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
