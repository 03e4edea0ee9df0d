"""List the tasks, where their questions come from and which splits they have; or one task with its settings."""

from __future__ import annotations

import argparse
import inspect
import re
from dataclasses import fields

from ..tasks import describe, get_task, load_questions, task_names
from .console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", help="show the settings of this task, and some of its questions")


def run(args: argparse.Namespace) -> None:
    if args.task is None:
        print_table(["task", "what it is"], [(name, describe(name)) for name in task_names()])
        print("Tasks load from the Hugging Face hub, or from files of your own: see 'file' in experiments/README.md.")
        print("goa tasks NAME shows one with its settings.")
        return
    task = get_task(args.task)
    print(f"{task.name}: {task.describe()}\n")
    if task.generate is None:
        print(f"In an experiment file:  tasks: [{{name: {task.name}, split: test, limit: 100, seed: 0}}]")
        print("It has no settings of its own; questions may also come from a file of yours (file: questions.jsonl).")
        return
    if task.settings is not None:
        print_table(["setting", "default", "what it is"], _settings(task.settings))
        name, value = next((f.name, f.default) for f in fields(task.settings) if isinstance(f.default, (str, int)))
        print(f"In an experiment file:  tasks: [{{name: {task.name}, limit: 100, settings: {{{name}: {value}}}}}]")
        print(f"In Python:              load_questions({task.name!r}, limit=100, {name}={value!r})\n")
    print_table(["kind", "question", "answer"], [(question.category, question.text, question.gold)
                                                 for question in load_questions(task, limit=4)])


def _settings(kind: type) -> list[tuple[str, object, str]]:
    """Name, default and meaning of each field of a dataclass, as its docstring says under *Attributes*."""
    described = inspect.cleandoc(kind.__doc__ or "").partition("Attributes:\n")[2]
    said = {name: " ".join(text.replace("``", "").split())
            for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", described, re.M)}
    return [(field.name, _shown(field.default), said.get(field.name, "")) for field in fields(kind)]


def _shown(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "-" if value is None else value
