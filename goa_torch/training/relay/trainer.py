"""Trains one agent of Relay: steps that can be interrupted at any moment and go on where they were."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .batches import IGNORED, Batch, Encoder, course
from .lessons import Lessons

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


@dataclass
class Shape:
    """The size of an agent; its architecture is Llama with tied embeddings."""

    hidden_size: int = 128
    intermediate_size: int = 320
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    context_length: int = 1024


@dataclass
class Schedule:
    """How long and how fast.

    Attributes:
        steps: updates.
        batch: lessons an update; fewer where they are long, so that it holds at most ``max_tokens``.
        lr: peak of the learning rate: linear warm-up over ``warmup`` steps, then linear down to a twentieth.
        validate_every, save_every: steps between examinations, between checkpoints.
    """

    steps: int = 1000
    batch: int = 128
    max_tokens: int = 16384
    lr: float = 2e-3
    warmup: int = 100
    weight_decay: float = 0.01
    validate_every: int = 250
    save_every: int = 100

    def rate(self, step: int) -> float:
        """The learning rate of update ``step`` (from 0)."""
        return self.lr * min(1.0, (step + 1) / self.warmup) * (1 - 0.95 * step / max(1, self.steps))


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, seed: int) -> LlamaForCausalLM:
    """A model with random weights that depend on ``seed`` alone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=shape.hidden_size, intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_hidden_layers, num_attention_heads=shape.num_attention_heads,
        num_key_value_heads=shape.num_attention_heads, max_position_embeddings=shape.context_length,
        tie_word_embeddings=True, pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # on CPUs and prompts this short a fifth faster than the fused kernel
    return model


def train(accelerator: Accelerator, model: LlamaForCausalLM, stages: Sequence[tuple[int, Lessons]], encoder: Encoder,
          schedule: Schedule, folder: Path, validation: Lessons | None = None,
          on_step: Callable[[int, float], None] | None = None) -> LlamaForCausalLM:
    """Trains ``model``; checkpoints and ``log.jsonl`` lie in ``folder``, where a run that was killed goes on.

    Batch n is always the same and the learning rate depends on the step alone, so an interrupted run ends where an
    uninterrupted one does.

    Args:
        stages: what is taught, one after the other: updates and lessons; ``schedule.steps`` updates in all.
        validation: lessons from another split, examined every ``validate_every`` steps.
        on_step: called with the number of updates made and the loss.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=schedule.lr, weight_decay=schedule.weight_decay,
                                  betas=(0.9, 0.98))
    model, optimizer = accelerator.prepare(model, optimizer)
    step = _restore(accelerator, folder)
    losses: list[float] = []
    started = time.perf_counter()
    model.train()
    for batch in course(stages, encoder, schedule.batch, step, schedule.max_tokens):
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(step)
        loss = _loss(model, batch.to(accelerator.device), accelerator)
        optimizer.zero_grad(set_to_none=True)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        losses.append(loss.item())
        if on_step is not None:
            on_step(step, losses[-1])
        if step % schedule.validate_every == 0 or step == schedule.steps:
            facts: dict[str, Any] = {"step": step, "loss": sum(losses) / len(losses), "lr": schedule.rate(step - 1),
                                     "seconds_per_step": (time.perf_counter() - started) / len(losses)}
            if validation is not None:
                facts["validation"] = examine(accelerator.unwrap_model(model), validation, encoder, accelerator.device)
            _log(folder, facts)
            losses, started = [], time.perf_counter()
            model.train()
        if step % schedule.save_every == 0:
            _save(accelerator, folder, step)
    return accelerator.unwrap_model(model)


def _loss(model: torch.nn.Module, batch: Batch, accelerator: Accelerator) -> torch.Tensor:
    replies = (batch.labels != IGNORED).any(dim=0).nonzero()
    first = int(replies[0])  # no row's reply begins earlier, so the vocabulary is only needed from the place before
    places = torch.arange(first - 1, batch.ids.shape[1] - 1, device=batch.ids.device)
    with accelerator.autocast():
        logits = model(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False, logits_to_keep=places).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), batch.labels[:, first:].flatten(),
                                             ignore_index=IGNORED)


@torch.no_grad()
def examine(model: torch.nn.Module, lessons: Lessons, encoder: Encoder, device: torch.device, count: int = 1024,
            size: int = 256) -> dict[str, float]:
    """Share of replies that greedy decoding gets entirely right, by skill, and for layers of the agent's own (``own``)
    and others (``copy``). Greedy decoding is right if and only if every token of the right reply is the likeliest
    after those before it, so one forward pass tells."""
    model.eval()
    right: dict[str, list[bool]] = defaultdict(list)
    made = lessons.chunk(0, count)
    for start in range(0, count, size):
        batch = encoder.batch(made[start : start + size]).to(device)
        logits = model(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False).logits
        wanted = batch.labels[:, 1:]
        hit = ((logits[:, :-1].argmax(-1) == wanted) | (wanted == IGNORED)).all(dim=1).tolist()
        for lesson, ok in zip(batch.lessons, hit):
            kind = f"/{'own' if lesson.own else 'copy'}" if lesson.purpose in ("answer", "pass", "readout") else ""
            right[lesson.purpose + kind].append(ok)
    return {name: round(sum(hits) / len(hits), 4) for name, hits in sorted(right.items())}


# ------------------------------------------------------------------------------------------------ on disk


def _save(accelerator: Accelerator, folder: Path, step: int) -> None:
    """A checkpoint appears under its name when it is whole, then older ones go."""
    partial, whole = folder / "checkpoint.partial", folder / f"checkpoint-{step}"
    shutil.rmtree(partial, ignore_errors=True)
    accelerator.save_state(str(partial), safe_serialization=False)  # tied weights are kept as they are
    if not accelerator.is_main_process:
        return
    os.replace(partial, whole)
    for old in folder.glob("checkpoint-*"):
        if old != whole:
            shutil.rmtree(old)


def _restore(accelerator: Accelerator, folder: Path) -> int:
    """The step of the newest checkpoint, which is loaded; 0 if there is none."""
    steps = sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))
    if not steps:
        return 0
    accelerator.load_state(str(folder / f"checkpoint-{steps[-1]}"))
    return steps[-1]


def _log(folder: Path, facts: dict[str, Any]) -> None:
    with open(folder / "log.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def export(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str,
           facts: dict[str, Any], dtype: torch.dtype = torch.bfloat16) -> None:
    """Writes an ordinary Hugging Face folder (safetensors, tokenizer, chat template, README, ``training.json``); it
    appears under its name when it is whole."""
    import copy

    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    kept = copy.deepcopy(model).to("cpu", dtype)
    kept.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "README.md").write_text(card, encoding="utf-8")
    (partial / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for file in partial.iterdir():
        file.chmod(0o644)  # safetensors makes files that only their owner can read
    if folder.exists():
        shutil.rmtree(folder)
    os.replace(partial, folder)

