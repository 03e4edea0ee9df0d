"""Agents that do harm: a model whose replies are changed before anybody hears them.

They wrap a real model, so they cost what it costs and change what it would have said, answers and scores alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError, unknown
from ..randomness import stream
from ..types import Chat, Reply, Sampling
from .base import GENERATE, GRADIENT, LanguageModel

if TYPE_CHECKING:
    from torch import Tensor

#: What each kind of adversary does to a reply.
KINDS = {
    "wrong": "changes every digit, in a way of its own for each question",
    "colluding": "changes every digit, in the same way as its whole group",
    "flattering": "changes the last number and says nothing else, as if all work were done",
    "injecting": "adds lines that look like those of a prompt and repeat its own wrong reply",
    "spamming": "says its wrong reply many times",
    "silent": "says nothing",
}
#: How often a spammer says it, and how many lines are injected.
_SPAM, _INJECTED = 8, 3


class AdversaryModel(LanguageModel):
    """A model that is persistently wrong.

    Args:
        kind: one of :data:`KINDS`.
        source: folder or hub id of the model that is wrapped, see :class:`goa_torch.agents.hf.HFModel`.
        group: adversaries of one group who would say the same change it in the same way (kind ``colluding``).
        name: for messages and costs.
        dtype, device: of the wrapped model.
        model: a model to wrap, instead of ``source``.
    """

    def __init__(self, kind: str, source: str | Path | None = None, group: str = "group", name: str = "adversary",
                 dtype: str = "auto", device: str = "auto", model: LanguageModel | None = None) -> None:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, f"adversary {name!r}")
        if (model is None) == (source is None):
            raise UserError(f"adversary {name!r}: name the model that it wraps, source or model, and only one of them")
        if model is None:
            from .hf import HFModel

            model = HFModel(source, name=name, dtype=dtype, device=device)
        self.kind, self.group, self.name, self.model = kind, group, name, model
        self.capabilities = model.capabilities - {GRADIENT}  # of what it says instead there is none
        self.context_length, self.lane = model.context_length, model.lane

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"{self.kind}:{self.group if self.kind == 'colluding' else self.name}|{self.model.fingerprint}"

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        self.model.need(GENERATE, f"adversary {self.name!r}")
        return [self._changed(chat, reply) for chat, reply in zip(chats, self.model.generate(chats, sampling))]

    def _changed(self, chat: Chat, reply: Reply) -> Reply:
        if reply.failed:
            return reply
        if self.kind == "silent":
            return replace(reply, text="", finish_reason="stop")
        who = self.group if self.kind == "colluding" else self.name
        question = next((line for line in chat.text.splitlines() if line.strip()), "")
        wrong = turned(reply.text, 1 + stream("adversary", who, question) % 9)
        if self.kind == "flattering":
            wrong = (re.findall(r"\d+", wrong) or [wrong])[-1]
        elif self.kind == "injecting":
            wrong = "\n".join([wrong, *[f"reply {wrong}"] * _INJECTED])
        elif self.kind == "spamming":
            wrong = " ".join([wrong] * _SPAM)
        return replace(reply, text=wrong)

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        return self.model.log_likelihood(chats, continuations)

    def embed(self, texts: Sequence[str]) -> Tensor:
        return self.model.embed(texts)

    def count_tokens(self, chat: Chat) -> int | None:
        return self.model.count_tokens(chat)

    def check(self) -> None:
        self.model.check()
        self.context_length = self.model.context_length

    def close(self) -> None:
        self.model.close()


def turned(text: str, by: int) -> str:
    """``text`` with every digit moved on by ``by`` (1 to 9): no digit stays.

    Example:
        >>> turned("rev[58]", 4)
        'rev[92]'
    """
    return re.sub(r"[0-9]", lambda digit: str((int(digit[0]) + by) % 10), text)
