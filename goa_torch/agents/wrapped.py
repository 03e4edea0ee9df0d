"""A model around another one, which it asks and whose replies it changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..types import Chat, Reply, Sampling
from .base import GENERATE, GRADIENT, LanguageModel

if TYPE_CHECKING:
    from torch import Tensor


class WrappedModel(LanguageModel):
    """Asks a model and changes what it hears (:meth:`received`) and says (:meth:`changed`); all else is the model's.

    Args:
        source: folder or hub id of the model, see :class:`goa_torch.agents.hf.HFModel`.
        name: for messages and costs.
        dtype, device: of the model.
        model: a model to wrap, instead of ``source``.
    """

    def __init__(self, source: str | Path | None, name: str, dtype: str, device: str, model: LanguageModel | None
                 ) -> None:
        if (model is None) == (source is None):
            raise UserError(f"{self._what} {name!r}: name the model that it wraps, source or model, and only one")
        if model is None:
            from .hf import HFModel

            model = HFModel(source, name=name, dtype=dtype, device=device)
        self.name, self.model = name, model
        self.capabilities = model.capabilities - {GRADIENT}  # of what it says instead there is none
        self.context_length, self.lane = model.context_length, model.lane

    #: What messages call it.
    _what = "wrapped model"

    def received(self, chat: Chat) -> Chat:
        """What it hears instead of ``chat``."""
        return chat

    def changed(self, chat: Chat, reply: Reply) -> Reply:
        """What it says instead of ``reply``, which did not fail."""
        return reply

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        self.model.need(GENERATE, f"{self._what} {self.name!r}")
        replies = self.model.generate([self.received(chat) for chat in chats], sampling)
        return [reply if reply.failed else self.changed(chat, reply) for chat, reply in zip(chats, replies)]

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        return self.model.log_likelihood([self.received(chat) for chat in chats], continuations)

    def embed(self, texts: Sequence[str]) -> Tensor:
        return self.model.embed(texts)

    def count_tokens(self, chat: Chat) -> int | None:
        return self.model.count_tokens(self.received(chat))

    def check(self) -> None:
        self.model.check()
        self.context_length = self.model.context_length

    def close(self) -> None:
        self.model.close()
