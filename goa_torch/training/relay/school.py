"""Makes all agents of a training plan, one after the other, and goes on where it was stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from ...agents.prompts import PromptSet
from ...errors import UserError
from ...paths import models_folder
from ...randomness import stream
from .batches import Encoder
from .lessons import Lessons
from .plan import BASE, TrainingPlan
from .tokenizer import build_tokenizer
from .trainer import examine, export, new_model, train

Say = Callable[[str], None]


class School:
    """Trains what a plan asks for.

    Args:
        plan: what to make.
        out: agents appear as ``out/seed<seed>/<agent>``, checkpoints and logs lie in ``out/work``.
        device: ``auto``, ``cpu`` or ``cuda``.
        say: called with lines of progress.
        provenance: put into each agent's ``training.json`` (commit, command).
    """

    def __init__(self, plan: TrainingPlan, out: str | Path, device: str = "auto", say: Say = print,
                 provenance: dict[str, Any] | None = None) -> None:
        from accelerate import Accelerator

        if device == "cuda" and not torch.cuda.is_available():
            raise UserError("train_relay: no CUDA device is there; use --device cpu")
        self.plan = plan
        self.out = Path(out)
        self.say = say
        self.provenance = provenance or {}
        self.new_accelerator = lambda: Accelerator(mixed_precision="bf16", cpu=device == "cpu")
        self.tokenizer = build_tokenizer(plan.shape.context_length)
        self.encoder = Encoder(self.tokenizer)

    def run(self, only: Sequence[str] | None = None) -> list[Path]:
        """Makes all agents, or those named in ``only`` (and the base they need); returns their folders."""
        wanted = [(seed, name) for seed in self.plan.seeds for name in self.plan.names(seed)
                  if only is None or name in only or name == BASE]
        left = sum(self.plan.agent_schedule(name).steps for seed, name in wanted if not self._done(seed, name))
        folders = []
        for seed, name in wanted:
            if not self._done(seed, name):
                left -= self.plan.agent_schedule(name).steps
                self._make(seed, name, left)
            folders.append(self._folder(seed, name))
        return folders

    def _folder(self, seed: int, name: str) -> Path:
        """Where a finished agent lies; the base is not shipped."""
        return self._work(seed, name) / "model" if name == BASE else self.out / f"seed{seed}" / name

    def _work(self, seed: int, name: str) -> Path:
        return self.out / "work" / f"seed{seed}" / name

    def _done(self, seed: int, name: str) -> bool:
        record = self._folder(seed, name) / "training.json"
        if not record.is_file():
            return False
        made = json.loads(record.read_text(encoding="utf-8"))["plan"]
        if made != self.plan.facts(name, seed):
            raise UserError(f"{record.parent} was made by another plan; choose another --out or remove it")
        return True

    def _make(self, seed: int, name: str, left: int) -> None:
        """Trains one agent; ``left`` steps follow it."""
        from transformers import LlamaForCausalLM

        plan, schedule = self.plan, self.plan.agent_schedule(name)
        work = self._work(seed, name)
        self._claim(work, plan.facts(name, seed))
        accelerator = self.new_accelerator()
        if plan.starts_from_base(name):
            model = LlamaForCausalLM.from_pretrained(self._folder(seed, BASE), dtype=torch.float32,
                                                     attn_implementation="eager")
        else:
            model = new_model(plan.shape, self.tokenizer, stream("relay weights", name, seed) >> 1)
        prompts = PromptSet(models_folder() / "prompts" / plan.templates(name))
        stages = [(steps, Lessons(role, prompts, plan.lesson_seed(name, seed), families=plan.families))
                  for steps, role in plan.stages(name)]
        validation = Lessons(plan.role(name), prompts, 0, "validation", plan.families)
        began, first = time.perf_counter(), None

        def progress(step: int, loss: float) -> None:
            nonlocal first
            first = step - 1 if first is None else first
            if step % 25 and step != schedule.steps:
                return
            pace = (time.perf_counter() - began) / (step - first)
            mine, all_left = (timedelta(seconds=int(pace * n)) for n in (schedule.steps - step,
                                                                        schedule.steps - step + left))
            self.say(f"seed {seed} {name}: step {step}/{schedule.steps}, loss {loss:.4f}, {pace:.2f} s a step, "
                     f"{mine} left, {all_left} for all agents")

        model = train(accelerator, model, stages, self.encoder, schedule, work, validation, progress)
        if not accelerator.is_main_process:
            accelerator.wait_for_everyone()
            return
        found = examine(model, validation, self.encoder, accelerator.device, count=plan.examined)
        self.say(f"seed {seed} {name}: {found}")
        facts = {"plan": plan.facts(name, seed), "validation": found, **self.provenance}
        dtype = torch.float32 if name == BASE else torch.bfloat16
        export(model, self.tokenizer, self._folder(seed, name), model_card(name, seed, plan, found), facts, dtype)
        accelerator.wait_for_everyone()

    def _claim(self, work: Path, facts: dict[str, Any]) -> None:
        """Checkpoints of another plan are refused, never mixed."""
        work.mkdir(parents=True, exist_ok=True)
        record = work / "plan.json"
        if record.is_file() and json.loads(record.read_text(encoding="utf-8")) != facts:
            raise UserError(f"{work} holds checkpoints of another plan; choose another --out or remove it")
        record.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def model_card(name: str, seed: int, plan: TrainingPlan, found: dict[str, float]) -> str:
    """A Hugging Face README with front matter."""
    role = plan.role(name)
    about = "" if name == BASE else plan.agents[name].about
    rows = "\n".join(f"| {skill} | {share:.1%} |" for skill, share in found.items())
    domains = ", ".join(role.domains)
    return f"""---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
tags: [relay, goa_torch, {", ".join(role.domains)}]
---
# Relay {name}, pool seed {seed}

{about or f"An agent of Relay that evaluates layers of {domains} and copies the rest."} A Llama of
{plan.shape.num_hidden_layers} layers and width {plan.shape.hidden_size}, trained from random weights by
`experiments/train_relay.py` on expressions like `rev[(47+8)]`; `training.json` holds what it was made with. It knows
nothing else and speaks only the prompts in `models/prompts/{plan.templates(name)}`.

Validation questions, greedy: share of replies that are right to the last character (layers of its own evaluated,
those of others copied).

| skill | right |
|---|---|
{rows}
"""
