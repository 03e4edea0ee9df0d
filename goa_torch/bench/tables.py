"""Tables of a summary: Markdown with everything, CSV for programs, and one that fits a terminal of 120 columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .side_tables import markdown_tables, print_tables

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, Any]
#: Columns of a terminal that the printed table fits.
TABLE_WIDTH = 120

_EXPLAINED = (
    "Accuracy in % with its 95% interval (hierarchical bootstrap over questions x seeds); sd is over seeds. "
    "Difference to the baseline in points, paired by question and seed, with its 95% interval; p by the exact paired "
    "test (with one seed McNemar's), corrected by Holm within the table; [-] where every resample shows the same "
    "difference, so that there is no spread to make an interval from. Unparsed, unfinished and failed answers count "
    "as wrong. Calls, tokens (prompt + completion), sequential depth and seconds are a question's mean cost if the "
    "method ran alone; paid is what this run paid after sharing identical calls between methods and with the cache "
    "(calls that a run made before it was killed are in the cache when it goes on: they count as shared). Front names "
    "the costs for which no other method is as good for less."
)


def sections(summary: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Row]]]:
    """Title and rows of each table: one a task, then their mean."""
    for task, table in summary["tasks"].items():
        left_out = f"; {_count(table['left_out'], 'question')} not finished by every method" * bool(table["left_out"])
        grid = f"{_count(table['questions'], 'question')} x {_count(len(summary['seeds']), 'seed')}"
        yield f"{task}: {grid}{left_out}", table["rows"]
    if summary["macro"]:
        yield f"mean over {', '.join(summary['macro']['tasks'])}, each weighing the same", summary["macro"]["rows"]


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def notes(summary: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """What a reader of the table must know: the budgets, what could have been found, what went wrong."""
    lines = [_budget(rows)]
    if detectable := [row["detectable"] for row in rows if row["detectable"] is not None]:
        low, high = min(detectable), max(detectable)
        spread = f"{100 * low:.1f}" if round(100 * (high - low), 1) == 0 else f"{100 * low:.1f} to {100 * high:.1f}"
        lines.append(f"Smallest detectable difference to the baseline (80% power, two-sided 5%, one comparison): "
                     f"{spread} points; smaller ones may be there and not show.")
    elif len(rows) > 1:
        lines.append("Smallest detectable difference: unknown, since differences to the baseline are the same on every "
                     "question, which says nothing about how much they may vary.")
    if summary["margin"]:
        alike = [row["method"] for row in rows if row["equivalence_p"] is not None and row["equivalence_p"] < 0.05]
        unknown = [row["method"] for row in rows if row["difference"] is not None and row["equivalence_p"] is None]
        lines.append(f"Equivalent to the baseline within {100 * summary['margin']:g} points (TOST, 5%): "
                     f"{', '.join(alike) or 'none shown'}."
                     + (f" Not to be said, every question showing the same: {', '.join(unknown)}." if unknown else ""))
    for field, what in (("failed_calls", "calls failed"), ("unparsed_judges", "judges left out as unreadable"),
                        ("unparsed_choices", "choices of agents unreadable and drawn instead"),
                        ("cut_messages", "messages cut because they did not fit")):
        if counts := [f"{row['method']} {row[field]}" for row in rows if row[field]]:
            lines.append(f"{what[0].upper()}{what[1:]}: {', '.join(counts)}.")
    return lines


def overall_notes(summary: Mapping[str, Any]) -> list[str]:
    """What holds for all tables."""
    lines = []
    if not summary["complete"]:
        lines.append(f"Not finished: {summary['results']:,} of {summary['wanted']:,} results.")
    if summary["with_failed_calls"]:
        lines.append(f"Results with failed calls: {summary['with_failed_calls']:,} (commonest error: "
                     f"{summary['commonest_error']}). They count as they are; the same command asks for them again.")
    for pool, best in summary["best"].items():
        lines.append(f"Best agent of pool {pool} on validation questions: {best['agent']} "
                     f"({100 * best['accuracy']:.1f}% of {best['results']}).")
    usage, paid = (summary["totals"][kind] for kind in ("usage", "paid"))
    lines.append(f"Methods alone: {usage['calls']:,} calls, {_tokens(usage):,} tokens. Paid, identical calls shared: "
                 f"{paid['calls']:,} calls, {_tokens(paid):,} tokens.")
    if (choosing := summary["validation_totals"]["usage"])["calls"]:
        paid = summary["validation_totals"]["paid"]
        lines.append(f"Besides, to choose agents on validation questions: {choosing['calls']:,} calls, "
                     f"{_tokens(choosing):,} tokens; paid {paid['calls']:,} calls, {_tokens(paid):,} tokens.")
    return lines


def _tokens(usage: Mapping[str, Any]) -> int:
    return usage["prompt_tokens"] + usage["completion_tokens"]


def _budget(rows: Sequence[Row]) -> str:
    def span(field: str, digits: int = 0) -> str:
        low, high = (f"{pick(row[field] for row in rows):,.{digits}f}" for pick in (min, max))
        return low if low == high else f"{low} to {high}"

    text = f"Budgets: {span('tokens')} tokens, {span('calls', 1)} calls, depth {span('depth', 1)} a question"
    uneven = max(row["tokens"] for row in rows) > 1.25 * min(row["tokens"] for row in rows)
    return text + ("; methods of unequal cost are to be compared along the front (no other is as good for less)."
                   if uneven else ".")


def percent(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:.{digits}f}"


def signed(value: float | None, digits: int = 1) -> str:
    return "" if value is None else f"{100 * value:+.{digits}f}"


def p_value(value: float | None) -> str:
    return "" if value is None else "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0") if value < 1 else "1"


def _accuracy(row: Row, digits: int = 1) -> str:
    return f"{percent(row['accuracy'])} [{percent(row['low'], digits)}, {percent(row['high'], digits)}]"


def _difference(row: Row, digits: int = 1) -> str:
    if row["difference"] is None:
        return "baseline"
    if row["difference_low"] is None:
        return f"{signed(row['difference'])} [-]"
    low, high = (signed(row[f"difference_{end}"], digits) for end in ("low", "high"))
    return f"{signed(row['difference'])} [{low}, {high}]"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}".removesuffix(".0")


def markdown(summary: Mapping[str, Any]) -> str:
    """``table.md``."""
    header = ["method", "n", "seeds", "accuracy [95%]", "sd", "difference [95%]", "p (Holm)", "unparsed", "unfinished",
              "failed", "calls", "tokens", "depth", "seconds", "paid tokens", "front"]
    blocks = []
    for title, rows in sections(summary):
        lines = [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + " --- |" + " ---: |" * (len(header) - 1)]
        for row in rows:
            cells = [row["method"].replace("|", "\\|"), row["questions"], row["seeds"], _accuracy(row),
                     percent(row["sd_seeds"]), _difference(row), p_value(row["p_holm"]), row["unparsed"],
                     row["unfinished"], row["failed"], *(_amount(row[cost]) for cost in ("calls", "tokens", "depth")),
                     f"{row['seconds']:.2f}", _amount(row["paid_tokens"]),
                     ", ".join(cost for cost in ("tokens", "calls", "depth") if row[f"front_{cost}"])]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        blocks.append("\n".join([*lines, "", *(f"- {line}" for line in notes(summary, rows))]))
    return "\n\n".join([*blocks, *markdown_tables(summary), *overall_notes(summary), _EXPLAINED]) + "\n"


def csv_table(summary: Mapping[str, Any]) -> str:
    """``table.csv``: every number of every row, unrounded, empty where there is none."""
    tables = [(task, table["rows"]) for task, table in summary["tasks"].items()]
    tables += [("macro", summary["macro"]["rows"])] if summary["macro"] else []
    rows = [{"task": task} | {key: value for key, value in row.items() if key != "settings"}
            for task, table in tables for row in table]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["task", "method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def print_summary(summary: Mapping[str, Any], console: Console) -> None:
    """The tables, for a terminal."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for title, rows in sections(summary):
        table = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
                      padding=(0, 1, 0, 0))
        table.add_column("method", overflow="fold", max_width=34)
        for name in ("accuracy\n% [95%]", "difference\n[95%]", "p\nHolm", "unp/\nunf/fail", "calls", "tokens", "depth",
                     "s/q", "paid\ntokens"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            digits = 1 if row["questions"] >= 200 else 0  # decimals of an interval that wide would only fill the line
            table.add_row(
                Text(row["method"], style="bold" if row["front_tokens"] else ""), _accuracy(row, digits),
                _difference(row, digits), p_value(row["p_holm"]),
                f"{row['unparsed']}/{row['unfinished']}/{row['failed']}",
                *(_short(row[cost]) for cost in ("calls", "tokens", "depth", "seconds", "paid_tokens")),
            )
        console.print(table)
        for line in notes(summary, rows):
            console.print(Text(line))
        console.print()
    print_tables(summary, console)
    for line in overall_notes(summary):
        console.print(Text(line))


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.1f}M"
    if value >= 1e5:
        return f"{value / 1e3:.0f}k"
    return f"{value:.2f}" if 0 < value < 1 else _amount(value)
