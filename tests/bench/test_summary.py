from __future__ import annotations

import csv
import io
import math
import warnings

import numpy as np
import pytest
from rich.console import Console

from goa_torch.bench import statistics
from goa_torch.bench.plots import _named, draw_accuracy_cost
from goa_torch.bench.progress import Meter, Progress, clock
from goa_torch.bench.summary import best_agents, summarise
from goa_torch.bench.tables import csv_table, markdown, p_value, print_summary
from goa_torch.types import Reply, Usage


def outcomes(p: float, questions: int, seeds: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((questions, seeds)) < p


def make(correct: dict[str, dict[str, np.ndarray]], margin: float | None = None, tokens: dict[str, int] | None = None):
    """A run's config and lines: ``correct[task][method]`` is [questions, seeds]."""
    methods = list(next(iter(correct.values())))
    seeds = next(iter(next(iter(correct.values())).values())).shape[1]
    identity = {
        "methods": [{"label": m, "pool": "p", "name": m, "settings": {"k": 1}} for m in methods],
        "seeds": list(range(seeds)),
        "tasks": {task: {"questions": len(next(iter(rows.values())))} for task, rows in correct.items()},
    }
    config = {"draws": 500, "margin": margin,
              "resolved": {"identity": identity, "baselines": {m: methods[0] for m in methods}}}
    lines = []
    for task, rows in correct.items():
        for number, (method, matrix) in enumerate(rows.items()):
            for (q, s), right in np.ndenumerate(matrix):
                usage = {"calls": 1 + number, "prompt_tokens": (tokens or {}).get(method, 10 * (1 + number)),
                         "completion_tokens": 2, "cached_tokens": 1, "seconds": 0.5, "retries": 0}
                lines.append({
                    "part": "test", "method": method, "task": task, "question": f"q{q}", "seed": s, "rank": 0,
                    "pool": "p", "name": method, "settings": {"k": 1}, "answer": "A", "correct": bool(right),
                    "status": "answered", "usage": usage, "paid": usage, "depth": 1 + number,
                    "calls": [{"finish_reason": "stop"}], "trace": {"stages": []},
                })
    return config, lines


@pytest.fixture
def two_tasks():
    rates = [("single", 0.4), ("vote", 0.5), ("goa", 0.6)]
    return {task: {m: outcomes(p, n, 2, n + i) for i, (m, p) in enumerate(rates)}
            for task, n in (("short", 15), ("long", 45))}


def test_a_row_says_what_numpy_says(two_tasks):
    summary = summarise(*make(two_tasks, margin=0.2))
    for task, rows in two_tasks.items():
        for row, (method, matrix) in zip(summary["tasks"][task]["rows"], rows.items(), strict=True):
            assert row["method"] == method and row["accuracy"] == pytest.approx(matrix.mean())
            assert row["sd_seeds"] == pytest.approx(matrix.mean(0).std(ddof=1))
            assert row["low"] <= row["accuracy"] <= row["high"]
            if method == "single":
                assert row["difference"] is row["p"] is row["detectable"] is None
            else:
                assert row["difference"] == pytest.approx(matrix.mean() - rows["single"].mean())
                assert row["p"] == statistics.paired_test(matrix * 1.0, rows["single"] * 1.0)
                assert row["p"] <= row["p_holm"] <= min(1, 2 * row["p"]) and 0 < row["equivalence_p"] <= 1
    macro = summary["macro"]["rows"][2]
    assert macro["accuracy"] == pytest.approx(np.mean([two_tasks[t]["goa"].mean() for t in two_tasks]))
    assert macro["questions"] == 60 and macro["low"] < macro["accuracy"] < macro["high"]


def test_the_order_of_lines_changes_nothing(two_tasks):
    config, lines = make(two_tasks)
    shuffled = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    assert summarise(config, lines) == summarise(config, shuffled)


@pytest.mark.parametrize("difference", [0, 1])
def test_a_difference_without_spread_has_no_interval_and_no_equivalence(difference):
    x = outcomes(0.5, 20, 3, 0) if difference == 0 else np.zeros((20, 3), dtype=bool)
    summary = summarise(*make({"t": {"single": x, "other": x | bool(difference)}}, margin=0.01))
    row = summary["tasks"]["t"]["rows"][1]
    assert (row["difference"], row["difference_low"], row["difference_high"]) == (difference, None, None)
    assert row["equivalence_p"] is None and row["detectable"] is None
    assert row["p_holm"] == 1 if difference == 0 else row["p_holm"] < 0.001
    text = markdown(summary)
    assert f"{100.0 * difference:+.1f} [-] |" in text and "every question showing the same: other." in text
    assert "none shown" in text


def test_only_questions_that_everybody_answered_are_compared(two_tasks):
    config, lines = make(two_tasks)
    kept = [x for x in lines if not (x["task"] == "short" and x["method"] == "goa" and x["question"] == "q3")]
    summary = summarise(config, kept)
    assert not summary["complete"] and summary["tasks"]["short"]["left_out"] == 1
    assert {row["questions"] for row in summary["tasks"]["short"]["rows"]} == {14}
    assert summary["tasks"]["long"]["left_out"] == 0


def test_what_went_wrong_on_the_way_is_counted():
    config, lines = make({"t": {"single": outcomes(0.5, 2, 1, 0), "goa": outcomes(0.5, 2, 1, 1)}})
    lines[2]["trace"] = {"stages": [
        {"stage": "select", "fallback": True}, {"stage": "score", "unparsed": 2},
        {"stage": "pass", "cut": [[0, 1], [1, 0]]}, {"stage": "readout", "cut": [1]}]}
    lines[3] |= {"status": "unfinished", "calls": [{"finish_reason": "error"}, {"finish_reason": "length"}]}
    row = summarise(config, lines)["tasks"]["t"]["rows"][1]
    assert [row[n] for n in ("unparsed_choices", "unparsed_judges", "cut_messages", "unfinished", "failed_calls")] == [
        1, 2, 3, 1, 1]
    text = markdown(summarise(config, lines))
    assert "Judges left out as unreadable: goa 2." in text and "Messages cut because they did not fit: goa 3." in text


def test_the_front_is_marked_for_each_cost(two_tasks):
    for table in two_tasks.values():
        table["goa"] = np.ones_like(table["goa"])
        table["vote"] = np.zeros_like(table["vote"])
    rows = summarise(*make(two_tasks, tokens={"single": 30, "vote": 40, "goa": 20}))["macro"]["rows"]
    assert [row["front_tokens"] for row in rows] == [False, False, True]
    assert [row["front_calls"] for row in rows] == [True, False, True]


def test_the_best_agent_is_the_first_by_name_among_equals():
    outcomes = {"math": (True, False), "code": (False, True), "law": (False, False)}
    lines = [{"part": "validation", "pool": "p", "settings": {"agent": agent}, "correct": right}
             for agent, both in outcomes.items() for right in both]
    assert best_agents(lines)["p"]["agent"] == "code" and best_agents(lines)["p"]["accuracy"] == 0.5
    assert best_agents([]) == {}


def test_tables_hold_every_method_of_every_task(two_tasks):
    summary = summarise(*make(two_tasks, margin=0.1))
    text = markdown(summary)
    assert text.count("| goa |") == 3 and "each weighing the same" in text
    assert "Smallest detectable difference" in text and "Equivalent to the baseline within 10 points" in text
    rows = list(csv.DictReader(io.StringIO(csv_table(summary))))
    assert [row["task"] for row in rows] == ["short"] * 3 + ["long"] * 3 + ["macro"] * 3
    assert float(rows[4]["tokens"]) == 22 and rows[3]["p_holm"] == ""


@pytest.mark.parametrize("questions", [30, 300])
def test_the_printed_table_fits_a_terminal_of_120_columns(questions):
    names = ["single", "vote", "goa(k=3, readout=mean)", "moa(layers=3)"]
    summary = summarise(*make({"mmlu": {m: outcomes(0.99, questions, 2, i) for i, m in enumerate(names)}},
                              tokens={m: 98_765 for m in names}))
    file = io.StringIO()
    print_summary(summary, Console(file=file, width=120, markup=False, highlight=False))
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 120
    for name in names:  # nothing is folded
        assert any(name in line for line in lines)


def test_the_plot_is_drawn_for_one_method_or_many_tasks(two_tasks):
    alone = make({"t": {"single": outcomes(0.5, 5, 1, 0)}})
    for made in (alone, make(two_tasks)):
        assert draw_accuracy_cost(summarise(*made)).startswith(b"\x89PNG")


def test_of_many_methods_the_plot_names_those_on_a_front():
    matrices = {f"m{i}": outcomes(0.2 + 0.6 * (i == 5), 20, 1, i) for i in range(60)}
    summary = summarise(*make({"t": matrices}))
    named = _named([summary["tasks"]["t"]["rows"]])
    assert "m0" in named and "m5" in named and len(named) < 12  # the cheapest and the best
    image = draw_accuracy_cost(summary)
    assert int.from_bytes(image[20:24], "big") < 800  # height in pixels: the legend does not grow with the methods
    assert _named([summary["tasks"]["t"]["rows"][:10]]) == [f"m{i}" for i in range(10)]


def test_labels_of_any_signs_are_drawn_without_a_word():
    x = outcomes(0.5, 5, 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_accuracy_cost(summarise(*make({"\u65e5\u672c $x_$": {"single": x, "a$b^$ \x1b": x}})))


@pytest.mark.parametrize(("value", "text"), [(None, ""), (0.0004, "<.001"), (0.0321, ".032"), (1.0, "1")])
def test_p_values_are_written_as_papers_write_them(value, text):
    assert p_value(value) == text


def test_progress_knows_what_is_left_and_what_was_shared():
    meter = Meter()
    with Progress(None, total=10, done=4, meter=meter, title="test") as progress:
        progress.batch(8, 2)
        meter.put([("a", Reply("x", usage=Usage(1, 5, 7)))])
        progress.finished(3)
        assert meter.get(["a"]) == [None] and meter.paid.completion_tokens == 7
        assert "7 of 10 results" in progress.line() and "8 calls (25% shared)" in progress.line()
        assert "left" in progress.line()
    assert clock(75) == "1:15" and clock(3675) == "1:01:15" and not math.isnan(meter.paid.seconds)


def test_a_terminal_sees_a_bar_and_a_file_sees_lines():
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
        with Progress(console, total=2, done=0, meter=Meter(), title="test") as progress:
            progress.batch(2, 0)
            progress.finished(2)
        text = console.file.getvalue()
        assert "2/2" in text if terminal else text.startswith("test: 2 of 2 results")
