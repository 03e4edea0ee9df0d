"""How likely replies are, differentiably in how loudly messages are heard: one batched forward pass for each model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..agents.edge_attention import EdgeBias, enable_edge_weights
from ..agents.edge_rows import listening_from, parallel_positions
from ..types import Chat

if TYPE_CHECKING:
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
    """log p(target, end of reply | chat) of each lesson, float32 [R], with its gradient in ``log_weight``.

    In scope ``receiver`` what stands before the listener's own words does not depend on the weights: it is read once,
    without a graph, and only the rest is differentiated.

    Args:
        log_weight: [E + 1] of each edge; the last entry is 0, for what is no message.

    Returns:
        the likelihoods, and the number of tokens of prompts and of targets.
    """
    end = model.chats.turn_end()
    end = model.tokenizer.eos_token_id if end is None else end
    rows = []
    for lesson in lessons:
        prompt = model.encode(lesson.chat)
        tail = [*model.chats.text_ids(lesson.target), *([] if end is None else [end])]
        owners = prompt.messages or [-1] * len(prompt.ids)
        edges = [lesson.edge[prompt.heard[owner][0]] if owner >= 0 else -1 for owner in owners]
        parallel = bool(prompt.heard) and prompt.heard[0][1].parallel
        blank = [-1] * len(tail)
        rows.append(_Tokens([*prompt.ids, *tail], edges + blank, owners + blank, listening_from(prompt), len(tail),
                            parallel))
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
    values: list[Tensor | None] = [None] * len(rows)
    enable_edge_weights(model.module)
    while order:
        size = 1
        while size < len(order) and (size + 1) * len(rows[order[size]].ids) <= BATCH_TOKENS:
            size += 1
        chosen, order = order[:size], order[size:]
        for number, value in zip(chosen, _forward(model, [rows[i] for i in chosen], log_weight).unbind()):
            values[number] = value
    told = torch.stack(values) if values else log_weight.new_zeros(0)  # type: ignore[arg-type]
    targets = sum(row.tail for row in rows)
    return told, sum(len(row.ids) for row in rows) - targets, targets


def _forward(model: HFModel, rows: Sequence[_Tokens], log_weight: Tensor) -> Tensor:
    module = model.module
    device = module.get_input_embeddings().weight.device
    longest = max(len(row.ids) for row in rows)
    pad = model.tokenizer.pad_token_id or 0

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

        cache = DynamicCache(config=module.config)
        before = None if not parallel else EdgeBias(weights[:, :first].detach(), start, messages[:, :first], True)
        with torch.no_grad():
            module(input_ids=ids[:, :first], attention_mask=mask[:, :first], position_ids=positions[:, :first],
                   edge_bias=before, cache=cache, use_cache=True, logits_to_keep=1)
    logits = module(input_ids=ids[:, first:], attention_mask=mask, position_ids=positions[:, first:], edge_bias=bias,
                    cache=cache, use_cache=cache is not None, logits_to_keep=keep).logits
    scores = logits[:, :-1].float().log_softmax(dim=-1)
    scores = scores.gather(2, ids[:, 1 - keep :, None])[..., 0]  # [rows, keep - 1]
    tail = torch.tensor([row.tail for row in rows], device=device)[:, None]
    wanted = torch.arange(keep - 1, device=device)[None] >= keep - 1 - tail
    return (scores * wanted).sum(1)
