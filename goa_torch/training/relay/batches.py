"""Lessons as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ...randomness import stream
from .lessons import Lesson, Lessons

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

#: Batches that are made at once and sorted by length, so that little is padding.
CHUNK = 32
IGNORED = -100


@dataclass(frozen=True, slots=True)
class Batch:
    """``ids``, ``mask`` and ``labels`` [B, L], padded on the right; labels are :data:`IGNORED` but for the reply."""

    ids: Tensor
    mask: Tensor
    labels: Tensor
    lessons: list[Lesson]

    def to(self, device: torch.device) -> Batch:
        return Batch(self.ids.to(device), self.mask.to(device), self.labels.to(device), self.lessons)


class Encoder:
    """Lessons to token ids, in bulk: the chat template applied to the prompt, the reply, the end of the turn.

    The ids are those of :class:`goa_torch.agents.chat_tokens.ChatTokenizer`, which runs the agents (lessons never hold
    the text of a control token); a test compares them.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        turn = [{"role": "user", "content": "\ue000"}]
        around = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
        self.before, self.after = around.split("\ue000")
        self.end, self.pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        self.backend = tokenizer.backend_tokenizer
        self.backend.encode_special_tokens = False

    def encode(self, lessons: Sequence[Lesson]) -> list[tuple[list[int], list[int]]]:
        """Prompt ids and reply ids of each lesson."""
        for lesson in lessons:
            if len(lesson.messages) != 1 or lesson.messages[0].role != "user":
                raise ValueError("lessons are prompts of one user turn; the templates gave "
                                 f"{[message.role for message in lesson.messages]}")
        prompts = self.backend.encode_batch_fast([self.before + x.messages[0].text + self.after for x in lessons],
                                                 add_special_tokens=False)
        replies = self.backend.encode_batch_fast([x.reply for x in lessons], add_special_tokens=False)
        return [(p.ids, [*r.ids, self.end]) for p, r in zip(prompts, replies)]

    def batch(self, lessons: Sequence[Lesson]) -> Batch:
        """One batch, padded to its longest."""
        rows = self.encode(lessons)
        length = max(len(prompt) + len(reply) for prompt, reply in rows)
        ids = np.full((len(rows), length), self.pad, dtype=np.int64)
        labels = np.full((len(rows), length), IGNORED, dtype=np.int64)
        mask = np.zeros((len(rows), length), dtype=np.int64)
        for i, (prompt, reply) in enumerate(rows):
            end = len(prompt) + len(reply)
            ids[i, :end] = prompt + reply
            labels[i, len(prompt) : end] = reply
            mask[i, :end] = 1
        return Batch(torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(labels), list(lessons))


def batches(lessons: Lessons, encoder: Encoder, size: int, first: int = 0, max_tokens: int | None = None
            ) -> Iterator[Batch]:
    """Training batches number ``first``, ``first + 1``, ... for ever; number n is always the same.

    Args:
        max_tokens: a batch of long lessons holds fewer, so that attention, which is quadratic in the length, does not
            take most of the time.
    """
    chunk, skip = divmod(first, CHUNK)
    while True:
        made = lessons.chunk(chunk, CHUNK * size)
        lengths = np.array([len(prompt) + len(reply) for prompt, reply in encoder.encode(made)])
        order = np.argsort(lengths, kind="stable").reshape(CHUNK, size)
        for row in np.random.default_rng(stream("relay batches", lessons.seed, chunk)).permutation(CHUNK)[skip:]:
            fit = size if max_tokens is None else max(1, max_tokens // int(lengths[order[row]].max()))
            yield encoder.batch([made[i] for i in order[row][:fit]])
        chunk, skip = chunk + 1, 0


def course(stages: Sequence[tuple[int, Lessons]], encoder: Encoder, size: int, first: int = 0,
           max_tokens: int | None = None) -> Iterator[Batch]:
    """Batches of one stage after another, each ``(steps, lessons)``, from number ``first`` of the whole course on."""
    for steps, lessons in stages:
        yield from islice(batches(lessons, encoder, size, first, max_tokens), max(0, steps - first))
        first = max(0, first - steps)
