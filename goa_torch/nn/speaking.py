"""The step between an inbox and a reply: a prompt that fits its model, asked for all receivers at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..agents.calls import Request
from ..types import Chat, Message, Purpose, Reply, Span

if TYPE_CHECKING:
    from ..agents.base import Agent
    from ..agents.prompts import PromptSet
    from ..state import State

Weighting = Literal["words", "numbers", "order", "none"]
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

    ``none`` shows messages in the order of names, the other weightings loudest first.
    """
    heard = receiver.heard
    if weighting == "none":
        heard = sorted(heard, key=lambda item: (state.agent_of(item[0]).name, int(state.instance[item[0]])))
    total = math.fsum(weight for _, weight in heard)
    unweighted = all(math.isclose(weight, 1.0, rel_tol=1e-6) for _, weight in heard) and not label_ones
    return [
        {
            "text": Span(state.replies[node].text or "", sender=node), "number": number, "weight": weight,
            "relevance": None if unweighted else relevance_label(weight / total, weight, weighting),
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
        own = Span(reply.text, sender=receiver.own) if reply.text is not None else None
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
          compose: Compose | None = None, options: Sequence[tuple[str, ...]] | None = None) -> list[Reply]:
    """Asks every receiver at once: one batch for each model.

    Messages that do not fit the context are left out, quietest first; question and own reply stay. What was cut is in
    ``receiver.cut``. A prompt that does not fit even so is for the model to refuse: a recorded failure.

    Args:
        purpose: what the calls are for; names the template, the way of decoding and the stream.
        draw: tells calls of the same agent, round and purpose apart; one for all receivers or one for each.
        extra: more for templates to read: for each receiver a dict, or a function of the receiver that gives one (asked
            again after a message was cut).
        template: another template than the purpose's.
        compose: turns a receiver and its rendered prompt into the whole chat; earlier turns (``receiver.past``) are
            forgotten, oldest first, before a message is cut.
        options: for each receiver, replies whose likelihood is asked for instead of a reply.
    """
    requests = []
    for number, receiver in enumerate(receivers):
        more = extra[number] if extra else {}
        while True:
            facts = more(receiver) if callable(more) else more
            messages = render(state, receiver, template or purpose, weighting, label_ones, prompts, **facts)
            if compose is not None:
                messages = compose(receiver, messages)
            others = [place for place, (node, _) in enumerate(receiver.heard) if node != receiver.node]  # own stays
            if not (receiver.past or others) or _fits(state, receiver.agent, messages, purpose):
                break
            if receiver.past:
                receiver.past = receiver.past[1:]
                receiver.forgotten += 1
            else:
                place = others[-1]
                receiver.cut.append(receiver.heard[place][0])
                receiver.heard = receiver.heard[:place] + receiver.heard[place + 1 :]
        requests.append(Request(receiver.agent, messages, purpose, receiver.question, state.round,
                                receiver.instance, draw if isinstance(draw, int) else draw[number],
                                options[number] if options else None))
    return state.recorder.ask(requests)


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
