"""What every model can be asked, and what an agent is: a model with a name, a card and a role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import UserError
from ..types import Card, Chat, Reply, Sampling

if TYPE_CHECKING:
    from torch import Tensor

GENERATE, LOG_LIKELIHOOD, EMBED = "generate", "log_likelihood", "embed"
#: Hears messages as loudly as they are (:class:`goa_torch.types.Heard`); its likelihood has a gradient in that.
EDGE_WEIGHTS, GRADIENT = "edge_weights", "gradient"


class LanguageModel:
    """The protocol of a model, in process or behind a server.

    Attributes:
        name: how pools and messages name it.
        fingerprint: what the reply cache tells models apart by: weights and revision, dtype, kind of device.
        capabilities: which of the methods below work; a method of another model needs them before its first call.
        context_length: most tokens of prompt and reply together, ``None`` if unknown.
        lane: models of one lane are served one after the other, lanes run side by side (a device, a server).
    """

    name: str = "model"
    fingerprint: str = "model"
    capabilities: frozenset[str] = frozenset({GENERATE})
    context_length: int | None = None
    lane: str = "cpu"

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        """One reply for each chat, in order. ``sampling`` is one for all chats or one for each.

        What goes wrong with one chat (it does not fit, the server gave up) is that chat's ``Reply.failure``.
        """
        raise self._cannot(GENERATE)

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        """log p(continuation | chat) in nats, summed over the continuation's tokens."""
        raise self._cannot(LOG_LIKELIHOOD)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """One vector of unit length for each text, float32 [len(texts), d]."""
        raise self._cannot(EMBED)

    def count_tokens(self, chat: Chat) -> int | None:
        """Tokens of the prompt as the model would see it, ``None`` if the model cannot tell."""
        return None

    def check(self) -> None:
        """Raises :class:`UserError` if the model cannot be reached or loaded; called before the first call."""

    def close(self) -> None:
        """Gives back what the model holds."""

    def need(self, capability: str, method: str) -> None:
        """Raises :class:`UserError` unless the model has ``capability``, which ``method`` needs."""
        if capability not in self.capabilities:
            raise UserError(
                f"{method} needs agents with {capability!r}, which model {self.name!r} "
                f"({type(self).__name__}) lacks; it has {', '.join(sorted(self.capabilities))}"
            )

    def _cannot(self, capability: str) -> UserError:
        return UserError(f"model {self.name!r} ({type(self).__name__}) cannot do {capability!r}")


def sampling_per_chat(chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Sampling]:
    """``sampling`` as a list with one entry a chat."""
    if isinstance(sampling, Sampling):
        return [sampling] * len(chats)
    if len(sampling) != len(chats):
        raise ValueError(f"{len(chats)} chats but {len(sampling)} samplings: give one for all or one for each")
    return list(sampling)


@dataclass(frozen=True, slots=True, eq=False)
class Agent:
    """A node of the graph: a model in a role. ``name`` is unique within a pool, ``system`` is its system prompt."""

    name: str
    model: LanguageModel
    card: Card
    system: str = ""
