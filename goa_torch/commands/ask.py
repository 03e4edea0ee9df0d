"""Answer a question with a graph of agents, and show how the answer came about.

Settings of the method are key=value: goa ask "Why is the sky blue?" k=2 readout=mean
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from .console import check_output, console, plain, settings

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..types import Question, Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", help="the question; - reads it from standard input")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="settings of the method")
    parser.add_argument("--pool", help="a shipped pool or a YAML file (default: relay for an expression of the task "
                                       "relay, like 'rev[(47+8)]', else smollm2)")
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
    for option, path in (("--trace", args.trace), ("--plot", args.plot)):
        check_output(option, path)
    if args.plot is not None:
        check_plot_path(args.plot)
        if args.trace is not None and args.trace.resolve() == args.plot.resolve():
            raise UserError(f"--trace and --plot both name {args.plot}; choose two files")
    from ..agents.pools import load_pool

    name = args.pool or ("relay" if question.task == "relay" else "smollm2")
    pool = _decoding(load_pool(name), args)
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
    if question.gold:
        value = f"its value is {question.gold}"
        out.print(f"right: {value}" if result.correct else f"wrong: {value}" if result.answer is not None else
                  f"unfinished, which counts as wrong: {value}")
    if args.trace is not None:
        record = _record(result, pool, args, method.config)
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        _write(args.trace, lambda path: path.write_text(text, encoding="utf-8"))
        out.print(f"trace: {args.trace}")
    if args.plot is not None:
        _write(args.plot, lambda path: plot_trace(result.trace, f"{args.method}: {plain(question.text)}", path))
        out.print(f"plot: {args.plot}")
    return 1 if result.reply.failed else 0


def _question(words: str) -> Question:
    from ..tasks import TextReader
    from ..types import Question

    text = _whole(_piped() if words == "-" else words).strip()
    if not text:
        raise UserError("the question is empty; write it in quotes, or pipe it in and give - in its place")
    from ..tasks.relay import RelayReader, parse
    from ..tasks.relay.expression import DEEPEST, resembles

    expression = parse("".join(text.split())) or parse(text)
    if expression is None and resembles(text):
        _note("this resembles an expression of the task relay and is none, so it is asked as any other question; goa "
              "tasks relay shows what expressions look like")
    if expression is not None and expression.depth:
        if expression.depth > DEEPEST:
            _note(f"an expression of {expression.depth} layers; Relay's agents were taught {DEEPEST} at most")
        text = str(expression)
        return Question("ask", text, str(expression.partial_results()[-1]), RelayReader(), task="relay",
                        metadata={"domains": list(expression.domains)})
    return Question("ask", text, "", TextReader(), task="ask")


def _note(text: str) -> None:
    print(f"goa: note: {text}", file=sys.stderr)


def _piped() -> str:
    """Standard input; bytes that are no UTF-8 become the sign for what cannot be read."""
    raw = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read() if raw is None else raw.read().decode("utf-8-sig", "replace")


def _whole(text: str) -> str:
    """``text`` with that sign in place of half characters (how Python keeps bytes of an argument that are no UTF-8)."""
    return "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)


def _decoding(pool: Pool, args: argparse.Namespace) -> Pool:
    """The pool with --temperature for all calls and --max-new-tokens for those that answer."""
    from ..agents.calls import ANSWERING

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
    pool = copy.copy(pool)
    pool.sampling = sampling
    return pool


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


def _write(path: Path, write: Callable[[Path], object]) -> None:
    """Writes the whole file or none of it. What is there and is no file (a device, a pipe) is written into."""
    special = path.exists() and not path.is_file()
    scratch = path if special else path.resolve().with_name(f".{os.getpid()}{path.suffix.lower()}")
    try:
        write(scratch)
        if not special:
            scratch.replace(path.resolve())
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        if not special:
            scratch.unlink(missing_ok=True)
