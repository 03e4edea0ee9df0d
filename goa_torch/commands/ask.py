"""Answer a question with a graph of agents, and show how the answer came about.

Settings of the method are key=value: goa ask "Why is the sky blue?" k=2 readout=mean
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .console import console, plain, settings

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..types import Question, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", help="the question; - reads it from standard input")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the method")
    parser.add_argument("--pool", default="smollm2", help="a shipped pool or a YAML file (default: smollm2)")
    parser.add_argument("--method", default="goa", help="see goa methods (default: goa)")
    parser.add_argument("--seed", type=int, default=0, help="names the random streams (default: 0)")
    parser.add_argument("--max-new-tokens", type=int, metavar="N", help="length of an answer at most")
    parser.add_argument("--temperature", type=float, metavar="T", help="0 decodes greedily")
    parser.add_argument("--trace", type=Path, metavar="FILE.json", help="write everything that was said to a file")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw who heard whom (.svg, .png or .pdf)")


def run(args: argparse.Namespace) -> int:
    from .plot_trace import check_plot_path, plot_trace

    question = _question(args.question)
    values = settings(args.settings)
    for path in (args.trace, args.plot):
        _check_folder(path)
    if args.plot is not None:
        check_plot_path(args.plot)
    from ..agents.pools import load_pool

    pool = _decoding(load_pool(args.pool), args)
    from ..methods import build_method

    with _busy("loading"):
        method = build_method(args.method, pool, **values)
        pool.check()
    started = time.perf_counter()
    with _busy("the agents are at work"):
        result = method([question], seed=args.seed)[0]
    wall = time.perf_counter() - started

    from .show_trace import show_result

    out = console()
    out.print(f"question: {plain(question.text)}")
    shown = " ".join(f"{key}={value}" for key, value in values.items())
    out.print(f"pool {pool.name}, method {args.method}{' ' + shown if shown else ''}, seed {args.seed}")
    show_result(result, pool, out, wall)
    if args.trace is not None:
        _write_json(args.trace, _record(result, pool, args, method.config))
        out.print(f"trace: {args.trace}")
    if args.plot is not None:
        plot_trace(result.trace, f"{args.method}: {plain(question.text)}", args.plot)
        out.print(f"plot: {args.plot}")
    return 1 if result.reply.failed else 0


def _question(words: str) -> Question:
    from ..tasks import TextReader
    from ..types import Question

    text = (sys.stdin.read() if words == "-" else words).strip()
    if not text:
        raise UserError("the question is empty; write it in quotes, or pipe it in and give - in its place")
    return Question("ask", text, "", TextReader(), task="ask")


def _check_folder(path: Path | None) -> None:
    if path is None:
        return
    if path.is_dir():
        raise UserError(f"{path} is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UserError(f"{path}: no permission to write it")


def _decoding(pool: Pool, args: argparse.Namespace) -> Pool:
    """The pool with --temperature for all calls and --max-new-tokens for those that answer."""
    from ..agents.calls import ANSWERING
    from ..agents.pool import Pool

    sampling = dict(pool.sampling)
    try:
        for purpose, how in sampling.items():
            if args.max_new_tokens is not None and purpose in ANSWERING:
                how = replace(how, max_new_tokens=args.max_new_tokens)
            if args.temperature is not None:
                how = replace(how, temperature=args.temperature)
            sampling[purpose] = how
    except ValueError as error:
        raise UserError(str(error)) from error
    return Pool(pool.agents, pool.prompts, pool.meta, sampling, pool.name, pool.variables)


def _busy(what: str) -> AbstractContextManager[Any]:
    out = console(stderr=True)
    return out.status(what) if out.is_terminal else nullcontext()


def _record(result: Result, pool: Pool, args: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    return {
        "question": result.question.text, "pool": pool.name, "method": args.method, "settings": config,
        "seed": args.seed, "sampling": {purpose: asdict(how) for purpose, how in pool.sampling.items()},
        "answer": result.reply.text, "finish_reason": result.reply.finish_reason, "error": result.reply.error,
        "usage": asdict(result.usage), "depth": result.depth, "calls": [asdict(call) for call in result.calls],
        "trace": result.trace,
    }


def _write_json(path: Path, record: dict[str, Any]) -> None:
    """Writes the whole file or none of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        scratch.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
