"""How likely replies are, differentiably in how loudly messages are heard: one batched forward pass for each model,
or for all models of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..agents.edge_attention import EdgeBias, enable_edge_weights
from ..agents.edge_rows import listening_from, parallel_positions
from ..agents.stacked import LlamaStack
from ..types import Chat

if TYPE_CHECKING:
    from torch.nn import Module

    from ..agents.hf import HFModel

#: Most tokens of one forward pass, padding included.
BATCH_TOKENS = 1 << 15


@dataclass(slots=True)
class Lesson:
    """A prompt whose messages are edges, and the reply whose likelihood is wanted.

    Attributes:
        chat: the prompt; its messages' spans say that they are heard (:class:`~goa_torch.types.Heard`).
        target: the reply.
        edge: number of the edge by which each sender is heard.
    """

    chat: Chat
    target: str
    edge: dict[int, int]


@dataclass(slots=True)
class _Tokens:
    ids: list[int]
    edges: list[int]  # [tokens] number of the edge, -1 for none
    messages: list[int]
    start: int
    tail: int
    parallel: bool


def teacher_forced(model: HFModel, lessons: Sequence[Lesson], log_weight: Tensor) -> tuple[Tensor, int, int]:
    """:func:`teacher_forced_together` of one model: likelihoods [R], tokens of prompts, tokens of targets."""
    told, read, written = teacher_forced_together([model], [lessons], log_weight)
    return told[0], read, written


def teacher_forced_together(models: Sequence[HFModel], lessons: Sequence[Sequence[Lesson]], log_weight: Tensor
                            ) -> tuple[list[Tensor], int, int]:
    """log p(target, end of reply | chat) of each model's lessons, float32 [R] for each model, with its gradient in
    ``log_weight``. Several models must be of one shape (:func:`~goa_torch.agents.stacked.stackable`): they run as one.

    In scope ``receiver`` what stands before the listener's own words does not depend on the weights: it is read once,
    without a graph, and only the rest is differentiated.

    Args:
        log_weight: [E + 1] of each edge; the last entry is 0, for what is no message.

    Returns:
        the likelihoods, and the number of tokens of prompts and of targets.
    """
    if len(models) == 1:
        run = enable_edge_weights(models[0].module)
    else:
        run = LlamaStack([model.module for model in models])
    rows = [[_tokens(model, lesson) for lesson in mine] for model, mine in zip(models, lessons)]
    order = [sorted(range(len(mine)), key=lambda i, mine=mine: len(mine[i].ids)) for mine in rows]
    values: list[list[Tensor | None]] = [[None] * len(mine) for mine in rows]
    start, longest = 0, max(map(len, rows), default=0)
    while start < longest:
        size, most = 0, 0
        while start + size < longest:  # rows of a model, until they are too many tokens with the next one
            most = max(most, *(len(mine[o[start + size]].ids) for mine, o in zip(rows, order) if start + size < len(o)))
            if size and (size + 1) * most * len(models) > BATCH_TOKENS:
                break
            size += 1
        chosen = [o[start : start + size] for o in order]
        size = max(map(len, chosen))
        told = _forward(run, models[0], [[mine[i] for i in some] for mine, some in zip(rows, chosen)], size, log_weight)
        for mine, some, value in zip(values, chosen, told.view(len(models), size)):
            for number, one in zip(some, value.unbind()):
                mine[number] = one
        start += size
    targets = sum(row.tail for mine in rows for row in mine)
    read = sum(len(row.ids) for mine in rows for row in mine) - targets
    return [torch.stack(mine) if mine else log_weight.new_zeros(0) for mine in values], read, targets  # type: ignore


def _tokens(model: HFModel, lesson: Lesson) -> _Tokens:
    end = model.chats.turn_end()
    end = model.tokenizer.eos_token_id if end is None else end
    prompt = model.encode(lesson.chat)
    tail = [*model.chats.text_ids(lesson.target), *([] if end is None else [end])]
    owners = prompt.messages or [-1] * len(prompt.ids)
    edges = [lesson.edge[prompt.heard[owner][0]] if owner >= 0 else -1 for owner in owners]
    parallel = bool(prompt.heard) and prompt.heard[0][1].parallel
    blank = [-1] * len(tail)
    return _Tokens([*prompt.ids, *tail], edges + blank, owners + blank, listening_from(prompt), len(tail), parallel)


def _forward(run: Module | LlamaStack, model: HFModel, listed: Sequence[Sequence[_Tokens]], size: int,
             log_weight: Tensor) -> Tensor:
    """The likelihoods of ``size`` rows of each model; those of models that have fewer are blank in the end."""
    device = model.module.get_input_embeddings().weight.device
    pad = model.tokenizer.pad_token_id or 0
    known = [row for mine in listed for row in mine]
    blank = min(known, key=lambda row: len(row.ids))
    rows = [row for mine in listed for row in [*mine, *[blank] * (size - len(mine))]]
    longest = max(len(row.ids) for row in rows)

    def laid(lists: list[list[int]], blank: int) -> Tensor:
        return torch.tensor([[blank] * (longest - len(one)) + one for one in lists], device=device)

    ids, messages = laid([row.ids for row in rows], pad), laid([row.messages for row in rows], -1)
    edges = laid([row.edges for row in rows], -1)
    mask = laid([[1] * len(row.ids) for row in rows], 0)
    parallel = any(row.parallel for row in rows)
    positions = parallel_positions(messages, mask) if parallel else (mask.cumsum(1) - 1).clamp_min(0)
    scoped = any(row.start for row in rows)
    start = torch.tensor([longest - len(row.ids) + row.start for row in rows], device=device)
    weights = log_weight.to(device)[edges]  # [rows, columns]; -1 finds the last: 0
    bias = EdgeBias(weights, start if scoped else None, messages if parallel else None, parallel)
    keep = 1 + max(row.tail for row in rows)
    first, cache = 0, None
    if scoped and weights.requires_grad and all(row.start for row in rows):
        first = min(int(start.min()), longest - keep)
    if first > 0:
        from transformers import DynamicCache

        cache = DynamicCache(config=run.config)
        before = None if not parallel else EdgeBias(weights[:, :first].detach(), start, messages[:, :first], True)
        with torch.no_grad():
            run(input_ids=ids[:, :first], attention_mask=mask[:, :first], position_ids=positions[:, :first],
                edge_bias=before, cache=cache, use_cache=True, logits_to_keep=1)
    logits = run(input_ids=ids[:, first:], attention_mask=mask, position_ids=positions[:, first:], edge_bias=bias,
                 cache=cache, use_cache=cache is not None, logits_to_keep=keep).logits
    scores = logits[:, :-1].float().log_softmax(dim=-1)
    scores = scores.gather(2, ids[:, 1 - keep :, None])[..., 0]  # [rows, keep - 1]
    tail = torch.tensor([row.tail for row in rows], device=device)[:, None]
    wanted = torch.arange(keep - 1, device=device)[None] >= keep - 1 - tail
    return (scores * wanted).sum(1)
