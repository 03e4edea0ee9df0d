from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from goa_torch.bench import Interrupted, run_experiment, write_report
from goa_torch.bench.store import RunFolder
from goa_torch.errors import UserError
from goa_torch.types import Usage

from . import world

GRAPHS = ["single", "vote", {"name": "goa", "k": [2, 3], "readout": ["max", "mean"]}, {"name": "moa", "layers": 2}]
FILES = ["accuracy_cost.png", "config.yaml", "results.jsonl", "summary.json", "table.csv", "table.md"]


@pytest.fixture
def run(tmp_path):
    """Runs an experiment into ``tmp_path/run`` with a pool, echo by default."""

    def run(path: Path, *overrides: str, pool=None, out: str = "run", **more) -> Path:
        return run_experiment(path, overrides, out=tmp_path / out, pools={"tiny": pool or world.make_pool()},
                              quiet=True, **more)

    return run


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def comparable(folder: Path) -> dict:
    """What two runs of one experiment must agree on: everything but time, and who paid."""
    latest = RunFolder(folder).results.latest()
    for line in latest.values():
        for name in ("paid", "rank"):
            line.pop(name)
        line["usage"].pop("seconds")
        for call in line["calls"]:
            call.pop("shared")
            call["usage"].pop("seconds")
    return latest


def rows(folder: Path, task: str = "letters") -> dict[str, dict]:
    return {row["method"]: row for row in summary(folder)["tasks"][task]["rows"]}


def test_a_run_leaves_one_line_an_item_and_all_reports(write, run):
    folder = run(write(methods=GRAPHS, seeds=[0, 1]))
    written = lines(folder)
    assert len(written) == 7 * 6 * 2 == len({(x["method"], x["question"], x["seed"]) for x in written})
    assert sorted(f.name for f in folder.iterdir() if f.is_file() and f.name != ".lock") == FILES
    assert summary(folder)["complete"] is True
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["resolved"]["identity"]["methods"][2]["settings"]["readout"] == "max"
    assert config["resolved"]["models"] == {"oracle": "echo:oracle"}
    table = list(csv.DictReader((folder / "table.csv").open()))
    assert [row["method"] for row in table] == [row["label"] for row in config["resolved"]["identity"]["methods"]]
    assert float(table[0]["accuracy"]) == rows(folder)["single"]["accuracy"]
    assert (folder / "accuracy_cost.png").read_bytes().startswith(b"\x89PNG")


def test_token_totals_are_the_sum_of_the_recorded_calls(write, run):
    folder = run(write(methods=GRAPHS, seeds=[0, 1], texts=["What is 1?", "Please fail", "Which mumble?"]))
    written = lines(folder)
    totals = {"usage": Usage(), "paid": Usage()}
    for line in written:
        calls = [Usage(**call["usage"]) for call in line["calls"]]
        unshared = [Usage(**call["usage"]) for call in line["calls"] if not call["shared"]]
        for kind, parts in (("usage", calls), ("paid", unshared)):
            assert Usage(**line[kind]) == sum(parts, Usage())
            totals[kind] += sum(parts, Usage())
        assert line["depth"] == max(call["depth"] for call in line["calls"])
    for kind, total in totals.items():
        for field in fields(Usage):
            assert summary(folder)["totals"][kind][field.name] == pytest.approx(getattr(total, field.name))
    for row in rows(folder).values():
        mine = [line for line in written if line["method"] == row["method"]]
        assert row["tokens"] * len(mine) == pytest.approx(sum(Usage(**line["usage"]).tokens for line in mine))
    assert totals["paid"].calls < totals["usage"].calls


def test_what_is_paid_is_what_the_models_were_asked(write, run):
    pool = world.make_pool()
    folder = run(write(methods=GRAPHS, seeds=[0, 1]), pool=pool)
    asked = pool.models[0].chats
    assert summary(folder)["totals"]["paid"]["calls"] == len(asked)
    assert len({(chat.text, chat.stream) for chat in asked}) == len(asked)  # nothing is asked twice


def test_methods_cost_and_answer_the_same_alone_and_side_by_side(write, run):
    together = comparable(run(write(methods=GRAPHS, seeds=[0, 1])))
    alone = {}
    for number, method in enumerate(["single", "vote", "{name: moa, layers: 2}"]):
        alone |= comparable(run(write(seeds=[0, 1]), f"methods=[{method}]", "cache=off", "batch_questions=1",
                                out=f"alone{number}"))
    assert alone and all(together[item] == line for item, line in alone.items())


