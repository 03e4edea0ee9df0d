"""Fetch the weights of a pool's models, so that the first run need not wait for them."""

from __future__ import annotations

import argparse
import time

from .console import console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", help="a shipped pool or a YAML file")


def run(args: argparse.Namespace) -> None:
    from ..agents.pools import load_pool

    out = console()
    pool = load_pool(args.pool)
    for model in pool.models:
        started = time.perf_counter()
        model.check()
        out.print(f"{model.name}: ready after {time.perf_counter() - started:.1f} s")
        model.close()
