"""The page about runs: complete, self-contained, and deaf to what models write into it."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from goa_torch.bench import run_experiment
from goa_torch.cli import main
from goa_torch.errors import UserError
from goa_torch.report.collect import collect
from goa_torch.report.curves import curves_of
from goa_torch.report.page import embedded, page, write_page
from goa_torch.types import Reply
from tests.bench import world

EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def say(chat) -> str | Reply | None:
    said = world.say(chat)
    return f"{EVIL} {said}" if isinstance(said, str) and "Answer" in said else said


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run folder whose questions and replies are full of mark-up."""
    folder = tmp_path_factory.mktemp("report")
    world.write_questions(folder / "questions.jsonl", [f"What is {i}? {EVIL}" for i in range(4)] + ["fail", "mumble"])
    experiment = folder / "letters.yaml"
    experiment.write_text(yaml.safe_dump({
        "methods": ["single", {"name": "goa", "k": 3}, {"name": "random_nodup", "n": None, "rounds": 3}],
        "pool": "tiny", "draws": 200, "seeds": [0, 1], "cache": "off",
        "tasks": [{"name": "letters", "file": "questions.jsonl"}]}))
    with world.in_world():
        return run_experiment(experiment, out=folder / "run <b>bold", pools={"tiny": world.make_pool(say)},
                              quiet=True)


@pytest.fixture(scope="module")
def text(run) -> str:
    with world.in_world():
        return page([collect(run)])


def data_of(text: str) -> dict:
    [inside] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(inside)


def traces_of(entry: dict) -> list:
    return json.loads(gzip.decompress(base64.b64decode(entry["traces"])))


class Elements(HTMLParser):
    """Every element of a page, and what is left open."""

    def __init__(self) -> None:
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_and_loads_nothing(text):
    elements = Elements()
    elements.feed(text)
    assert not elements.open
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 2 and not {"img", "link", "iframe", "b"} & set(tags)
    assert not any({"src", "href"} & set(attributes) for _, attributes in elements.found)
    policy = next(attributes["content"] for tag, attributes in elements.found if "http-equiv" in attributes)
    assert "default-src 'none'" in policy and "unsafe-inline'; script" in policy and "sha256-" in policy


def test_nothing_that_models_or_users_wrote_is_markup(text, run):
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "owned" not in outside and "<b>" not in outside and "run &lt;b&gt;" in outside
    assert text.count("</script>") == 2
    entry = data_of(text)["runs"][0]["questions"][0]
    assert EVIL in entry["text"]  # whole, as data
    assert any(EVIL in reply["text"] for line in traces_of(entry) for stage in line["stages"]
               for reply in stage.get("replies", ()))


def test_every_table_question_and_trace_is_there(text):
    [shown] = data_of(text)["runs"]
    [table] = shown["tables"]
    assert [row["method"] for row in table["rows"]] == shown["methods"] == ["single", "goa", "random_nodup"]
    assert table["rows"][0]["difference"] == "baseline" and "[" in table["rows"][1]["accuracy_text"]
    assert [side["title"] for side in shown["side"]] == ["Debates on letters"]
    assert all(len(row) == len(side["header"]) for side in shown["side"] for row in side["rows"])
    assert len(shown["questions"]) == 6
    for entry in shown["questions"]:
        lines = traces_of(entry)
        assert len(lines) == len(entry["outcomes"]) == 6  # three methods, two seeds
        for outcome, line in zip(entry["outcomes"], lines):
            assert (outcome["method"], outcome["seed"]) == (line["method"], line["seed"])
            assert sum(call["calls"] for call in line["calls"]) == line["usage"]["calls"]
    goa = next(line for line in traces_of(shown["questions"][0]) if line["method"] == "goa")
    assert {"select", "answer", "score", "pass", "readout"} == {stage["stage"] for stage in goa["stages"]}
    answers = next(stage for stage in goa["stages"] if stage["stage"] == "answer")["replies"]
    assert all(reply["right"] == (reply["answer"] == "B") for reply in answers)