def test_answers_that_are_none_are_told_apart_and_count_as_wrong(write, run):
    texts = ["What is 1?", "Please fail", "Which mumble?", "Speak long"]

    def say(chat):
        return "word " * 99 + "Answer: B" if "long" in chat.text else world.say(chat)

    folder = run(write(methods=["single"], texts=texts), pool=world.make_pool(say))
    assert [line["status"] for line in lines(folder)] == ["answered", "failed", "unparsed", "unfinished"]
    row = rows(folder)["single"]
    assert (row["unparsed"], row["unfinished"], row["failed"], row["failed_calls"]) == (1, 1, 1, 1)
    assert row["accuracy"] <= 0.25 and lines(folder)[1]["error"] == "echo was told to fail"


def test_the_same_command_asks_nothing_again(write, run):
    path, pool = write(methods=GRAPHS), world.make_pool()
    folder = run(path, pool=pool)
    before, asked = (folder / "results.jsonl").read_bytes(), len(pool.models[0].chats)

    class Unreachable(type(pool.models[0])):
        def check(self):
            raise UserError("a finished run needs no model")

    pool.models[0].__class__ = Unreachable
    run(path, pool=pool)
    assert (folder / "results.jsonl").read_bytes() == before and len(pool.models[0].chats) == asked


def test_a_run_that_broke_goes_on_where_it_was_and_comes_to_the_same(write, run):
    path = write(methods=GRAPHS, seeds=[0, 1], batch_questions=2)
    whole = comparable(run(path, out="whole"))
    left = [60]

    def break_down(chat):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("a bug")
        return world.say(chat)

    with pytest.raises(RuntimeError, match="a bug"):
        run(path, pool=world.make_pool(break_down))
    folder = Path(str(path.parent / "run"))
    kept = lines(folder)
    assert 0 < len(kept) < len(whole)
    assert comparable(run(path)) == whole
    assert lines(folder)[: len(kept)] == kept and len(lines(folder)) == len(whole)


def test_failed_items_are_tried_again_and_the_latest_line_counts(write, run):
    path = write(methods=["single", "vote"], texts=["What is 1?", "Please fail"])
    folder = run(path)
    assert [line["status"] for line in lines(folder)].count("failed") == 2  # a vote of nobody fails as well
    pool = world.make_pool(lambda chat: "Answer: B")
    run(path, pool=pool)
    assert len(pool.models[0].chats) == 4 and len(lines(folder)) == 6  # what single asks, vote asks too
    assert rows(folder)["single"]["failed"] == rows(folder)["vote"]["failed"] == 0 and summary(folder)["complete"]
    everything = [Usage(**line["paid"]) for line in lines(folder)]
    assert summary(folder)["totals"]["paid"]["calls"] == sum(everything, Usage()).calls


def test_answers_that_rest_on_failed_calls_are_named_and_asked_for_again(write, run):
    path = write(methods=["vote"], questions=2)

    def say(chat):
        return None if "You are math" in chat.text and "What is 1" in chat.text else "Answer: B"

    folder = run(path, pool=world.make_pool(say))
    assert [line["status"] for line in lines(folder)] == ["answered", "answered"]
    note = "Results with failed calls: 1 (commonest error: echo was told to fail)."
    assert note in (folder / "table.md").read_text() and summary(folder)["failed"] == 0
    pool = world.make_pool(lambda chat: "Answer: B")
    run(path, pool=pool)
    assert len(pool.models[0].chats) == 1 and len(lines(folder)) == 3  # the others were in the cache
    assert "failed calls" not in (folder / "table.md").read_text() and rows(folder)["vote"]["failed_calls"] == 0


def test_a_changed_experiment_is_refused_by_name_and_touches_nothing(write, run):
    folder = run(write(methods=["single", {"name": "goa", "k": 2}]))
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with pytest.raises(UserError, match=r"methods\.goa\.settings\.k: 2 there, 3 here; give --out another folder"):
        run(write(methods=["single", {"name": "goa", "k": 3}]))
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
    assert run(write(methods=["single", {"name": "goa", "k": 3}]), out="new").name == "new"


def test_a_model_that_is_another_one_is_refused(write, run):
    path = write()
    run(path, limit=2)
    pool = world.make_pool()
    pool.models[0].fingerprint = "echo:retrained"
    with pytest.raises(UserError, match="'oracle' as echo:oracle, now it is echo:retrained"):
        run(path, pool=pool, limit=4)


