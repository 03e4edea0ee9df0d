"""The nouns of goa_torch: plain dataclasses that every room may use.

Nothing here imports torch when loaded; tensors appear in annotations only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "error"]
#: What a call to a model is for. Totals by purpose are sums of recorded calls.
Purpose = Literal["select", "answer", "score", "pass", "readout"]


# --------------------------------------------------------------------------- prompts


@dataclass(frozen=True, slots=True)
class Heard:
    """How loudly a model hears a message: edge-weighted attention (:mod:`goa_torch.agents.edge_attention`).

    Attributes:
        weight: of the edge, >= 0; 1 is plain text, 0 a message that is not there.
        scope: ``all`` tokens hear the message as loudly, or only the ``receiver``'s, which come after all messages.
        parallel: messages are read independently of each other.
    """

    weight: float = 1.0
    scope: Literal["all", "receiver"] = "all"
    parallel: bool = False

    @property
    def plain(self) -> bool:
        """Whether this is no different from plain text."""
        return self.weight == 1.0 and not self.parallel


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a prompt. ``sender`` is the node whose reply the text is, ``None`` for everything else; ``heard`` how
    loudly the model hears it, ``None`` for as any text; ``own`` whether it is the receiver's own earlier reply.

    Models tokenise spans separately and never let the text of a span become a control token.
    """

    text: str
    sender: int | None = None
    heard: Heard | None = None
    own: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat: a role and the spans that make up its text."""

    role: Role
    spans: tuple[Span, ...]

    @classmethod
    def of(cls, role: Role, *parts: str | Span) -> Message:
        return cls(role, tuple(part if isinstance(part, Span) else Span(part) for part in parts))

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Chat:
    """What a model is asked.

    ``stream`` names the random stream that decodes the reply (see :mod:`goa_torch.randomness`): the same chat with
    the same stream gives the same reply whatever else is in the batch (exactly so in float32).
    """

    messages: tuple[Message, ...]
    stream: int = 0

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.messages)

    @property
    def senders(self) -> list[int]:
        """Nodes whose replies the chat shows, in order of appearance."""
        return [s.sender for m in self.messages for s in m.spans if s.sender is not None]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a reply is decoded. ``temperature`` 0 is greedy (ties go to the smallest token id); ``stop`` is one string
    that ends a reply, or several."""

    temperature: float = 0.7
    top_p: float = 1.0
    max_new_tokens: int = 800
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))
        if not _is_number(self.temperature) or not 0 <= self.temperature < math.inf:
            raise UserError(f"sampling: temperature must be >= 0 and finite, not {self.temperature!r}")
        if not _is_number(self.top_p) or not 0 < self.top_p <= 1:
            raise UserError(f"sampling: top_p must lie in (0, 1], not {self.top_p!r}")
        if not _is_number(self.max_new_tokens, Integral) or self.max_new_tokens < 1:
            raise UserError(f"sampling: max_new_tokens must be at least 1 and whole, not {self.max_new_tokens!r}")
        if not all(isinstance(text, str) and text for text in self.stop):
            raise UserError(f"sampling: stop must be strings that are not empty, not {self.stop!r}")


