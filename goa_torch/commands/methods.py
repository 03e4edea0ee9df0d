"""List the methods, or the settings of one method."""

from __future__ import annotations

import argparse

from ..methods import calls_formula, describe_method, method_class, method_names
from .console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", help="show the settings of this method (loads torch)")


def run(args: argparse.Namespace) -> None:
    if args.method is None:
        rows = [(name, calls_formula(name), describe_method(name)) for name in method_names()]
        print_table(["method", "calls a question", "what it is"], rows)
        print("Calls: n agents take part, k are chosen or heard, each answers T times (rounds, layers, samples); other "
              "names are settings; <= where a question may end earlier.")
        print("goa methods NAME shows the settings of one; they are key=value in goa ask and keys in experiment files.")
        return
    summary, cls = describe_method(args.method), method_class(args.method)
    if calls := calls_formula(args.method):
        summary += f"; calls a question: {calls}"
    print(f"{args.method}: {summary}\n\n{(cls.__doc__ or '').strip()}\n")
    print_table(["setting", "default"], [(name, default) for name, default in cls.parameters_of().items()])
