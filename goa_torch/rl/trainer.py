"""Trains a controller: rollouts, updates, validation, and files from which it can be resumed at any moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError
from ..randomness import stream, uniforms
from ..topology.controller import save_controller
from ..types import Question
from .checkpoint import load_training, save_training
from .curves import append_line, draw_curve, read_curve
from .debates import Debates
from .ppo import PPO
from .rollout import evaluate, roll_out

SELECT = ("return", "accuracy")


@dataclass(frozen=True)
class Schedule:
    """How long a training is.

    Attributes:
        updates: of the policy.
        episodes: of the rollout before each.
        validate_every: updates; the best policy on validation is kept.
        select: what best means: the ``return`` of an episode, or ``accuracy``.
        minutes: stop after so many, saved as if it were the end; ``None`` for never. What has been learned by then
            depends on the machine.
        seed: of exploration, of the order of questions and minibatches, and of the first weights. Decoding has a seed
            of its own.
    """

    updates: int = 200
    episodes: int = 10
    validate_every: int = 10
    select: str = "return"
    minutes: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("updates", "episodes", "validate_every"):
            if getattr(self, name) < 1:
                raise UserError(f"schedule: {name} must be at least 1, not {getattr(self, name)}")
        if self.select not in SELECT:
            raise UserError(f"schedule: select = {self.select!r}; choose one of {', '.join(SELECT)}")


class Trainer:
    """PPO on debates.

    The folder gets ``best/`` and ``last/`` (controllers to load), ``curve.jsonl``, ``curve.png``, ``summary.json`` and
    ``training.safetensors``, from which the same call goes on where it was stopped. Every draw is named, so that an
    interrupted training ends in the same weights as one that was not.

    Args:
        debates: the engine.
        ppo: the learner.
        questions: to train on.
        validation: to choose the best policy on; no question of these may be in ``questions``.
        schedule: see :class:`Schedule`.
        folder: where everything goes.
        facts: what the checkpoint says about how it was trained; a training in the folder whose facts differ is not
            resumed.
        say: called with a line now and then.
    """

    def __init__(self, debates: Debates, ppo: PPO, questions: Sequence[Question], validation: Sequence[Question],
                 schedule: Schedule, folder: str | Path, facts: dict[str, Any] | None = None,
                 say: Callable[[str], None] = lambda line: None) -> None:
        self.debates, self.ppo, self.schedule = debates, ppo, schedule
        self.questions, self.validation = list(questions), list(validation)
        self.folder, self.facts, self.say = Path(folder), facts or {}, say
        self.state: dict[str, Any] = {
            "update": 0, "seconds": 0.0, "paid_calls": 0, "paid_tokens": 0, "calls": 0, "best": None,
            "facts": json.loads(json.dumps(self.facts))}

    @property
    def policy(self) -> Any:
        return self.ppo.policy

    def run(self) -> dict[str, Any]:
        """Trains to the end of the schedule and returns the summary."""
        self.folder.mkdir(parents=True, exist_ok=True)
        saved, curve = self.folder / "training.safetensors", self.folder / "curve.jsonl"
        if saved.is_file():
            self._resume(saved, curve)
        started = time.perf_counter() - self.state["seconds"]
        if self.state["best"] is None:
            self._validate(curve)
        while self.state["update"] < self.schedule.updates and not self._late():
            update = self.state["update"] + 1
            line = self._update(update)
            self.state["update"], self.state["seconds"] = update, time.perf_counter() - started
            line |= {"update": update, "seconds": round(self.state["seconds"], 2)}
            append_line(curve, line)
            if update % self.schedule.validate_every == 0 or update == self.schedule.updates or self._late():
                self._validate(curve)
                self.state["seconds"] = time.perf_counter() - started
            save_training(saved, self.ppo, self.state)
        return self._finish(curve)

    def _late(self) -> bool:
        return self.schedule.minutes is not None and self.state["seconds"] >= 60 * self.schedule.minutes

    def _resume(self, saved: Path, curve: Path) -> None:
        facts = load_training(saved, self.ppo)
        if facts["facts"] != self.state["facts"]:
            changed = [key for key in {**facts["facts"], **self.state["facts"]}
                       if facts["facts"].get(key) != self.state["facts"].get(key)]
            raise UserError(f"{self.folder} holds a training with another {', '.join(sorted(changed))}; choose another "
                            "folder (out=...) or delete it")
        self.state = facts
        kept = read_curve(curve, until=self.state["update"])
        curve.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self.say(f"resumed at update {self.state['update']} of {self.schedule.updates}")

    def _update(self, update: int) -> dict[str, Any]:
        """One rollout and what is learned from it."""
        seed, b = self.schedule.seed, self.schedule.episodes
        first = (update - 1) * b
        asked = [self._question(first + k) for k in range(b)]
        noise = [stream("exploration", seed, update, k) for k in range(b)]
        decoding = self.debates.config
        lots = uniforms([stream("decoding of training", seed, update)], np.arange(b))
        played = roll_out(self.debates, self.policy, asked, noise,
                          [decoding.seed + int(lot * decoding.seeds) for lot in lots])
        learned = self.ppo.update(played.rollout)
        summary = played.summary()
        self._count(summary, b)
        return {"train": rounded(summary), "learned": rounded(learned)}

    def _question(self, number: int) -> Question:
        """Question ``number`` of an endless series: every pass over the questions has an order of its own."""
        turn, place = divmod(number, len(self.questions))
        name = stream("order of questions", self.schedule.seed, turn)
        order = np.argsort(uniforms([name], np.arange(len(self.questions))), kind="stable")
        return self.questions[int(order[place])]

    def _count(self, summary: dict[str, float], episodes: int) -> None:
        self.state["calls"] += round(summary["calls"] * episodes)
        for name in ("paid_calls", "paid_tokens"):
            self.state[name] += int(summary[name])

    def _validate(self, curve: Path) -> None:
        """What the policy comes to without chance; the best so far is kept."""
        result = evaluate(self.debates, self.policy, self.validation)
        self._count(result, len(self.validation))
        update, score = self.state["update"], result[self.schedule.select]
        append_line(curve, {"update": update, "validation": rounded(result)})
        best = self.state["best"]
        if best is None or score > best["score"]:
            self.state["best"] = {"update": update, "score": score, "validation": rounded(result)}
            self._save("best")
        self._save("last")
        (self.folder / "curve.png").write_bytes(draw_curve(read_curve(curve), self.folder.name))
        self.say(f"update {update:>4} | validation: return {result['return']:.3f}, accuracy {result['accuracy']:.1%}, "
                 f"{result['tokens']:,.0f} tokens, {result['calls']:.1f} calls, depth {result['depth']:.2f} | "
                 f"{self.state['seconds']:.0f} s, {self.state['paid_calls']:,} calls paid"
                 + (" | best" if self.state["best"]["update"] == update else ""))

    def _save(self, name: str) -> None:
        save_controller(self.folder / name, self.policy, self.debates.config.gate,
                        trained={"update": self.state["update"], **self.facts})

    def _finish(self, curve: Path) -> dict[str, Any]:
        paid, calls = self.state["paid_calls"], max(1, self.state["calls"])
        kept = ("update", "seconds", "paid_calls", "paid_tokens", "calls", "best")
        summary = {name: self.state[name] for name in kept}
        summary |= {"cached_share": round(1 - paid / calls, 4), "transitions": len(self.debates.cache)}
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        self.say(f"{summary['update']} updates in {summary['seconds']:.0f} s: {paid:,} of {calls:,} calls paid "
                 f"({summary['cached_share']:.0%} repeated); best at update {summary['best']['update']}: "
                 f"{self.folder / 'best'}")
        return summary


def rounded(facts: dict[str, float]) -> dict[str, float]:
    """Six significant digits, as files show them."""
    return {name: float(f"{value:.6g}") for name, value in facts.items()}