def _is_number(value: object, kind: type = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Options:
    """Replies to choose from: instead of decoding a reply, a model says how likely each of them is."""

    texts: tuple[str, ...]


# --------------------------------------------------------------------------- replies and what they cost


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls cost. Usages add.

    ``prompt_tokens`` counts every token of the prompt, ``cached_tokens`` the part of it whose prefill was reused
    (never in addition to ``prompt_tokens``); ``completion_tokens`` counts generated tokens, the end-of-sequence
    token included; ``seconds`` is this call's share of the wall time of the batch that served it; ``retries`` counts
    attempts beyond the first.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    seconds: float = 0.0
    retries: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said: text, or a failure. A failure never plays as text.

    Attributes:
        text: what peers and readers see (reasoning between think tags is taken out), or ``None`` if the call failed.
        finish_reason: ``stop``, ``length`` (cut off: the reply is unfinished) or ``error``.
        answer: what the question's reader found in the text; ``None`` if it found nothing or the reply is unfinished.
        reasoning: text inside think tags, kept for the trace.
        error: one line that says what went wrong, if the call failed.
        log_prob: sum of the log-probabilities of the generated tokens under the model (temperature 1), if known.
        usage: what the call cost.
    """

    text: str | None
    finish_reason: FinishReason = "stop"
    answer: str | None = None
    reasoning: str = ""
    error: str | None = None
    log_prob: float | None = None
    usage: Usage = field(default_factory=lambda: Usage(calls=1))

    @classmethod
    def failure(cls, error: str, usage: Usage | None = None) -> Reply:
        return cls(None, "error", error=" ".join(error.split()), usage=usage or Usage(calls=1))

    @property
    def failed(self) -> bool:
        return self.text is None

    def with_answer(self, reader: Reader) -> Reply:
        """The same reply with ``answer`` filled by ``reader``; an unfinished reply has none."""
        answer = reader.read(self.text) if self.text is not None and self.finish_reason == "stop" else None
        return replace(self, answer=answer)


@dataclass(frozen=True, slots=True)
class Call:
    """The record of one call to a model.

    ``depth`` is the call's place in the question's chain of calls that wait for each other (first calls have 1).
    ``shared`` is true if the reply came from the reply cache or from an identical call in the same batch: the method
    alone would have paid for it, this run did not.
    """

    purpose: Purpose
    agent: str
    question: str
    round: int
    depth: int
    usage: Usage
    shared: bool = False
    finish_reason: FinishReason = "stop"
    error: str | None = None


# --------------------------------------------------------------------------- questions


class Reader(Protocol):
    """Reads the answer out of a reply and decides whether two answers are the same."""

    #: One sentence that tells an agent how to state its answer.
    instruction: str

    def read(self, text: str) -> str | None:
        """The answer in its canonical spelling, or ``None`` if there is none; never a guess."""
        ...

    def equal(self, gold: str, answer: str) -> bool:
        """Whether ``answer`` is right."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A question and everything needed to grade it.

    ``text`` is what agents see (options included), ``id`` is unique within its task, ``metadata`` holds whatever a
    task knows beyond the rest (depth, partial results, ...).
    """

    id: str
    text: str
    gold: str
    reader: Reader
    task: str = ""
    category: str = ""
    choices: tuple[str, ...] = ()
    split: str = "test"
    metadata: dict[str, Any] = field(default_factory=dict)

    def is_correct(self, answer: str | None) -> bool:
        return answer is not None and self.reader.equal(self.gold, answer)


# --------------------------------------------------------------------------- graphs


@dataclass(slots=True)
class Topology:
    """Who hears whom, and how loudly, in one round of a batch of questions.

    ``edge_index`` [2, E]: row 0 sends, row 1 receives (PyG). ``edge_weight`` [E] >= 0; 1 is plain concatenation,
    0 a missing edge. ``active`` [n] (bool) marks nodes that may be called, ``None`` for all. ``log_prob`` [B] is the
    log-probability of a sampled topology, for score-function estimators.
    """

    edge_index: Tensor
    edge_weight: Tensor
    active: Tensor | None = None
    log_prob: Tensor | None = None

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)


@dataclass(frozen=True, slots=True)
class Card:
    """A model card as an agent network reads it."""

    domain: str
    tasks: tuple[str, ...] = ()
    size: str = ""
    features: str = ""

    def __str__(self) -> str:
        parts = [f"domain: {self.domain}", f"tasks: {', '.join(self.tasks)}" if self.tasks else "",
                 f"size: {self.size}" if self.size else "", f"features: {self.features}" if self.features else ""]
        return "; ".join(part for part in parts if part)


@dataclass(slots=True)
class Result:
    """What a method made of one question: ``answer`` (``None``: unparsed, unfinished or failed), the ``reply`` it was
    read from, every ``call`` and a JSON-able ``trace`` of what was said to whom."""

    question: Question
    answer: str | None
    reply: Reply
    calls: Sequence[Call]
    trace: dict[str, Any]

    @property
    def correct(self) -> bool:
        return self.question.is_correct(self.answer)

    @property
    def usage(self) -> Usage:
        """What the method costs alone: the sum over its calls, shared ones included."""
        return sum((call.usage for call in self.calls), Usage())

    @property
    def paid(self) -> Usage:
        """What this run paid: shared calls left out."""
        return sum((call.usage for call in self.calls if not call.shared), Usage())

    @property
    def depth(self) -> int:
        return max((call.depth for call in self.calls), default=0)