def test_more_questions_and_seeds_are_added_to_what_is_there(write, run):
    path = write(methods=GRAPHS)
    folder = run(path, limit=2, seeds=[0])
    first = lines(folder)
    run(path, limit=5, seeds=[0, 1])
    assert lines(folder)[: len(first)] == first and len(lines(folder)) == 7 * 5 * 2
    assert comparable(folder) == comparable(run(path, limit=5, seeds=[0, 1], out="whole"))
    assert not {(c["question"], c["seed"]) for c in lines(folder)[len(first) :]} & {("q0", 0), ("q1", 0)}
    with pytest.raises(UserError, match="seeds"):
        run(path, limit=5, seeds=[0])


@pytest.mark.parametrize("change", [
    {"methods": [{"name": "goa", "k": 9}]}, {"methods": ["gao"]}, {"pool": "nowhere.yaml"}, {"tasks": ["nonsense"]},
    {"texts": [" "]}, {"methods": [{"name": "single", "agent": "best"}]},
])
def test_wrong_input_leaves_no_run_folder(write, run, tmp_path, change):
    with pytest.raises(UserError):
        run(write(**change))
    assert not (tmp_path / "run").exists()


def test_a_dead_model_leaves_no_run_folder(write, run, tmp_path):
    class Dead(world.EchoModel):
        def check(self):
            raise UserError("server http://localhost:1 does not answer; start it")

    pool = world.make_pool()
    pool.models[0].__class__ = Dead
    with pytest.raises(UserError, match="does not answer"):
        run(write(), pool=pool)
    assert not (tmp_path / "run").exists()


def test_the_best_agent_is_chosen_on_validation_questions_only(write, run):
    def say(chat):
        if "Where is" in chat.text:  # validation: math is right
            return "Answer: B" if "You are math" in chat.text else "Answer: A"
        return "Answer: A" if "You are math" in chat.text else "Answer: B"  # test: all others are

    path = write(methods=["vote", {"name": "single", "agent": "best", "label": "best"}],
                 validation=[{"name": "letters", "file": "validation.jsonl"}])
    pool = world.make_pool(say)
    folder = run(path, pool=pool)
    assert summary(folder)["best"]["tiny"]["agent"] == "math"
    assert rows(folder)["best"]["accuracy"] == 0 and rows(folder)["vote"]["accuracy"] == 1
    parts = [line["part"] for line in lines(folder)]
    assert parts.count("validation") == 4 * 8 and parts.count("test") == 12
    assert {x["settings"]["agent"] for x in lines(folder) if x["method"] == "best"} == {"math"}
    asked = len(pool.models[0].chats)
    run(path, pool=pool)
    assert len(pool.models[0].chats) == asked
    assert "on validation questions: 32 calls" in (folder / "table.md").read_text()
    assert "Best agent of pool tiny on validation questions: math (100.0% of 8)" in (folder / "table.md").read_text()


def test_when_more_validation_questions_choose_another_agent_its_results_replace_the_old(write, run):
    def say(chat):
        right = "math" if "Where is 0" in chat.text else "law"
        return "Answer: B" if f"You are {right}" in chat.text or "What" in chat.text else "Answer: A"

    path = write(methods=[{"name": "single", "agent": "best"}], questions=2,
                 validation=[{"name": "letters", "file": "validation.jsonl", "limit": 1}])
    folder = run(path, pool=world.make_pool(say))
    assert summary(folder)["best"]["tiny"]["agent"] == "math"
    run(path, "validation.0.limit=8", pool=world.make_pool(say))
    assert summary(folder)["best"]["tiny"]["agent"] == "law"
    agents = [line["settings"]["agent"] for line in lines(folder) if line["part"] == "test"]
    assert agents == ["math", "math", "law", "law"]


def test_the_cache_is_shared_between_runs_and_the_cost_alone_stays(write, run, tmp_path):
    path, pool = write(cache=str(tmp_path / "replies")), world.make_pool()
    first = run(path, pool=pool, out="one")
    asked = len(pool.models[0].chats)
    second = run(path, pool=pool, out="two")
    assert len(pool.models[0].chats) == asked
    one, two = summary(first)["totals"], summary(second)["totals"]
    assert one["usage"] == pytest.approx(two["usage"]) and two["paid"]["calls"] == 0
    assert not (second / "cache").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody can make one")
