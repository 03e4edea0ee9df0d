"""A model whose judgements are drawn, for measuring speed where a model is too small or too random to judge."""

from __future__ import annotations

import re
from collections.abc import Sequence

from goa_torch import randomness
from goa_torch.agents.base import LanguageModel
from goa_torch.types import Chat, Reply, Sampling

_WANTED = re.compile(r"Reply with exactly (\d+) ind|Write (\d+) numbers")


class DrawnJudge(LanguageModel):
    """A model whose numbers are drawn instead of generated, after the same prefill and decoding, so that every stage of
    a method runs although the weights are random."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.name, self.capabilities = model.name, model.capabilities

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"{self.model.fingerprint}|drawn"

    @property
    def lane(self) -> str:  # type: ignore[override]
        return self.model.lane

    @property
    def context_length(self) -> int | None:  # type: ignore[override]
        return self.model.context_length

    def check(self) -> None:
        self.model.check()

    def count_tokens(self, chat: Chat) -> int | None:
        return self.model.count_tokens(chat)

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        replies = self.model.generate(chats, sampling)
        return [Reply(said, "stop", usage=reply.usage) if (said := self._drawn(chat)) else reply
                for chat, reply in zip(chats, replies)]

    @staticmethod
    def _drawn(chat: Chat) -> str | None:
        """Indices or scores of the asked number where the prompt (of the ``default`` set) asks for them."""
        wanted = _WANTED.findall(chat.text)
        if not wanted:
            return None
        indices, scores = wanted[-1]
        draws = randomness.uniforms([chat.stream], range(6))
        if indices:
            return ", ".join(str(i) for i in sorted(range(6), key=lambda i: draws[i])[: int(indices)])
        raw = [0.2 + float(u) for u in draws[: int(scores)]]
        return ", ".join(f"{value / sum(raw):.3f}" for value in raw)
