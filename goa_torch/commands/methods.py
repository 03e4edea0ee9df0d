"""List the methods, or the settings of one method."""

from __future__ import annotations

import argparse

from ..methods import describe_method, method_class, method_names
from .console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", help="show the settings of this method (loads torch)")


def run(args: argparse.Namespace) -> None:
    if args.method is None:
        print_table(["method", "what it is"], [(name, describe_method(name)) for name in method_names()])
        print("goa methods NAME shows the settings of one; they are key=value in goa ask and keys in experiment files.")
        return
    summary, cls = describe_method(args.method), method_class(args.method)
    print(f"{args.method}: {summary}\n\n{(cls.__doc__ or '').strip()}\n")
    print_table(["setting", "default"], [(name, default) for name, default in cls.parameters_of().items()])
