"""Write one HTML page about runs: tables, accuracy against cost, learning curves, and the trace of every question.

The page needs no network: send it by mail, open it anywhere. Folders are those that goa bench and trainings leave.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import UserError
from .console import check_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--out", type=Path, metavar="FILE.html",
                        help="the page (default: report.html in the first run folder)")
    parser.add_argument("--title", help="its title (default: the names of the runs)")
    parser.add_argument("--traces", type=int, metavar="N", help="questions of each task with traces (default: all)")


def run(args: argparse.Namespace) -> None:
    if args.traces is not None and args.traces < 0:
        raise UserError(f"--traces must be at least 0, not {args.traces}")
    first = Path(args.runs[0])
    out = args.out or first / "report.html"
    if args.out is not None or first.is_dir():
        check_output("--out", out)
    from ..report.page import write_page

    path = write_page(args.runs, out, args.title, args.traces)
    print(f"report: {path} ({path.stat().st_size / 1e6:.1f} MB)")
