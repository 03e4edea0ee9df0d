"""What a server accepts: requests are built in its dialect, and a refusal teaches it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..types import Chat, Message, Sampling
from .openai_errors import Refusal

#: Fields a server may do without. What they ask for is kept as far as it can be: stop strings are cut here anyway.
OPTIONAL = ("seed", "top_p", "stop", "temperature")

_COMPLAINT = re.compile(
    r"unexpected|unknown|unrecogni[sz]ed|unsupported|(not|n't) (support|permit|allow|accept)|not (recogni|implemented)"
    r"|extra (input|field)|additional propert|invalid (param|field|arg|key)|no such", re.IGNORECASE)
_ROLES = re.compile(
    r"must alternate|system['\"]? (role|message|prompt)s?.{0,40}(not|n't|un)[ -]?(support|allow|permit)"
    r"|(not|n't|un)[ -]?(support|allow|permit)\w*.{0,40}system|only.{0,30}\buser\b.{0,40}\broles? (is|are)"
    r"|(invalid|unknown|unexpected|unsupported).{0,20}role|role.{0,30}(invalid|unknown|must be)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server wants to be asked.

    Attributes:
        tokens: the name of the field that bounds the reply (``max_tokens``, or ``max_completion_tokens``).
        without: optional fields it rejects.
        folded: it has no system role or demands that roles alternate, so the system's text opens the user's turn and
            neighbouring turns of one role are one.
    """

    tokens: str = "max_tokens"
    without: frozenset[str] = frozenset()
    folded: bool = False

    def messages(self, chat: Chat) -> list[dict[str, str]]:
        turns = fold(chat.messages) if self.folded else [(m.role, m.text) for m in chat.messages]
        return [{"role": role, "content": text} for role, text in turns]

    def request(self, chat: Chat, sampling: Sampling) -> dict[str, Any]:
        """The fields of a chat completion. Greedy decoding draws nothing, so it names no seed; elsewhere the seed is
        the chat's stream reduced to 31 bits."""
        fields: dict[str, Any] = {"messages": self.messages(chat), self.tokens: sampling.max_new_tokens,
                                  "temperature": sampling.temperature}
        if sampling.top_p < 1:
            fields["top_p"] = sampling.top_p
        if sampling.stop:
            fields["stop"] = list(sampling.stop)
        if sampling.temperature > 0:
            fields["seed"] = chat.stream & 0x7FFFFFFF
        return {field: value for field, value in fields.items() if field not in self.without}

    def learn(self, refusal: Refusal, sent: dict[str, Any], chat: Chat) -> Dialect | None:
        """The dialect in which the request ``sent`` might have been accepted, ``None`` if that was not the reason."""
        if refusal.status not in (400, 422, 500, 501) or refusal.too_long:
            return None
        if not self.folded and _ROLES.search(refusal.message):
            folded = replace(self, folded=True)
            if folded.messages(chat) != self.messages(chat):
                return folded
        if refusal.status >= 500 or not (
                _COMPLAINT.search(refusal.message) or refusal.code == "unsupported_parameter"):
            return None
        if self.tokens == "max_tokens" and _names("max_tokens", refusal):
            return replace(self, tokens="max_completion_tokens")
        named = frozenset(field for field in OPTIONAL if field in sent and _names(field, refusal))
        return replace(self, without=self.without | named) if named else None

    def __or__(self, other: Dialect) -> Dialect:
        """What both have learnt."""
        tokens = self.tokens if self.tokens != "max_tokens" else other.tokens
        return Dialect(tokens, self.without | other.without, self.folded or other.folded)


def fold(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Turns ``(role, text)`` in which user and assistant alternate and there is no system."""
    turns: list[tuple[str, str]] = []
    for message in messages:
        role = "user" if message.role == "system" else message.role
        if turns and turns[-1][0] == role:
            turns[-1] = (role, f"{turns[-1][1]}\n\n{message.text}")
        else:
            turns.append((role, message.text))
    return turns


def _names(field: str, refusal: Refusal) -> bool:
    return refusal.param == field or re.search(rf"(?<!\w){field}(?!\w)", refusal.message) is not None
