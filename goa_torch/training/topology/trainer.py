"""Trains a topology: steps, validation of the deployed graph, and files from which it goes on at any moment."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import UserError
from ...methods.base import Method
from ...methods.debate import Debate
from ...methods.staged import Staged
from ...nn.agent_conv import AgentConv
from ...randomness import stream, uniforms
from ...topology.fixed import Complete
from ...topology.learned.base import LearnedTopology
from ...topology.learned.checkpoint import load_progress, save_progress, save_topology
from ...topology.learned.turns import is_staged
from ...types import Question
from .audit import GradientAudit
from .curves import append_line, draw_curves, read_lines
from .estimators import EstimatorConfig, check_estimator, estimate
from .payback import payback
from .world import DebateWorld

COSTS = ("calls", "tokens", "paid_tokens", "backward_tokens", "seconds")


@dataclass(frozen=True)
class Schedule:
    """How long a training is.

    Attributes:
        steps: of the optimiser, at most.
        batch: questions a step.
        lr: learning rate of Adam.
        validate_every: steps; the best topology on validation is kept, the earlier one among equals.
        patience: validations without a better one after which training ends; ``None`` for never.
        tokens: training tokens after which it ends (those of backward passes count); ``None`` for no limit.
        minutes: the same in minutes; what has been learned by then depends on the machine.
        seed: of drawn edges, first weights and the order of questions.
        decoding_seed: of the agents' replies.
    """

    steps: int = 200
    batch: int = 32
    lr: float = 0.03
    validate_every: int = 20
    patience: int | None = 5
    tokens: int | None = None
    minutes: float | None = None
    seed: int = 0
    decoding_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "validate_every"):
            if getattr(self, name) < 1:
                raise UserError(f"schedule: {name} must be at least 1, not {getattr(self, name)}")
        if not self.lr > 0:
            raise UserError(f"schedule: lr must be larger than 0, not {self.lr}")


class Trainer:
    """The folder gets ``best/`` and ``last/`` (topologies to deploy), ``curve.jsonl``, ``curve.png``, ``summary.json``
    and ``training.safetensors``, from which the same call goes on. Every draw is named, so that an interrupted training
    ends in the same weights as one that was not.

    Args:
        world: the debates.
        controller: what is trained.
        name: under which its class is known.
        estimator: see :mod:`goa_torch.training.topology.estimators`.
        questions: to train on.
        validation: to choose the best topology on; none of these may be in ``questions``.
        schedule: see :class:`Schedule`.
        folder: where everything goes.
        facts: what the training depends on; one in the folder whose facts differ is not resumed.
        weighting: how the deployed graph's weights reach its receivers.
        say: called with a line now and then.
    """

    def __init__(self, world: DebateWorld, controller: LearnedTopology, name: str, estimator: EstimatorConfig,
                 questions: Sequence[Question], validation: Sequence[Question], schedule: Schedule, folder: str | Path,
                 facts: dict[str, Any] | None = None, weighting: str = "none",
                 say: Callable[[str], None] = lambda line: None) -> None:
        both = {(q.task, q.text) for q in questions} & {(q.task, q.text) for q in validation}
        if both:
            raise UserError(f"training: {len(both)} questions are in both training and validation; nothing may be "
                            "chosen on what it was trained on")
        if not questions or not validation:
            raise UserError("training: there must be questions to train on and questions to validate on")
        check_estimator(estimator, world, controller)
        self.world, self.controller, self.name, self.estimator = world, controller, name, estimator
        self.debate = {} if is_staged(controller) else {"rounds": world.rounds, "weighting": weighting}
        self.questions, self.validation, self.schedule = list(questions), list(validation), schedule
        self.folder, self.facts, self.say = Path(folder), facts or {}, say
        self.agents = [agent.name for agent in world.pool.agents]
        self.optimizer = torch.optim.Adam(controller.parameters(), lr=schedule.lr)
        self.deployed = Staged(world.pool, controller) if is_staged(controller) else Debate(
            world.pool, controller, n=None, rounds=world.rounds, passing=AgentConv(weighting))
        self.step, self.best, self.stale = 0, None, 0
        self.costs = dict.fromkeys(COSTS, 0.0)

    # ------------------------------------------------------------------ the loop

    def run(self) -> dict[str, Any]:
        """Trains to the end of the schedule and returns the summary."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._resume()
        audit = GradientAudit(self.controller, self.optimizer)
        started = time.monotonic()
        if self.step == 0 and self.best is None:
            self._validate()
        while not self._finished(started):
            self.optimizer.zero_grad(set_to_none=True)
            made = estimate(self.estimator, self.world, self.controller, self._batch(self.step), self.schedule.seed,
                            self.step, self.schedule.decoding_seed)
            audit.observe()
            self.optimizer.step()
            self.step += 1
            self.controller.after_step(self.step)
            spent = {"calls": made.usage.calls, "tokens": made.usage.tokens, "paid_tokens": made.paid.tokens,
                     "backward_tokens": made.backward, "seconds": made.seconds}
            self.costs = {key: value + spent[key] for key, value in self.costs.items()}
            append_line(self.folder / "curve.jsonl", {"step": self.step, "value": made.value, **self.costs})
            if self.step % self.schedule.validate_every == 0 or self.step == self.schedule.steps:
                self._validate()
        return self._summary()

    def _finished(self, started: float) -> bool:
        plan = self.schedule
        return (self.step >= plan.steps or (plan.patience is not None and self.stale >= plan.patience)
                or (plan.tokens is not None and self.trained_tokens >= plan.tokens)
                or (plan.minutes is not None and time.monotonic() - started >= 60 * plan.minutes))

    @property
    def trained_tokens(self) -> float:
        """Tokens of training so far: read, written, and once more those a gradient flowed through."""
        return self.costs["tokens"] + self.costs["backward_tokens"]

    def _batch(self, step: int) -> list[Question]:
        """The questions of a step: epochs of drawn order, none twice in a step."""
        size, count = min(self.schedule.batch, len(self.questions)), len(self.questions)
        epoch, place = divmod(step, max(1, count // size))
        lots = uniforms([stream(self.schedule.seed, "order", epoch)], np.arange(count))
        order = np.argsort(lots, kind="stable")[place * size : (place + 1) * size]
        return [self.questions[i] for i in order]

    # ------------------------------------------------------------------ validation and files

    def _validate(self) -> None:
        found = self.measure(self.deployed)
        line = {"step": self.step, "validation": found, **self.costs}
        append_line(self.folder / "curve.jsonl", line)
        better = self.best is None or found["accuracy"] > self.best["validation"]["accuracy"]
        self.stale = 0 if better else self.stale + 1
        if better:
            self.best = {"step": self.step, "validation": found, "training": dict(self.costs)}
            self._save("best")
        self._save("last")
        save_progress(self.folder / "training.safetensors", self.controller, self.optimizer,
                      {"step": self.step, "best": self.best, "stale": self.stale, "costs": self.costs,
                       "facts": self.facts})
        self.say(f"step {self.step}: validation accuracy {found['accuracy']:.1%}, {found['tokens']:.0f} tokens a "
                 f"question; {self.trained_tokens:,.0f} tokens and {self.costs['seconds']:.0f} s of training")

    def measure(self, method: Method) -> dict[str, float]:
        """Accuracy, tokens and calls a question of a method on the validation questions."""
        results = method(self.validation, seed=self.schedule.decoding_seed, exchange=self.world.exchange)
        n = len(results)
        return {"accuracy": sum(r.correct for r in results) / n, "tokens": sum(r.usage.tokens for r in results) / n,
                "calls": sum(r.usage.calls for r in results) / n}

    def _save(self, name: str) -> None:
        save_topology(self.folder / name, self.controller, self.name, self.agents, self.debate, step=self.step,
                      estimator=asdict(self.estimator), costs=self.costs, **self.facts)

    def _resume(self) -> None:
        path = self.folder / "training.safetensors"
        if not path.is_file():
            (self.folder / "curve.jsonl").unlink(missing_ok=True)
            return
        told = load_progress(path, self.controller, self.optimizer)
        if json.loads(json.dumps(self.facts, default=str)) != told["facts"]:
            raise UserError(f"{self.folder} holds a training with other settings; give --out another folder")
        self.step, self.best, self.stale, self.costs = told["step"], told["best"], told["stale"], told["costs"]
        lines = read_lines(self.folder / "curve.jsonl", self.step)
        (self.folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        self.say(f"goes on at step {self.step}")

    def _summary(self) -> dict[str, Any]:
        """What training cost, and the number of questions after which a deployed graph has paid for it: against
        everybody hearing everybody in the same debate, in tokens."""
        full = self.measure(Debate(self.world.pool, Complete(), n=None, rounds=self.world.rounds,
                                   passing=AgentConv("none")))
        best = self.best["validation"]  # type: ignore[index]
        after, verdict = payback(self.trained_tokens, self.best["step"], best, full)  # type: ignore[index]
        summary = {"steps": self.step, "best": self.best, "training": {**self.costs, "all_tokens": self.trained_tokens},
                   "everybody": full, "tokens_saved_a_question": full["tokens"] - best["tokens"],
                   "pays_after_questions": after}
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        lines = read_lines(self.folder / "curve.jsonl")
        (self.folder / "curve.png").write_bytes(draw_curves({self.folder.name: lines}))
        costs = self.costs
        self.say(f"training: {self.step} steps, {costs['calls']:,.0f} calls, {self.trained_tokens:,.0f} tokens "
                 f"({costs['backward_tokens']:,.0f} of them again for gradients), {costs['seconds']:.0f} s")
        self.say(f"best: {best['accuracy']:.1%} at step {self.best['step']} with "  # type: ignore[index]
                 f"{best['tokens']:,.0f} tokens a question, everybody hearing everybody {full['accuracy']:.1%} with "
                 f"{full['tokens']:,.0f}; {verdict}")
        return summary
