"""The step between an inbox and a reply: a prompt that fits its model, asked for all receivers at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from ..agents.calls import Request
from ..types import Chat, Heard, Message, Purpose, Reply, Span, Usage

if TYPE_CHECKING:
    from ..agents.base import Agent
    from ..agents.prompts import PromptSet
    from ..state import State

MustFit = Literal["none", "some", "all"]
Weighting = Literal["words", "numbers", "order", "none", "attention", "attention_receiver", "attention_parallel"]
#: How a weight can reach a receiver.
WEIGHTINGS: tuple[str, ...] = get_args(Weighting)
#: Weightings that act inside the receiver's attention, with their scope and whether messages are parallel.
ATTENTION: dict[str, dict[str, Any]] = {
    "attention": {"scope": "all"}, "attention_receiver": {"scope": "receiver"},
    "attention_parallel": {"scope": "receiver", "parallel": True}}
HIGH, MODERATE = 0.7, 0.4
Facts = dict[str, Any] | Callable[["Receiver"], dict[str, Any]]
Compose = Callable[["Receiver", "tuple[Message, ...]"], "tuple[Message, ...]"]


@dataclass(slots=True)
class Receiver:
    """Somebody who is to speak.

    Attributes:
        agent: who it is.
        question: number of the question in the batch.
        heard: (node, weight) of the messages it hears, loudest first.
        own: node whose reply is its own latest one, ``None`` to show none.
        own_reply: that reply (the node's latest by default).
        node: the node it is; ``None`` for a readout.
        instance: which copy of the agent.
        past: earlier turns of its chat, oldest first, for whoever composes prompts of several turns.
        cut: nodes whose messages did not fit its context, filled in by :func:`speak`.
        forgotten: how many earlier turns did not fit, filled in by :func:`speak`.
        shares: what the words for the weight of each node's message go by, if not its share of what is heard.
    """

    agent: Agent
    question: int
    heard: list[tuple[int, float]] = field(default_factory=list)
    own: int | None = None
    own_reply: Reply | None = None
    node: int | None = None
    instance: int = 0
    past: list[tuple[Message, ...]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    forgotten: int = 0
    shares: dict[int, float] | None = None


def relevance_label(share: float, weight: float, weighting: Weighting) -> str | None:
    """How a message's weight is put into words: by its share of what the receiver hears (the released code's cuts)."""
    if weighting == "words":
        return "high" if share > HIGH else "moderate" if share > MODERATE else "low"
    if weighting == "numbers":
        return f"{weight:.2f}"
    return None


def shown_messages(state: State, receiver: Receiver, weighting: Weighting, label_ones: bool = False
                   ) -> list[dict[str, Any]]:
    """The messages of a receiver as templates see them. Weights that are all 1 are plain concatenation: no label.

    ``none`` and the weightings that act through attention show messages in the order of names (a change of weight does
    not change the text), the others loudest first.
    """
    heard = receiver.heard
    inside = ATTENTION.get(weighting)
    if weighting == "none" or inside is not None:
        heard = sorted(heard, key=lambda item: (state.agent_of(item[0]).name, int(state.instance[item[0]])))
    total = math.fsum(weight for _, weight in heard)
    shares = receiver.shares or {}
    unweighted = (all(math.isclose(weight, 1.0, rel_tol=1e-6) for _, weight in heard)
                  and not label_ones and receiver.shares is None)
    return [
        {
            "text": Span(state.replies[node].text or "", sender=node,
                         heard=None if inside is None else Heard(weight, **inside)),
            "number": number, "weight": weight,
            "relevance": None if unweighted else relevance_label(shares.get(node, weight / total), weight, weighting),
            "domain": state.agent_of(node).card.domain, "agent": state.agent_of(node).name,
        }
        for number, (node, weight) in enumerate(heard, start=1)
    ]


def question_facts(state: State, question: int) -> dict[str, Any]:
    """A question as templates see it."""
    asked = state.questions[question]
    return {"text": Span(asked.text), "instruction": asked.reader.instruction, "category": asked.category,
            "choices": [Span(choice) for choice in asked.choices], "task": asked.task}


def render(state: State, receiver: Receiver, purpose: Purpose | str, weighting: Weighting = "words",
           label_ones: bool = False, prompts: PromptSet | None = None, **extra: Any) -> tuple[Message, ...]:
    """The prompt of ``receiver`` from the template of a purpose, or any other."""
    own = None
    if receiver.own is not None:
        reply = receiver.own_reply or state.replies[receiver.own]
        own = Span(reply.text, sender=receiver.own, own=True) if reply.text is not None else None
    variables = {
        "agent": {"name": receiver.agent.name, "card": str(receiver.agent.card), "system": receiver.agent.system,
                  "domain": receiver.agent.card.domain},
        "question": question_facts(state, receiver.question), "own": own,
        "messages": shown_messages(state, receiver, weighting, label_ones), "pool": state.pool.variables, **extra,
    }
    return (prompts or state.pool.prompts).render(purpose, variables)


def speak(state: State, receivers: Sequence[Receiver], purpose: Purpose, weighting: Weighting = "words",
          label_ones: bool = False, prompts: PromptSet | None = None, draw: int | Sequence[int] = 0,
          extra: Sequence[Facts] | None = None, template: str | None = None,
          compose: Compose | None = None, options: Sequence[tuple[str, ...]] | None = None,
          must_fit: MustFit = "none") -> list[Reply]:
    """Asks every receiver at once: one batch for each model.

    Messages that do not fit the context are left out, quietest first; question and own reply stay, also where it is
    one of the messages. What was cut is in ``receiver.cut``. A prompt that does not fit even so is for the model to
    refuse: a recorded failure.

    Args:
        purpose: what the calls are for; names the template, the way of decoding and the stream.
        draw: tells calls of the same agent, round and purpose apart; one for all receivers or one for each.
        extra: more for templates to read: for each receiver a dict, or a function of the receiver that gives one (asked
            again after a message was cut).
        template: another template than the purpose's.
        compose: turns a receiver and its rendered prompt into the whole chat; earlier turns (``receiver.past``) are
            forgotten, oldest first, before a message is cut.
        options: for each receiver, replies whose likelihood is asked for instead of a reply.
        must_fit: how many of its messages a receiver must be able to read to be asked at all; who cannot gets a
            failure, without a call.
    """
    requests = []
    for number, receiver in enumerate(receivers):
        more = extra[number] if extra else {}

        def write(receiver: Receiver = receiver, more: Facts = more) -> tuple[Message, ...]:
            facts = more(receiver) if callable(more) else more
            messages = render(state, receiver, template or purpose, weighting, label_ones, prompts, **facts)
            return messages if compose is None else compose(receiver, messages)

        messages = fitted(state, receiver, purpose, write)
        # A synthesis has no round of its own: the batch's is that of its longest run, and would name another stream.
        requests.append(Request(receiver.agent, messages, purpose, receiver.question,
                                0 if purpose == "readout" else state.round, receiver.instance,
                                draw if isinstance(draw, int) else draw[number], options[number] if options else None))
    asked = [number for number, receiver in enumerate(receivers)
             if not receiver.cut or must_fit == "none" or (must_fit == "some" and receiver.heard)]
    replies = [Reply.failure("the messages to read do not fit the context", Usage())] * len(receivers)
    for number, reply in zip(asked, state.recorder.ask([requests[number] for number in asked])):
        replies[number] = reply
    return replies


def fitted(state: State, receiver: Receiver, purpose: Purpose, write: Callable[[], tuple[Message, ...]]
            ) -> tuple[Message, ...]:
    """The prompt that ``write`` makes of ``receiver`` once as little as possible has been left out of it: earlier
    turns, oldest first, then messages, quietest first, never its own."""
    past, heard, cut, forgotten = receiver.past, receiver.heard, receiver.cut, receiver.forgotten
    spare = [place for place, (node, _) in enumerate(heard) if node != receiver.node]

    def without(count: int) -> tuple[Message, ...]:
        turns = min(count, len(past))
        gone = spare[len(spare) - (count - turns) :]
        receiver.past, receiver.forgotten = past[turns:], forgotten + turns
        receiver.heard = [item for place, item in enumerate(heard) if place not in gone]
        receiver.cut = [*cut, *(heard[place][0] for place in reversed(gone))]
        return write()

    messages = without(0)
    most = len(past) + len(spare)
    if not most or _fits(state, receiver.agent, messages, purpose):
        return messages
    least = 1  # bisect: the more is left out, the shorter the prompt
    while least < most:
        middle = (least + most) // 2
        if _fits(state, receiver.agent, without(middle), purpose):
            most = middle
        else:
            least = middle + 1
    return without(least)


def _fits(state: State, agent: Agent, messages: tuple[Message, ...], purpose: Purpose) -> bool:
    limit = agent.model.context_length
    if limit is None:
        return True
    chat = Chat(messages)
    room = limit - state.recorder.sampling[purpose].max_new_tokens
    if len(chat.text.encode("utf-8", "replace")) <= room - 64:  # never more tokens than bytes; 64: chat template
        return True
    tokens = agent.model.count_tokens(chat)
    return tokens is None or tokens <= room
