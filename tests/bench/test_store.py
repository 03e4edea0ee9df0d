from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goa_torch.bench.store import Item, ResultFile, RunFolder, changes, write_whole
from goa_torch.errors import UserError

REPO = Path(__file__).parents[2]


def line(number: int, **more) -> dict:
    return {"part": "test", "method": "m", "task": "t", "question": f"q{number}", "seed": 0, "text": "é\n" * 3, **more}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 500), st.integers(1, 3))
def test_a_line_torn_at_any_byte_is_lost_alone_and_never_merges_with_the_next(tmp_path_factory, cut, after):
    results = ResultFile(tmp_path_factory.mktemp("run") / "results.jsonl")
    results.append([line(0), line(1), line(2)])
    whole = results.path.read_bytes()
    kept = whole[: max(0, len(whole) - cut)]
    results.path.write_bytes(kept)
    complete = kept.count(b"\n")
    seen = len(list(results))
    assert seen in (complete, complete + 1)  # a line that only lacks its newline can be read
    results.append([line(10 + i) for i in range(after)])
    assert [r["question"] for r in results] == [f"q{i}" for i in range(complete)] + [f"q{10 + i}" for i in range(after)]
    assert all(json.loads(text) for text in results.path.read_text().splitlines())


def test_the_latest_line_of_an_item_wins(tmp_path):
    results = ResultFile(tmp_path / "results.jsonl")
    results.append([line(0, answer=None), line(1, answer="A")])
    results.append([line(0, answer="B")])
    assert {item.question: record["answer"] for item, record in results.latest().items()} == {"q0": "B", "q1": "A"}
    assert Item.of(line(0)) == Item("test", "m", "t", "q0", 0)


@pytest.mark.parametrize("junk", [b"\0" * 40 + b"\n", b"null\n", b"[1]\n", b'{"part": "test"}\n', b"\xff\xfe\n", b"\n"])
def test_lines_that_are_no_results_are_passed_over(tmp_path, junk):
    results = ResultFile(tmp_path / "results.jsonl")
    results.append([line(0)])
    results.path.write_bytes(junk + results.path.read_bytes() + junk)
    results.append([line(1)])
    assert [record["question"] for record in results] == ["q0", "q1"]


def test_threads_append_whole_lines(tmp_path):
    results = ResultFile(tmp_path / "results.jsonl")
    threads = [threading.Thread(target=lambda t=t: [results.append([line(100 * t + i)]) for i in range(20)])
               for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results.latest()) == 80


def test_processes_append_whole_lines_to_one_file(tmp_path):
    program = (
        "import sys; from goa_torch.bench.store import ResultFile\n"
        "results, rank = ResultFile(sys.argv[1]), int(sys.argv[2])\n"
        "for i in range(40):\n"
        "    results.append([{'part': 'test', 'method': 'm', 'task': 't', 'question': f'{rank}-{i}-{j}', 'seed': 0,"
        " 'text': 'x' * 20000} for j in range(3)])\n"
    )
    path = tmp_path / "results.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", program, str(path), str(rank)], cwd=REPO) for rank in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(ResultFile(path).latest()) == 360 and len(path.read_text().splitlines()) == 360


def test_a_run_folder_is_taken_by_one_run_at_a_time(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.open({"a": 1})
    program = "import sys; from goa_torch.bench.store import RunFolder; RunFolder(sys.argv[1]).open({'a': 2})"
    other = subprocess.run([sys.executable, "-c", program, str(folder.path)], cwd=REPO, capture_output=True, text=True)
    assert "another run is writing there" in other.stderr
    assert folder.read_config() == {"a": 1}
    folder.close()
    assert subprocess.run([sys.executable, "-c", program, str(folder.path)], cwd=REPO).returncode == 0
    assert folder.read_config() == {"a": 2}


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.read_config() is None
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(UserError, match="no config.yaml"):
        folder.read_config()
    for text in ("a: [", "just text", "\0"):
        (tmp_path / "config.yaml").write_text(text)
        with pytest.raises(UserError, match="name another"):
            folder.read_config()
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="run folder"):
        RunFolder(blocked / "run").open({})


def test_files_are_replaced_whole(tmp_path):
    write_whole(tmp_path / "a.txt", "one")
    write_whole(tmp_path / "a.txt", b"two")
    assert (tmp_path / "a.txt").read_bytes() == b"two" and os.listdir(tmp_path) == ["a.txt"]


def test_changes_name_their_places():
    old = {"methods": [{"k": 2}, {"k": 3}], "seeds": [0], "same": {"x": 1.0}}
    new = {"methods": [{"k": 2}, {"k": 4}], "seeds": [0, 1], "same": {"x": 1.0}, "more": True}
    assert changes(old, new) == ["methods[1].k: 3 there, 4 here", "seeds[1]: nothing there, 1 here",
                                 "more: nothing there, true here"]
    assert changes(old, old) == []
