"""Agents that do harm: a model whose replies are changed before anybody hears them.

They wrap a real model, so they cost what it costs and change what it would have said, answers and scores alike.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..errors import unknown
from ..randomness import stream
from ..types import Chat, Reply
from .base import LanguageModel
from .wrapped import WrappedModel

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


class AdversaryModel(WrappedModel):
    """A model that is persistently wrong.

    Args:
        kind: one of :data:`KINDS`.
        source: folder or hub id of the model that is wrapped, see :class:`goa_torch.agents.hf.HFModel`.
        group: adversaries of one group who would say the same change it in the same way (kind ``colluding``).
        name: for messages and costs.
        dtype, device: of the wrapped model.
        model: a model to wrap, instead of ``source``.
    """

    _what = "adversary"

    def __init__(self, kind: str, source: str | Path | None = None, group: str = "group", name: str = "adversary",
                 dtype: str = "auto", device: str = "auto", model: LanguageModel | None = None) -> None:
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS, f"adversary {name!r}")
        super().__init__(source, name, dtype, device, model)
        self.kind, self.group = kind, group

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"{self.kind}:{self.group if self.kind == 'colluding' else self.name}|{self.model.fingerprint}"

    def changed(self, chat: Chat, reply: Reply) -> Reply:
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


def turned(text: str, by: int) -> str:
    """``text`` with every digit moved on by ``by`` (1 to 9): no digit stays.

    Example:
        >>> turned("rev[58]", 4)
        'rev[92]'
    """
    return re.sub(r"[0-9]", lambda digit: str((int(digit[0]) + by) % 10), text)
