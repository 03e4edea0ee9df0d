"""A small world for benchmark tests: questions from a JSONL file, echo agents that answer by a hash of what they see,
and a program that runs an experiment in it, to be killed.

    python world.py EXPERIMENT OUT [seconds a call]
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from goa_torch import randomness
from goa_torch.agents.base import Agent
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.tasks import Task, registry
from goa_torch.tasks.loading import load_questions as relay_questions
from goa_torch.types import Card, Chat, Question, Reply, Sampling

PROMPTS = Path(__file__).parents[2] / "models" / "prompts" / "default"
NAMES = ("general", "code", "math", "law")


@dataclass(frozen=True)
class LetterReader:
    instruction: str = "End with 'Answer: LETTER'."

    def read(self, text: str) -> str | None:
        head, found, letter = text.rpartition("Answer: ")
        return letter.strip(" .") or None if found else None

    def equal(self, gold: str, answer: str) -> bool:
        return gold == answer


def say(chat: Chat) -> str | Reply | None:
    """Scores for judges, positions for selectors, else a letter; 'fail' and 'mumble' in a question do what they say."""
    text = chat.text
    if "Reply with exactly" in text:
        return ", ".join(str(i) for i in range(int(text.split("Reply with exactly ")[1].split()[0])))
    if "between 0 and 1" in text:
        return "0.6, 0.4" if "Write 2" in text else "1"
    if "fail" in text:
        return None
    drawn = randomness.stream(text, chat.stream)
    return "I do not know" if "mumble" in text else f"So be it. Answer: {'ABBB'[drawn % 4]}"


def make_pool(outputs=say, seconds: float = 0.0, name: str = "tiny", temperature: float = 0.7) -> Pool:
    def slow(chat: Chat):
        time.sleep(seconds)
        return outputs(chat)

    model = EchoModel(slow if seconds else outputs, name="oracle")
    agents = [Agent(n, model, Card(n), f"You are {n}.") for n in NAMES]
    return Pool(agents, PromptSet(PROMPTS), sampling=Sampling(temperature, max_new_tokens=40), name=name)


def load_questions(name: str, file: str | None = None, split: str = "test", limit: int | None = None,
                   seed: int = 0, **settings) -> list[Question]:
    if name == "relay":
        return relay_questions(name, file, split, limit, seed, **settings)
    if name != "letters":
        raise UserError(f"unknown task {name!r}. Available: letters.")
    lines = Path(str(file)).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line]
    questions = [Question(str(row["id"]), row["text"], row.get("gold", "B"), LetterReader(), task=name, split=split)
                 for row in rows]
    return questions[:limit]


@contextmanager
def in_world():
    """Replaces where tasks come from."""
    letters = Task("letters", "letters", lambda row: None, answers="text", splits={"test": "", "validation": ""})
    with mock.patch("goa_torch.tasks.load_questions", load_questions, create=True), \
            mock.patch.dict(registry._TARGETS, {"letters": letters}):
        yield


def write_questions(path: Path, texts: list[str], start: int = 0) -> Path:
    rows = [json.dumps({"id": f"q{start + i}", "text": text}) for i, text in enumerate(texts)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    from goa_torch.bench import run_experiment

    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    with in_world():
        try:
            run_experiment(sys.argv[1], out=sys.argv[2], pools={"tiny": make_pool(seconds=seconds)})
        except UserError as error:
            sys.exit(f"error: {error}")
