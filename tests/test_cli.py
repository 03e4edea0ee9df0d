"""The command goa: what it shows, and one clear line for what is wrong."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from goa_torch import cli
from goa_torch.methods import method_names
from goa_torch.tasks import task_names

ROOT = Path(__file__).parents[1]


def goa(capsys, *words: str) -> tuple[int, str, str]:
    """Exit status, what was printed and what was complained of."""
    status = cli.main(words)
    said = capsys.readouterr()
    return status, said.out, said.err


def ask(capsys, *words: str) -> str:
    status, out, err = goa(capsys, "ask", "Which is it? A) this B) that", "--pool", "echo", *words)
    assert (status, err) == (0, "")
    return out


def test_without_a_command_it_lists_the_commands(capsys):
    status, out, _ = goa(capsys)
    assert status == 2 and all(name in out for name in cli.COMMANDS)


def test_help_says_what_each_command_does(capsys):
    for words in (["--help"], *([name, "--help"] for name in cli.COMMANDS)):
        with pytest.raises(SystemExit) as stop:
            cli.main(words)
        assert stop.value.code == 0
        assert "usage: goa" in capsys.readouterr().out


def test_the_lists_are_complete(capsys):
    assert all(name in goa(capsys, "methods")[1] for name in method_names())
    assert all(name in goa(capsys, "tasks")[1] for name in task_names())
    assert all(name in goa(capsys, "pools")[1] for name in ("echo", "paper", "smollm2"))
    assert "biomedical" in goa(capsys, "pools", "paper")[1]
    assert "tau" in goa(capsys, "methods", "goa")[1]


def test_asking_shows_every_step_from_the_choice_to_the_cost(capsys):
    out = ask(capsys)
    for part in ("The meta-LLM (general) read the cards and replied: '0, 4, 1'", "biomedical: domain: biomedical",
                 "relevance S", "code hears biomedical (weight 1.00)", "biomedical hears code", "pass: round 2",
                 "the top source is taken: biomedical", "Having read the others, the biomedical agent stays with it"):
        assert part in out, part
    costs = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()
             if line.split()[:1] and line.split()[0] in ("select", "answer", "score", "pass", "all")
             and len(line.split()) == 6}
    assert costs == {"select": 1, "answer": 3, "score": 3, "pass": 4, "all": 11}


@pytest.mark.parametrize("method", method_names())
def test_every_method_can_be_asked_drawn_and_traced(capsys, tmp_path, method):
    trace, plot = tmp_path / "trace.json", tmp_path / "plot.svg"
    ask(capsys, "--method", method, "--trace", str(trace), "--plot", str(plot))
    record = json.loads(trace.read_text(encoding="utf-8"))
    assert record["method"] == method and len(record["calls"]) == record["usage"]["calls"]
    assert record["usage"]["prompt_tokens"] == sum(call["usage"]["prompt_tokens"] for call in record["calls"])
    drawn = "".join(ElementTree.parse(plot).getroot().itertext())
    assert all(agent in drawn for agent in record["trace"]["agents"])
    assert sorted(tmp_path.iterdir()) == [plot, trace]


def test_a_plot_shows_the_edges_of_both_directions(capsys, tmp_path):
    ask(capsys, "--plot", str(tmp_path / "plot.svg"), "--trace", str(tmp_path / "trace.json"))
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    drawn = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    stages = json.loads((tmp_path / "trace.json").read_text())["trace"]["stages"]
    weights = [f"{weight:.2f}" for stage in stages if stage["stage"] == "pass" for _, _, weight in stage["edges"]]
    assert len(weights) == 6
    assert all(drawn.count(weight) >= weights.count(weight) for weight in weights)


def test_the_same_question_gives_the_same_picture(capsys, tmp_path):
    for name in ("a.svg", "b.svg"):
        ask(capsys, "--plot", str(tmp_path / name))
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_settings_may_stand_anywhere_among_the_options(capsys):
    out = ask(capsys, "k=2", "--seed", "1", "readout=mean")
    assert "method goa k=2 readout=mean, seed 1" in out
    assert "The meta-LLM (general) writes one answer" in out


def test_answers_can_be_shortened_without_shortening_scores(capsys):
    out = ask(capsys, "--max-new-tokens", "3", "--temperature", "0")
    assert "(cut off)" in out and "cut off: raise --max-new-tokens" in out
    assert "Judges left out" not in out


def test_a_question_comes_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("What is piped?\n"))
    status, out, _ = goa(capsys, "ask", "-", "--pool", "echo")
    assert status == 0 and "question: What is piped?" in out


def test_a_device_is_written_into_and_stays_one(capsys):
    ask(capsys, "--trace", os.devnull)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    if Path("/dev/full").exists():
        status, _, err = goa(capsys, "ask", "x", "--pool", "echo", "--trace", "/dev/full")
        assert status == 2 and "/dev/full could not be written: No space left" in err and err.count("\n") == 1
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_link_to_a_trace_stays_one(capsys, tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    ask(capsys, "--trace", str(tmp_path / "link.json"))
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "real.json").read_text())["trace"]


def test_bytes_that_are_no_characters_are_shown_as_such(capsys, tmp_path, monkeypatch):
    trace = tmp_path / "trace.json"
    assert goa(capsys, "ask", "Caf\udce9?", "--pool", "echo", "--trace", str(trace))[0] == 0
    assert json.loads(trace.read_text(encoding="utf-8"))["question"] == "Caf\ufffd?"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Caf\xe9?\n"), encoding="utf-8"))
    assert "question: Caf\ufffd?" in goa(capsys, "ask", "-", "--pool", "echo")[1]


def test_markup_in_a_question_is_only_text(capsys, tmp_path):
    status, out, _ = goa(capsys, "ask", "[bold]x[/italic] :smile: \x1b[31m $x_1$", "--pool", "echo", "--plot",
                         str(tmp_path / "plot.svg"))
    assert status == 0 and "[bold]x[/italic] :smile: \ufffd[31m $x_1$" in out and "\x1b" not in out
    assert "$x_1$" in "".join(ElementTree.parse(tmp_path / "plot.svg").getroot().itertext())


@pytest.mark.parametrize(("words", "message"), [
    (["asc"], "unknown command 'asc'. Did you mean 'ask'?"),
    (["--colour"], "unrecognized arguments: --colour"),
    (["ask"], "the following arguments are required: question"),
    (["ask", "  ", "--pool", "echo"], "the question is empty"),
    (["ask", "x", "--pool", "eco"], "unknown pool 'eco'. Did you mean 'echo'?"),
    (["ask", "x", "--pool", "none.yaml"], "no file none.yaml"),
    (["ask", "x", "--pool", "echo", "--method", "gao"], "unknown method 'gao'. Did you mean 'goa'?"),
    (["ask", "x", "--pool", "echo", "kk=2"], "unknown setting 'kk'"),
    (["ask", "x", "--pool", "echo", "k=9"], "has 6 agents"),
    (["ask", "x", "--pool", "echo", "k=two"], "k"),
    (["ask", "x", "--pool", "echo", "k=["], "'k=[': the value is not YAML"),
    (["ask", "x", "--pool", "echo", "k=2", "k=3"], "'k' is given twice"),
    (["ask", "x", "y", "--pool", "echo"], "'y' is not a setting; write key=value"),
    (["ask", "x", "--pool", "echo", "--seed", "one"], "invalid int value: 'one'"),
    (["ask", "x", "--pool", "echo", "--max-new-tokens", "0"], "max_new_tokens must be at least 1"),
    (["ask", "x", "--pool", "echo", "--plot", "graph.gif"], "ends in .svg, .png, .pdf"),
    (["ask", "x", "--pool", "echo", "--trace", "no/such/folder/t.json"], "there is no folder"),
    (["ask", "x", "--pool", "echo", "--trace", "."], "is a folder"),
    (["ask", "x", "--pool", "echo", "--trace", ""], "is a folder"),
    (["ask", "x", "--pool", "echo", "--trace", "x" * 300], "File name too long"),
    (["ask", "x", "--pool", "echo", "--plot", "no/such/folder/p.svg"], "there is no folder"),
    (["ask", "x", "--pool", "echo", "--plot", "a.svg", "--trace", "./a.svg"], "both name a.svg"),
    (["pools", "nope"], "unknown pool 'nope'"),
    (["methods", "nope"], "unknown method 'nope'"),
    (["pull", "nope"], "unknown pool 'nope'"),
    (["card", "no/such/README.md"], "not a hub id"),
    (["card", "x", "--file", "nope.md"], "nope.md: no such file"),
    (["bench", "nope.yaml"], "nope.yaml"),
    (["bench", str(ROOT / "experiments/quickstart.yaml"), "--out", ""], "the run folder needs a name"),
    (["bench", "nope.yaml", "limit"], "'limit' is not an override"),
])
def test_what_is_wrong_before_the_first_call_is_one_line(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = goa(capsys, *words)
    assert status == 2 and out == ""
    assert err.startswith("goa: error: ") and err.count("\n") == 1
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_failed_call_is_no_answer_and_a_status_of_its_own(capsys, tmp_path):
    pool = tmp_path / "mute.yaml"
    pool.write_text("models: {m: {backend: echo, rules: []}}\nagents: [{name: a, model: m, card: {domain: x}}]\n")
    status, out, err = goa(capsys, "ask", "Hello?", "--pool", str(pool), "--method", "single")
    assert status == 1 and err == ""
    assert "No answer: echo was told to fail" in out


def test_a_comparison_whose_every_answer_failed_says_why_and_has_a_status_of_its_own(capsys, tmp_path):
    (tmp_path / "mute.yaml").write_text(
        "models: {m: {backend: echo, rules: []}}\nagents: [{name: a, model: m, card: {domain: x}}]\n")
    (tmp_path / "q.jsonl").write_text('{"question": "How much?", "gold_answer": "4"}\n')
    (tmp_path / "e.yaml").write_text("pool: mute.yaml\ntasks: [{name: file, file: q.jsonl}]\nmethods: [single]\n")
    status, out, _ = goa(capsys, "bench", str(tmp_path / "e.yaml"), "--out", str(tmp_path / "run"))
    assert status == 1 and "commonest error: echo was told to fail" in " ".join(out.split())


def test_interrupting_is_one_line(capsys, monkeypatch):
    def interrupted(argv):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    assert goa(capsys, "ask", "x") == (130, "", "goa: interrupted\n")


def test_a_reader_that_goes_away_is_no_traceback():
    done = subprocess.run(["bash", "-c", 'set -o pipefail; "$0" -m goa_torch pools | true', sys.executable], cwd=ROOT,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 141 and done.stderr == ""


def test_a_card_is_made_from_a_readme_and_can_be_summarised(capsys, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("---\ntags: [legal, law]\n---\n# Justice-7B\n\nA model for legal texts of all kinds.\n")
    status, out, _ = goa(capsys, "card", str(readme))
    assert status == 0 and "domain: law" in out and "size: 7B" in out
    assert "features: 'Answer: B'" in goa(capsys, "card", str(readme), "--summarise", "echo:law")[1]
    assert "write POOL:AGENT" in goa(capsys, "card", str(readme), "--summarise", "echo")[2]


def test_pulling_readies_every_model(capsys):
    status, out, _ = goa(capsys, "pull", "echo")
    assert status == 0 and out.startswith("1/1 echo: ready")


def test_how_a_question_is_decoded_changes_nothing_else_of_the_pool():
    from types import SimpleNamespace

    from goa_torch import load_pool
    from goa_torch.commands.ask import _decoding

    pool = load_pool("smollm2")
    changed = _decoding(pool, SimpleNamespace(max_new_tokens=7, temperature=0.1))
    assert changed.judging == pool.judging == "likelihood"
    assert changed.sampling["answer"].max_new_tokens == 7 and changed.sampling["score"].temperature == 0.1
    assert pool.sampling["answer"].max_new_tokens != 7


def test_an_expression_is_a_question_of_relay_and_its_answer_is_known():
    from goa_torch.commands.ask import _question

    asked = _question("rev[(47+8)]")
    assert (asked.task, asked.gold) == ("relay", "55") and asked.reader.read("55") == "55"
    assert _question("47").task == _question("What is rev[(47+8)]?").task == "ask"
