"""Agents with a bad line: what they hear of others is disturbed, each message for each receiver by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..errors import UserError
from ..randomness import stream, uniforms
from ..types import Chat, Message, Span
from .base import LanguageModel
from .wrapped import WrappedModel


class NoisyModel(WrappedModel):
    """A model to which others' messages come disturbed: the knob *message noise*.

    Every message of somebody else that a prompt shows is disturbed with probability ``noise``: one of its digits,
    drawn, becomes another one. What has no digit, the question, and the agent's own earlier replies stay as they are.
    The same chat is disturbed in the same way whenever it is asked; another receiver or round hears something else.

    Args:
        noise: probability for each message, 0 to 1.
        source: folder or hub id of the model, see :class:`goa_torch.agents.hf.HFModel`.
        model: a model to wrap, instead of ``source``.
    """

    _what = "noisy model"

    def __init__(self, noise: float, source: str | Path | None = None, name: str = "noisy", dtype: str = "auto",
                 device: str = "auto", model: LanguageModel | None = None) -> None:
        if isinstance(noise, bool) or not isinstance(noise, (int, float)) or not 0 <= noise <= 1:
            raise UserError(f"noisy model {name!r}: noise must be a number from 0 to 1, not {noise!r}")
        super().__init__(source, name, dtype, device, model)
        self.noise = float(noise)

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"noise:{self.noise}:{self.name}|{self.model.fingerprint}"

    def received(self, chat: Chat) -> Chat:
        place = 0
        messages = []
        for message in chat.messages:
            spans = []
            for span in message.spans:
                if span.sender is not None and not span.own:
                    span = replace(span, text=self._line(chat, place, span))
                    place += 1
                spans.append(span)
            messages.append(Message(message.role, tuple(spans)))
        return replace(chat, messages=tuple(messages))

    def _line(self, chat: Chat, place: int, span: Span) -> str:
        name = stream("message noise", self.name, chat.stream, place, span.text)
        u = uniforms([name] * 3, range(3))
        return other_digit(span.text, float(u[1]), float(u[2])) if u[0] < self.noise else span.text


def other_digit(text: str, where: float, which: float) -> str:
    """``text`` with one digit changed into another one; ``where`` and ``which`` in [0, 1) say which and how.

    Example:
        >>> other_digit("rev[58]", 0.9, 0.0)
        'rev[59]'
    """
    digits = list(re.finditer("[0-9]", text))
    if not digits:
        return text
    at = digits[int(where * len(digits))].start()
    return text[:at] + str((int(text[at]) + 1 + int(which * 9)) % 10) + text[at + 1:]
