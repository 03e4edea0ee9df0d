"""Small worlds that tests share: a reader, a pool of echo agents, and a spy that names every reply."""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from goa_torch.agents.base import Agent
from goa_torch.agents.calls import Recorder, Request
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.types import Card, Question, Sampling

PROMPTS = Path(__file__).parents[1] / "models" / "prompts"
DOMAINS = ("general", "code", "math", "biomedical", "finance", "law")


@dataclass(frozen=True)
class LastWord:
    """The answer is the last word of a reply."""

    instruction: str = "End with your answer."

    def read(self, text: str) -> str | None:
        return text.split()[-1] if text.split() else None

    def equal(self, gold: str, answer: str) -> bool:
        return gold == answer


def questions(n: int = 2) -> list[Question]:
    return [Question(f"q{i}", f"What is {i} and {i}?", str(2 * i), LastWord(), task="sums") for i in range(n)]


def echo_pool(outputs=None, n: int = 6, names: list[str] | None = None, prompts: str = "default",
              context_length: int | None = None) -> Pool:
    """A pool of echo agents that share one model; ``names`` gives the order in which they are listed."""
    model = EchoModel(outputs if outputs is not None else (lambda chat: "I say x"), context_length=context_length)
    agents = {name: Agent(name, model, Card(name), f"You are {name}.") for name in DOMAINS[:n]}
    return Pool([agents[name] for name in (names or agents)], PromptSet(PROMPTS / prompts), meta=agents["general"],
                sampling=Sampling(max_new_tokens=64))


def say_by_purpose(chat, answer: str = "I say x") -> str:
    """Replies a default prompt would get from a well-behaved model."""
    text = chat.text
    if "Reply with exactly" in text:
        return ", ".join(str(i) for i in range(int(text.split("Reply with exactly ")[1].split()[0])))
    if "Write one number" in text:
        return "1"
    if "numbers between 0 and 1" in text:
        n = int(text.split("Write ")[1].split()[0])
        return ", ".join(str(round(1 / n, 4)) for _ in range(n))
    if "one whole number" in text:
        return "2"
    return answer


@dataclass
class Spy:
    """Sees every request of a run and decides what each is answered: a tag that names who said it, and when."""

    asked: list[tuple[Request, str]] = field(default_factory=list)
    tags: dict[int, str] = field(default_factory=dict)
    scores: bool = True

    @staticmethod
    def tag(request: Request, question: str = "") -> str:
        who = f"{request.agent.name}.{request.instance}@{request.round}"
        return f"<{question or request.question}/{who}/{request.purpose}>"

    def reply(self, chat) -> str:
        return self.tags[chat.stream]

    def see(self, recorder: Recorder, request: Request) -> None:
        tag = self.tag(request, recorder.questions[request.question].id)
        text = "".join(message.text for message in request.messages)
        if "one whole number" in text:  # questions of different difficulty
            said = str(1 + int(recorder.questions[request.question].id.strip("q")) % 3)
        elif request.purpose == "select":
            said = ", ".join(map(str, range(int(text.split("Reply with exactly ")[1].split()[0]))))
        elif request.purpose == "score":  # uneven on purpose, and different for every judge
            names = sorted(part.sender for m in request.messages for part in m.spans if part.sender is not None)
            draw = random.Random(tag)
            raw = [draw.uniform(1, 5) for _ in names]
            said = ", ".join(f"{value / sum(raw):.4f}" for value in raw)
        else:  # everybody disagrees, so that debates that stop at agreement have something to say
            said = f"{tag} {request.agent.name}{request.instance}"
            if "Scores:" in text:  # asked to rate what it hears, too
                senders = [part.sender for m in request.messages for part in m.spans if part.sender is not None]
                draw = random.Random(tag)
                said = f"Scores: {', '.join(str(draw.randint(1, 5)) for _ in senders)}\n{said}"
        self.tags[recorder.stream(request)] = said
        self.asked.append((request, said))

    @contextmanager
    def watching(self):
        ask = Recorder.ask

        def spying(recorder, requests):
            for request in requests:
                self.see(recorder, request)
            return ask(recorder, requests)

        with mock.patch.object(Recorder, "ask", spying):
            yield self
