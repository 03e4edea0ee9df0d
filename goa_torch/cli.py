"""The command ``goa``: finds the subcommand, and turns what goes wrong into one line and an exit status."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__
from .errors import UserError, unknown

#: Subcommands and what they do. Each is a module of :mod:`goa_torch.commands` with ``add_arguments(parser)`` and
#: ``run(args) -> int | None``, imported when it is called.
COMMANDS = {
    "ask": "answer a question with a graph of agents and show how the answer came about",
    "bench": "compare methods on benchmark questions, as an experiment file says",
    "train": "train a topology, or a controller of one, as a file says",
    "report": "write an HTML page about runs: tables, charts, traces",
    "pools": "list the pools of agents",
    "methods": "list the methods and their parameters",
    "tasks": "list the tasks and where their questions come from",
    "pull": "fetch the weights of a pool's models",
    "card": "make a model card for a pool from a Hugging Face README",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {does}" for name, does in COMMANDS.items())
    parser = _Parser(prog="goa", description="Graphs of language-model agents in PyTorch.", usage="goa COMMAND ...",
                     formatter_class=argparse.RawDescriptionHelpFormatter,
                     epilog=f"commands:\n{listing}\n\n'goa COMMAND --help' says more about each.")
    parser.add_argument("--version", action="version", version=f"goa_torch {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``goa`` with ``argv`` and returns its exit status: 0, 2 for wrong input, 130 after Ctrl-C."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except UserError as error:
        print(f"goa: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("goa: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader (head, less) has gone; Python would complain once more while closing stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(argv: list[str]) -> int:
    top = _top_parser()
    if not argv:
        top.print_help()
        return 2
    if argv[0].startswith("-"):
        top.parse_args(argv)
        return 0
    name = argv[0]
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    command = importlib.import_module(f".commands.{name}", __package__)
    parser = _Parser(prog=f"goa {name}", description=command.__doc__,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_arguments(parser)
    return command.run(parser.parse_intermixed_args(argv[1:])) or 0
