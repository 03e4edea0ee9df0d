"""The tables beside that of accuracies: debates, Relay's bars, calibration and pass@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_ROUNDS = 6

_DEBATES = (
    "Debates, over all runs in which agents heard each other. right: agents that are right, first -> last round; w>r "
    "and r>w: agents that turned from wrong to right and from right to wrong, in the mean of rounds and in each; any: "
    "somebody is right, first -> last; loss: somebody is right in the end and the answer is not; drift: change of the "
    "share of right agents a round, in points, and its slope against that share: both 0 if belief moves like a "
    "martingale (arXiv 2508.17536); corr: correlation of two agents' errors, first -> last."
)
_REFERENCE = (
    "Bars, on the first questions of the task. ceiling: the method's own topology with agents that make no mistakes "
    "(no bound: agents who err may speak in an order that serves a question better); "
    "oracle: the best graph for each question, static: the best one for all questions whose receivers hear no more "
    "agents than the method's do (>= where the search ran out of time), both with perfect agents and as many rounds "
    "as the method may talk; regret: oracle less accuracy. Blank where perfect agents do not know what to say. In "
    "means each task has a static graph of its own."
)
_CALIBRATION = (
    "Calibration of the confidence in answers, by where it comes from: agreement (share of agents that hold the "
    "answer), tokens (geometric mean of token probabilities), stated. ECE over ten bins of equal mass, AUROC, Brier "
    "score, each with its 95% interval (bootstrap over questions). Answers that could not be read have no confidence."
)
_PASS = "pass@k, unbiased, every seed one sample."


@dataclass(frozen=True)
class SideTable:
    """Texts of a table, method first; ``printed`` if a terminal shows it, too, then with the columns of ``short``."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str
    short: Sequence[int] = ()

    @property
    def printed(self) -> bool:
        return bool(self.short)


def side_tables(summary: Mapping[str, Any]) -> list[SideTable]:
    """All that the summary has something to say about, task by task."""
    tables = []
    for task, table in summary["tasks"].items():
        found = table.get("diagnostics") or {}
        for key, build in (("debates", _debates), ("reference", _reference), ("calibration", _calibration),
                           ("pass_at_k", _pass_at_k)):
            if found.get(key):
                tables.append(build(task, found[key]))
    mean = summary.get("macro") or {}
    if bars := (mean.get("diagnostics") or {}).get("reference"):
        tables.append(_reference(f"the mean over {', '.join(mean['tasks'])}", bars))
    return tables


def markdown_tables(summary: Mapping[str, Any]) -> list[str]:
    """A block of Markdown for each."""
    blocks = []
    for table in side_tables(summary):
        lines = [f"## {table.title}", "", _line(table.header), "|" + " --- |" + " ---: |" * (len(table.header) - 1),
                 *(_line(row) for row in table.rows), "", f"- {table.note}"]
        blocks.append("\n".join(lines))
    return blocks


