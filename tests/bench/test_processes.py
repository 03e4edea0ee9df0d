"""Real processes: killed in the middle, and several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from goa_torch.bench import run_experiment
from goa_torch.bench.store import RunFolder

from . import world
from .test_runner import comparable, lines

REPO = Path(__file__).parents[2]
METHODS = ["single", "vote", {"name": "goa", "k": [2, 3]}]
ENVIRONMENT = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")} | {
    "PYTHONPATH": str(REPO), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
TORCHRUN = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port"]


def start(*arguments: object, **more) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, *map(str, arguments)], cwd=REPO, env=ENVIRONMENT | more, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_run_killed_again_and_again_comes_to_what_an_undisturbed_one_does(write, tmp_path):
    path = write(methods=METHODS, seeds=[0, 1], questions=10, batch_questions=2)
    whole = comparable(run_experiment(path, out=tmp_path / "whole", pools={"tiny": world.make_pool()}, quiet=True))
    folder, seen, kills = tmp_path / "run", 0, 0
    while kills < 2:
        process = start(world.__file__, path, folder, 0.003)
        results = folder / "results.jsonl"
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            size = results.stat().st_size if results.exists() else 0
            if size > seen + 3000 * kills:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        process.communicate(timeout=60)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        kills += 1
        with results.open("ab") as file:  # and the line it was writing is torn
            file.write(b'{"part":"test","method":"single","task":"letters","question":"q9","seed":0,"answ')
        seen = results.stat().st_size
    assert kills == 2
    process = start(world.__file__, path, folder)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
    assert comparable(folder) == whole
    assert len(lines(folder)) == len(whole)  # nothing that was finished was done again
    assert json.loads((folder / "summary.json").read_text())["complete"]


def test_two_processes_share_the_questions_and_write_one_run_folder(write, tmp_path):
    path = write(methods=["single", "vote", {"name": "single", "agent": "best", "label": "best"}], questions=7,
                 validation=[{"name": "letters", "file": "validation.jsonl"}])
    whole = comparable(run_experiment(path, out=tmp_path / "whole", pools={"tiny": world.make_pool()}, quiet=True))
    process = start(*TORCHRUN, free_port(), world.__file__, path, tmp_path / "run")
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert comparable(tmp_path / "run") == whole
    written = lines(tmp_path / "run")
    assert len(written) == len(whole)
    by_rank = {rank: {x["question"] for x in written if x["rank"] == rank and x["part"] == "test"} for rank in (0, 1)}
    assert by_rank == {0: {"q0", "q2", "q4", "q6"}, 1: {"q1", "q3", "q5"}}
    assert out.count("letters: 7 questions x 1 seed") == 1  # one process prints


def test_wrong_input_is_said_once_and_ends_every_process(write, tmp_path):
    process = start(*TORCHRUN, free_port(), world.__file__, write(methods=["gao"]), tmp_path / "run")
    errors = process.communicate(timeout=120)[1]
    assert process.returncode != 0 and errors.count("error: ") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("environment", [{"WORLD_SIZE": "2"}, {"WORLD_SIZE": "two"},
                                         {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}])
def test_a_world_size_without_a_launcher_is_refused(write, tmp_path, monkeypatch, environment):
    from goa_torch.errors import UserError

    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="torchrun"):
        run_experiment(write(), out=tmp_path / "run", pools={"tiny": world.make_pool()}, quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_state_set_up_for_one_process_is_refused_when_the_launcher_says_two(write, tmp_path):
    program = (
        "import os, sys; sys.path.insert(0, 'tests/bench'); import world\n"
        "from accelerate import PartialState; PartialState(cpu=True)\n"
        "os.environ.update(WORLD_SIZE='2', RANK='0', LOCAL_RANK='0', MASTER_ADDR='127.0.0.1', MASTER_PORT='1')\n"
        "from goa_torch.bench import run_experiment\n"
        "run_experiment(sys.argv[1], out=sys.argv[2], pools={'tiny': world.make_pool()})\n"
    )
    process = start("-c", program, write(), tmp_path / "run")
    errors = process.communicate(timeout=60)[1]
    assert "WORLD_SIZE=2 but 1 process is set up" in errors and process.returncode == 1
    assert not (tmp_path / "run").exists()


def test_a_second_run_does_not_write_into_a_folder_that_is_in_use(write, tmp_path):
    path, folder = write(), RunFolder(tmp_path / "run")
    run_experiment(path, out=folder.path, limit=2, pools={"tiny": world.make_pool()}, quiet=True)
    folder.open(folder.read_config())
    process = start(world.__file__, path, folder.path)
    errors = process.communicate(timeout=60)[1]
    folder.close()
    assert process.returncode == 1 and "another run is writing there" in errors
    assert len(lines(folder.path)) == 4