def test_a_cache_that_cannot_be_made_leaves_no_run_folder(write, run, tmp_path):
    with pytest.raises(UserError, match="reply cache /proc/nope: .*; name another folder|no permission"):
        run(write(cache="/proc/nope"))
    assert not (tmp_path / "run").exists()


def test_without_a_cache_nothing_is_kept(write, run, tmp_path):
    folder = run(write(cache="off"))
    assert not (folder / "cache").exists()


def test_ctrl_c_says_how_to_go_on_and_keeps_what_is_finished(write, tmp_path, capsys):
    path, calls = write(methods=["single", "vote"], batch_questions=1), [0]

    def say(chat):
        calls[0] += 1
        if calls[0] > 12:
            raise KeyboardInterrupt
        return world.say(chat)

    with pytest.raises(Interrupted, match="the same command goes on"):
        run_experiment(path, out=tmp_path / "run", pools={"tiny": world.make_pool(say)})
    assert "results are in" in capsys.readouterr().err
    assert 0 < len(lines(tmp_path / "run")) < 12


def test_a_method_that_loses_a_result_is_a_bug_that_ends_the_run(write, run, monkeypatch):
    from goa_torch.methods.single import Single

    forward = Single.forward
    monkeypatch.setattr(Single, "forward", lambda self, *args, **more: forward(self, *args, **more)[1:])
    with pytest.raises(RuntimeError, match="one Result a question"):
        run(write(methods=["single"]))


def test_all_methods_and_seeds_go_out_in_one_batch(write, run):
    pool = world.make_pool()
    run(write(methods=["single", "vote"], seeds=[0, 1], questions=6), pool=pool)
    assert pool.models[0].batches == [4 * 6 * 2]  # what single asks, vote asks too


def test_a_report_can_be_written_at_any_time(write, run, tmp_path):
    path = write(methods=["single", "vote"], questions=4)
    folder = run(path)
    kept = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(kept[:-1]))
    partial = write_report(folder)
    assert not partial["complete"] and partial["tasks"]["letters"]["questions"] == 3
    assert "Not finished: 7 of 8 results" in (folder / "table.md").read_text()
    (folder / "results.jsonl").write_text("")
    assert write_report(folder)["tasks"] == {}
    with pytest.raises(UserError, match="not a run folder"):
        write_report(tmp_path / "nothing")


@pytest.mark.parametrize("damage", [
    lambda line: line.pop("status"), lambda line: line.update(usage=None), lambda line: line["paid"].pop("calls"),
    lambda line: line.update(calls=[{}]), lambda line: line.update(trace=3), lambda line: line.update(settings=[]),
    lambda line: line.update(question=["q"]), lambda line: line.update(correct="yes"),
])
def test_damaged_lines_are_asked_for_again(write, run, damage):
    path = write(methods=["single"], questions=3)
    folder = run(path)
    whole, written = comparable(folder), lines(folder)
    damage(written[1])
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    assert write_report(folder)["results"] == 2
    assert comparable(run(path)) == whole


@pytest.mark.parametrize("damage", [
    lambda own: own.pop("identity"), lambda own: own.update(identity=3), lambda own: own.pop("baselines"),
    lambda own: own["identity"].update(seeds="01"), lambda own: own["identity"].update(tasks=[1]),
    lambda own: own["identity"].update(methods=None), lambda own: own.update(models=[1]),
])
def test_a_damaged_configuration_is_one_line(write, run, damage):
    path = write(methods=["single"], questions=1)
    folder = run(path)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    damage(config["resolved"])
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    for again in (lambda: run(path), lambda: write_report(folder)):
        with pytest.raises(UserError, match="config.yaml is not the configuration of a run"):
            again()


def test_a_config_written_by_a_run_runs_again(write, run):
    folder = run(write(methods=GRAPHS))
    again = run(folder / "config.yaml", out="again")
    assert comparable(again) == comparable(folder)


def test_progress_goes_to_standard_error_and_the_table_to_standard_output(write, tmp_path, capsys):
    run_experiment(write(methods=GRAPHS, margin=0.1), out=tmp_path / "run", pools={"tiny": world.make_pool()})
    out, err = capsys.readouterr()
    assert "42 of 42 results" in err and "tokens/s" in err
    assert "goa(k=3, readout=mean)" in out and "Smallest detectable" in out and "TOST" in out
    assert max(map(len, out.splitlines())) <= 120

