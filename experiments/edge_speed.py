"""What a gradient into the edges costs: one training step over edge weights beside a plain forward and backward pass.

    python experiments/edge_speed.py [--pool smollm2] [--batch 8] [--tokens 512] [--rows 2] [--repeats 3]

Steps of a batch of prompts with four messages each, in float32 and CPU seconds of one process, so that other work on
the machine matters little; their order goes round, the median counts. `plain` differentiates the likelihood of a reply
with respect to all parameters of the model, as fine-tuning does; `plain, frozen` only with respect to what is read,
which is the least a backward pass through the model can cost. `--rows` go through the model at once (memory), in all
steps alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from goa_torch import load_pool
from goa_torch.agents.hf import HFModel
from goa_torch.nn.attention import log_weight
from goa_torch.nn.teacher_forcing import Lesson, teacher_forced
from goa_torch.types import Chat, Heard, Message, Span

MESSAGES, TARGET = 4, "After reading all of this, the answer is B."
FILLER = "one peer says that the second option follows from what is known and another that it does not "


def lesson(model: HFModel, scope: str, tokens: int, first_edge: int) -> Lesson:
    """A prompt with four messages, ``tokens`` long together with its target, a token or two less at most."""
    words = (FILLER * (1 + tokens // 4)).split()

    def built(count: int) -> Lesson:
        parts: list[str | Span] = ["What follows from this? " + " ".join(words[: count // 2])]
        for number in range(MESSAGES):
            said = " ".join(words[number : number + count // (2 * MESSAGES)])
            heard = Heard(1.0, scope)  # type: ignore[arg-type]
            parts += [f"\n\nReply {number + 1}:\n", Span(said, sender=number, heard=heard)]
        parts.append("\n\nUse what is right in the replies above, then answer the question.")
        edges = {number: first_edge + number for number in range(MESSAGES)}
        return Lesson(Chat((Message.of("user", *parts),)), TARGET, edges)

    low, high = MESSAGES, len(words)
    while low < high:  # the longest that fits
        middle = (low + high + 1) // 2
        if length(model, built(middle)) <= tokens:
            low = middle
        else:
            high = middle - 1
    return built(low)


def length(model: HFModel, made: Lesson) -> int:
    """Tokens of prompt and target, the end of the reply included."""
    return len(model.encode(made.chat).ids) + len(model.chats.text_ids(made.target)) + 1


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measures and returns the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="smollm2", help="a pool; its meta-LLM is measured")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=512, help="of each prompt and its reply")
    parser.add_argument("--rows", type=int, default=2, help="prompts that go through the model at once")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None, help="a JSON file for the figures")
    asked = parser.parse_args(arguments)
    source = load_pool(asked.pool).meta.model
    if not isinstance(source, HFModel):
        parser.error(f"the meta-LLM of pool {asked.pool!r} is no model in process")
    model = HFModel(source.recipe.source, dtype="float32")
    module = model.module.eval()
    lessons = {scope: [lesson(model, scope, asked.tokens, MESSAGES * row) for row in range(asked.batch)]
               for scope in ("all", "receiver")}
    size = length(model, lessons["all"][0])
    ids = [model.encode(made.chat).ids + model.chats.text_ids(TARGET) for made in lessons["all"]]
    tail = len(model.chats.text_ids(TARGET))

    def chunks(items: Sequence) -> list:
        return [items[i : i + asked.rows] for i in range(0, len(items), asked.rows)]

    def plain(frozen: bool, backward: bool = True) -> None:
        module.requires_grad_(not frozen)
        for rows in chunks(ids):
            read = module.get_input_embeddings()(torch.tensor(rows))
            if frozen and backward:
                read = read.detach().requires_grad_(True)
            with torch.set_grad_enabled(backward):
                logits = module(inputs_embeds=read, logits_to_keep=tail + 1, use_cache=False).logits[:, :-1]
                told = logits.float().log_softmax(-1).gather(2, torch.tensor(rows)[:, -tail:, None]).sum()
            if backward:
                (-told).backward()
        module.zero_grad(set_to_none=True)
        module.requires_grad_(False)

    def edges(scope: str) -> None:
        weight = torch.ones(MESSAGES * asked.batch, requires_grad=True)
        for rows in chunks(lessons[scope]):
            table = torch.cat([log_weight(weight), torch.zeros(1)])
            (-teacher_forced(model, rows, table)[0].sum()).backward()
        if not bool(weight.grad.isfinite().all()) or not bool(weight.grad.any()):
            raise RuntimeError("the edges got no gradient")

    steps: dict[str, Callable[[], None]] = {
        "forward": lambda: plain(frozen=True, backward=False), "plain": lambda: plain(frozen=False),
        "plain, frozen": lambda: plain(frozen=True), "edges, scope all": lambda: edges("all"),
        "edges, scope receiver": lambda: edges("receiver")}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    edges("receiver")  # the first pass also prepares the model
    for repeat in range(asked.repeats):
        for number in range(len(steps)):
            name = list(steps)[(number + repeat) % len(steps)]
            started = time.process_time()
            steps[name]()
            seconds[name].append(time.process_time() - started)
    figures = {"model": model.name, "batch": asked.batch, "tokens": size, "rows": asked.rows, "repeats": asked.repeats,
               "threads": torch.get_num_threads(), "cpu_seconds": {n: statistics.median(s) for n, s in seconds.items()}}
    base = figures["cpu_seconds"]
    print(f"{model.name}, {asked.batch} prompts of {size} tokens, {asked.rows} at once, CPU seconds a step")
    for name, taken in base.items():
        each = ", ".join(f"{s:.2f}" for s in seconds[name])
        print(f"{name:24} {taken:8.2f} s   {taken / base['plain']:5.2f} x plain   "
              f"{taken / base['plain, frozen']:5.2f} x plain, frozen   (of {each})")
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps({**figures, "all": seconds}, indent=2) + "\n", encoding="utf-8")
    return figures


if __name__ == "__main__":
    main()