def print_tables(summary: Mapping[str, Any], console: Console) -> None:
    """Those for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    notes = dict.fromkeys(table.note for table in side_tables(summary) if table.printed)
    for table in side_tables(summary):
        if not table.printed:
            continue
        shown = Table(title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
                      padding=(0, 1, 0, 0))
        for place in table.short:
            first = place == 0
            shown.add_column(table.header[place], justify="left" if first else "right", no_wrap=not first,
                             overflow="fold", max_width=34 if first else None)
        for row in table.rows:
            shown.add_row(*(Text(row[place]) for place in table.short))
        console.print(shown)
    for note in notes:
        console.print(Text(note))
    if notes:
        console.print()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def _signed(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:+.{digits}f}"


def _change(first: float | None, last: float | None, digits: int = 0) -> str:
    return "" if first is None and last is None else " -> ".join(
        "-" if value is None else _percent(value, digits) for value in (first, last))


def _rounds(values: Sequence[float]) -> str:
    """The mean, then round by round: all of a few, else the first and the last."""
    if not values:
        return ""
    each = [_percent(value) for value in values]
    if len(each) > _SHOWN_ROUNDS:
        each = [*each[: _SHOWN_ROUNDS - 2], "...", each[-1]]
    return f"{_percent(sum(values) / len(values))} ({', '.join(each)})"


def _debates(task: str, rows: Sequence[Mapping[str, Any]]) -> SideTable:
    header = ["method", "agents", "rounds", "right", "w>r", "r>w", "any", "loss", "drift [95%]", "slope [95%]", "corr",
              "w>r by round", "r>w by round"]
    texts = []
    for row in rows:
        gained, lost = (_rounds(row[key]) for key in ("gained", "lost"))
        correlation = [None if row[f"error_correlation_{end}"] is None else row[f"error_correlation_{end}"]
                       for end in ("first", "last")]
        texts.append([
            row["method"], f"{row['agents']:.3g}", f"{row['rounds']:.3g}", _change(row["right"][0], row["right"][-1]),
            gained.split(" ")[0], lost.split(" ")[0], _change(row["any_right_first"], row["any_right_last"]),
            _percent(row["readout_loss"]), _interval(_signed(row["drift"]), row, "drift", _signed),
            _interval("" if row["slope"] is None else f"{row['slope']:+.2f}", row, "slope", lambda x: f"{x:+.2f}"),
            "" if correlation == [None, None] else " -> ".join("-" if c is None else f"{c:.2f}" for c in correlation),
            gained, lost,
        ])
    return SideTable(f"Debates on {task}", header, texts, _DEBATES, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9))


def _interval(value: str, row: Mapping[str, Any], key: str, show: Any) -> str:
    low, high = row[f"{key}_low"], row[f"{key}_high"]
    return value if not value or low is None else f"{value} [{show(low)}, {show(high)}]"


def _reference(task: str, rows: Sequence[Mapping[str, Any]]) -> SideTable:
    texts = [[row["method"], _percent(row["accuracy"]), _percent(row["ceiling"]),
              "" if row["of_ceiling"] is None else f"{row['of_ceiling']:.2f}",
              ("" if row["static_exact"] in (True, None) else ">= ") + _percent(row["static"]), _percent(row["oracle"]),
              _signed(row["regret"])] for row in rows]
    header = ["method", "accuracy", "ceiling", "accuracy/ceiling", "static", "oracle", "regret"]
    return SideTable(f"Bars on {task}: {max(row['results'] for row in rows)} results", header, texts, _REFERENCE,
                     tuple(range(len(header))))


def _calibration(task: str, rows: Sequence[Mapping[str, Any]]) -> SideTable:
    def estimate(measure: Mapping[str, Any]) -> str:
        if measure["value"] is None:
            return ""
        within = "" if measure["low"] is None else f" [{measure['low']:.3f}, {measure['high']:.3f}]"
        return f"{measure['value']:.3f}{within}"

    texts = [[row["method"], row["source"], f"{row['answers']} of {row['results']}", _percent(row["confidence"]),
              _percent(row["accuracy"]), *(estimate(row[measure]) for measure in ("ece", "auroc", "brier"))]
             for row in rows]
    header = ["method", "source", "answers", "confidence", "accuracy", "ECE [95%]", "AUROC [95%]", "Brier [95%]"]
    return SideTable(f"Calibration on {task}", header, texts, _CALIBRATION)


def _pass_at_k(task: str, rows: Sequence[Mapping[str, Any]]) -> SideTable:
    ks = sorted({k for row in rows for k in row["pass"]})
    texts = [[row["method"], str(row["samples"]), *(_percent(row["pass"].get(k)) for k in ks)] for row in rows]
    return SideTable(f"pass@k on {task}", ["method", "samples", *(f"pass@{k}" for k in ks)], texts, _PASS,
                     tuple(range(len(ks) + 2)))
