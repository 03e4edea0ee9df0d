"""List the tasks, where their questions come from and which splits they have."""

from __future__ import annotations

import argparse

from ..tasks import describe, task_names
from .console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> None:
    del args
    print_table(["task", "what it is"], [(name, describe(name)) for name in task_names()])
    print("A task loads from the Hugging Face hub, or from a file of your own: see 'file' in experiments/README.md.")