def test_a_limit_of_traces_is_said(run):
    with world.in_world():
        shown = collect(run, traces=2)
    assert len(shown["questions"]) == 2 and any("2 of 6 questions" in note for note in shown["notes"])


def test_questions_that_are_gone_are_said_and_their_ids_shown(run):
    shown = collect(run)  # outside the world, there is no such task
    assert any(note.startswith("questions of letters: ") for note in shown["notes"])
    assert shown["questions"][0]["text"] is None and shown["questions"][0]["id"] == "q0"


def test_curves_of_a_training_become_panels(tmp_path):
    lines = [{"update": i, "train": {"accuracy": i / 20, "loss": 1 / (1 + i)}, "validation": {"accuracy": i / 25},
              "note": "x", "bad": float("nan")} for i in range(20)]
    (tmp_path / "curve.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"update": 20, "tr')
    (tmp_path / "other.jsonl").write_text('{"no": "steps"}\n')
    panels = {panel["quantity"]: panel for panel in curves_of(tmp_path)}
    assert set(panels) == {"accuracy", "loss"}
    assert [series["name"] for series in panels["accuracy"]["series"]] == ["train", "validation"]
    assert panels["accuracy"]["series"][0]["points"][3] == [3, 3 / 20]
    assert collect(tmp_path)["curves"] and "Learning" in page([collect(tmp_path)])


def test_long_curves_are_thinned_to_means(tmp_path):
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({"step": i, "loss": i}) for i in range(10_000)))
    [panel] = curves_of(tmp_path)
    points = panel["series"][0]["points"]
    assert len(points) <= 400 and points[0] == [12, 12]


def test_numbers_that_json_has_no_word_for_become_null():
    text = embedded({"x": [float("nan"), float("inf"), 1.0], "y": "<&>"})
    assert text == '{"x":[null,null,1.0],"y":"\\u003c\\u0026\\u003e"}'


def test_wrong_folders_are_said_in_a_line(tmp_path, capsys):
    with pytest.raises(UserError, match="neither results.jsonl"):
        collect(tmp_path)
    with pytest.raises(UserError, match="not a folder"):
        collect(tmp_path / "nowhere")
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "no" / "x.html")]) == 2
    assert main(["report", str(tmp_path), "--traces", "-1"]) == 2
    assert capsys.readouterr().err.count("goa: error: ") == 3


def test_the_command_writes_into_the_run_folder(run, capsys):
    with world.in_world():
        assert main(["report", str(run), str(run), "--title", "two <i>runs</i>"]) == 0
    text = (run / "report.html").read_text()
    assert "report.html" in capsys.readouterr().out and "<title>two &lt;i&gt;" in text
    assert len(data_of(text)["runs"]) == 2


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no headless browser is installed (apt install chromium)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_real_browser_shows_everything_and_runs_nothing_that_models_wrote(run, tmp_path, scheme):
    with world.in_world():
        path = write_page([run], tmp_path / "report.html", "letters")
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    shown = subprocess.run([browser(), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,800",
                            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000",
                            "--enable-logging=stderr", *dark, "--dump-dom", path.as_uri()],
                           capture_output=True, text=True, timeout=120)
    body = shown.stdout
    assert not re.findall(r"CONSOLE.*(?:Uncaught|Refused|Error)", shown.stderr)
    assert "<title>letters</title>" in body
    assert body.count("<script") == 2 and "<img" not in re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)
    assert "&lt;/script&gt;&lt;script&gt;document.title='owned'" in body  # shown as text, in a trace
    for wanted in ('class="results"', "Further tables", "Debates on letters", "sequential depth", "Questions",
                   "Pass: round 2", "round 1",
                   "Read out", "hears", "configuration"):
        assert wanted in body, wanted
    assert len(re.findall(r'role="option"', body)) == 6 and "<svg" in body
