"""Replies that a debate has been given before: repeated states are free."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..types import Reply

if TYPE_CHECKING:
    from ..nn.inbox import Inbox
    from ..state import State


class TransitionCache:
    """The least recently used of ``size`` transitions make room.

    A transition is what one agent replies to what it hears: the key is everything its prompt and random stream are made
    of, so that a hit is the reply a call would have given. It comes before prompts are rendered, which costs more than
    a look-up by far; :class:`PromptCache` comes after.

    Attributes:
        hits, misses: look-ups so far.
    """

    def __init__(self, size: int) -> None:
        self.size, self.hits, self.misses = size, 0, 0
        self._replies: OrderedDict[Hashable, Reply] = OrderedDict()
        self._lock = threading.Lock()  # episodes in different rounds are stepped side by side

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: Hashable) -> Reply | None:
        """The reply, or ``None``."""
        with self._lock:
            found = self._replies.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._replies.move_to_end(key)
            return found

    def put(self, key: Hashable, reply: Reply) -> None:
        """Keeps a reply; failures are not kept, they may have been bad luck."""
        if reply.failed or not self.size:
            return
        with self._lock:
            self._replies[key] = reply
            self._replies.move_to_end(key)
            if len(self._replies) > self.size:
                self._replies.popitem(last=False)


class PromptCache:
    """Replies by rendered prompt and random stream, for an :class:`goa_torch.agents.calls.Exchange`: transitions that
    differ in what a template does not show (how loud a message is, who of two that agree has sent it) are one call.

    Args:
        size: replies that are kept; the least recently used make room.
    """

    def __init__(self, size: int) -> None:
        self._kept = TransitionCache(size)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]:
        """The reply to each key, or ``None``."""
        return [self._kept.get(_digest(key)) for key in keys]

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None:
        """Keeps replies."""
        for key, reply in items:
            self._kept.put(_digest(key), reply)


def _digest(key: Hashable) -> bytes:
    """Sixteen bytes in the place of a whole prompt."""
    return hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def first_key(state: State, node: int) -> Hashable:
    """What the independent answer of a node depends on."""
    question = state.question_of(node)
    return (question.task, question.id, question.text, state.recorder.seed, state.agent_of(node).name,
            int(state.instance[node]))


def pass_key(state: State, node: int, inbox: Inbox) -> Hashable:
    """What the reply of a node to its inbox depends on. Templates that show who is speaking see agents, not places."""
    heard = tuple((state.agent_of(sender).name, int(state.instance[sender]), state.replies[sender].text, weight)
                  for sender, weight in inbox[node])
    return (*first_key(state, node), state.round, state.replies[node].text, heard)
