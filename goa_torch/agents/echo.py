"""A model without weights, for tests: it says what a list, a generator or a function tells it to."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..errors import UserError
from ..types import Chat, Reply, Sampling, Usage
from .base import EMBED, GENERATE, LOG_LIKELIHOOD, LanguageModel, sampling_per_chat

Outputs = Callable[[Chat], "str | Reply | None"] | Iterable["str | Reply | None"] | None


_NUMBERS = itertools.count(1)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


class EchoModel(LanguageModel):
    r"""Deterministic replies without a model; every chat it was asked is kept in ``chats``.

    Args:
        outputs: a function of the chat (safe in any batch order), or a list or generator whose items are handed out
            in the order of the calls. An item is text, a whole :class:`Reply`, or ``None`` for a failed call. Without
            it the model repeats the last line of the prompt.
        name: also its fingerprint, so give different names to echoes that say different things; nameless ones are never
            taken for each other.
        context_length: prompts and replies longer than this many words fail, as they would on a model.

    Tokens are words and punctuation marks; a reply longer than ``max_new_tokens`` is cut off with finish reason
    ``length``; stop strings end it.

    Example:
        >>> model = EchoModel(["Paris", "London"])
        >>> from goa_torch.types import Chat, Message
        >>> model.generate([Chat((Message.of("user", "Capital of France?"),))], Sampling())[0].text
        'Paris'
    """

    capabilities = frozenset({GENERATE, LOG_LIKELIHOOD, EMBED})

    def __init__(self, outputs: Outputs = None, name: str | None = None, context_length: int | None = None) -> None:
        self.name = name or "echo"
        self.fingerprint = f"echo:{name}" if name else f"echo:#{next(_NUMBERS)}"
        self.lane = "echo"
        self.context_length = context_length
        self.chats: list[Chat] = []
        self.batches: list[int] = []
        self._lock = threading.Lock()
        self._function: Callable[[Chat], str | Reply | None] | None = None
        self._items: Iterator[str | Reply | None] | None = None
        if callable(outputs):
            self._function = outputs
        elif outputs is None:
            self._function = lambda chat: chat.text.rstrip().splitlines()[-1] if chat.text.strip() else ""
        else:
            self._items = iter(outputs)

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        with self._lock:
            self.batches.append(len(chats))
            return [self._reply(chat, how) for chat, how in zip(chats, sampling_per_chat(chats, sampling))]

    def _reply(self, chat: Chat, sampling: Sampling) -> Reply:
        self.chats.append(chat)
        prompt = self.count_tokens(chat)
        usage = Usage(calls=1, prompt_tokens=prompt)
        if self.context_length is not None and prompt + sampling.max_new_tokens > self.context_length:
            return Reply.failure(f"prompt of {prompt} tokens and {sampling.max_new_tokens} new ones do not fit "
                                 f"the context of {self.context_length}", usage)
        said = self._next(chat)
        if said is None:
            return Reply.failure("echo was told to fail", usage)
        if isinstance(said, Reply):
            return said
        for stop in sampling.stop:
            said = said.split(stop)[0]
        words = list(re.finditer(r"\w+|[^\w\s]", said))
        finish = "stop"
        if len(words) > sampling.max_new_tokens:
            said, finish = said[: words[sampling.max_new_tokens - 1].end()], "length"
        spent = min(len(words), sampling.max_new_tokens)
        return Reply(said, finish, usage=Usage(calls=1, prompt_tokens=prompt, completion_tokens=spent))

    def _next(self, chat: Chat) -> str | Reply | None:
        if self._function is not None:
            return self._function(chat)
        try:
            return next(self._items)  # type: ignore[arg-type]
        except StopIteration:
            raise UserError(f"echo {self.name!r}: asked call {len(self.chats)}, but its outputs are used up; "
                            "give it more items, an endless generator or a function") from None

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        """Minus the number of words of the continuation that the chat does not hold, minus one for each word."""
        totals = []
        for chat, continuation in zip(chats, continuations, strict=True):
            known = set(_words(chat.text))
            totals.append(-float(sum(1 + (word not in known) for word in _words(continuation))))
        return totals

    def embed(self, texts: Sequence[str]):
        """A hashed bag of words, unit length (the zero vector's place is taken by the first axis)."""
        import torch

        vectors = torch.zeros(len(texts), 64)
        for row, text in enumerate(texts):
            for word in _words(text.lower()):
                place = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=2).digest()[0] % 64
                vectors[row, place] += 1
            if not vectors[row].any():
                vectors[row, 0] = 1
        return vectors / vectors.norm(dim=1, keepdim=True).clamp_min(math.ulp(1.0))

    def count_tokens(self, chat: Chat) -> int:
        return len(_words(chat.text))
