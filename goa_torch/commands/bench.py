"""Compare methods on benchmark questions, as an experiment file says.

Keys of the file can be overridden: goa bench experiments/quickstart.yaml seeds=[0,1,2] sampling.temperature=0
The run can be killed at any moment; the same command resumes it, and asks again where calls failed. The exit status
is 1 if every answer failed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", type=Path, metavar="EXPERIMENT.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="override keys of the file")
    parser.add_argument("--limit", type=int, metavar="N", help="questions a task at most, validation tasks too")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="in place of the file's seeds")
    parser.add_argument("--out", metavar="DIR", help="the run folder")


def run(args: argparse.Namespace) -> int:
    from ..bench import run_experiment

    for word in args.overrides:
        if "=" not in word:
            raise UserError(f"{word!r} is not an override; write key=value")
    folder = run_experiment(args.experiment, overrides=args.overrides, limit=args.limit, seeds=args.seeds,
                            out=args.out)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return int(0 < summary["results"] == summary["failed"])
