"""The hub: read through datasets, never waited for, and what is wrong is one line."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from goa_torch.errors import UserError
from goa_torch.tasks import hub, load_questions

datasets = pytest.importorskip("datasets")
GSM8K = [{"question": f"How much is {n}?", "answer": f"It is.\n#### {n}"} for n in range(3)]
CARD = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: train.jsonl}
  - {split: test, path: test.jsonl}
---
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no network, and a working folder of our own."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
    monkeypatch.setattr(hub, "hub_reachable", lambda seconds=8.0: False)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    datasets.disable_progress_bars()
    return folder


def repository(folder, train, test):
    folder.mkdir(parents=True)
    for name, rows in (("train", train), ("test", test)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "README.md").write_text(CARD)


def test_rows_come_through_datasets_and_train_leaves_out_test(cache, tmp_path):
    repository(tmp_path / "openai" / "gsm8k", train=GSM8K, test=GSM8K[:1])
    assert [q.gold for q in load_questions("gsm8k")] == ["0"]
    train = load_questions("gsm8k", split="train")
    assert [q.gold for q in train] == ["1", "2"] and {q.split for q in train} == {"train"}


def test_pictures_are_not_opened(cache, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    rows = {
        "question": ["Seen?", "Read?"],
        "choices": [["x", "y"]] * 2,
        "answer": [0, 1],
        "hint": ["", ""],
        "image": [Image.new("RGB", (2, 2)), None],
    }
    folder = tmp_path / "derek-thomas" / "ScienceQA"
    folder.mkdir(parents=True)
    features = datasets.Features(
        {
            "question": datasets.Value("string"),
            "choices": datasets.List(datasets.Value("string")),
            "answer": datasets.Value("int8"),
            "hint": datasets.Value("string"),
            "image": datasets.Image(),
        }
    )
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "test.parquet")
    assert [(q.text, q.gold) for q in load_questions("scienceqa")] == [("Read?\nA) x\nB) y", "B")]


def test_without_network_the_cache_of_datasets_still_serves(cache, tmp_path, monkeypatch):
    repository(tmp_path / "openai" / "gsm8k", train=GSM8K, test=GSM8K[:2])
    load_questions("gsm8k")
    (made,) = {path.parents[3] for path in cache.glob("*/*/*/*/dataset_info.json")}
    made.rename(cache / "openai___gsm8k")  # where a download from the hub would lie
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    start = time.monotonic()
    assert [q.gold for q in load_questions("gsm8k")] == ["0", "1"]
    assert time.monotonic() - start < 10


def test_an_unreachable_hub_is_one_line(cache):
    with pytest.raises(
        UserError, match="task 'mmlu': the Hugging Face hub cannot be reached and cais/mmlu, all is not in"
    ) as e:
        load_questions("mmlu")
    assert "\n" not in str(e.value) and datasets.config.HF_HUB_OFFLINE is False


def test_asked_to_stay_offline_the_hub_is_not_even_probed(cache, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "hub_reachable", lambda seconds=8.0: pytest.fail("probed"))
    with pytest.raises(UserError, match="HF_HUB_OFFLINE is set"):
        load_questions("mmlu")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            "Dataset 'x' is a gated dataset on the Hub. You must be authenticated",
            "is gated; accept its terms at https://.*Idavidrein/gpqa",
        ),
        ("Dataset 'x' doesn't exist on the Hub or cannot be accessed.", "is not on the hub or not open to you"),
    ],
)
def test_a_set_that_is_not_open_is_one_line(cache, monkeypatch, said, message):
    def refuse(*args, **kwargs):
        raise datasets.exceptions.DatasetNotFoundError(said)

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(UserError, match=f"task 'gpqa': Idavidrein/gpqa {message}"):
        load_questions("gpqa")


def test_a_download_that_breaks_is_one_line(cache, monkeypatch):
    def refuse(*args, **kwargs):
        raise ConnectionError("dropped\nhalfway")

    monkeypatch.setattr(hub, "hub_reachable", lambda seconds=8.0: True)
    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(UserError, match="could not be loaded .ConnectionError: dropped halfway.; try again"):
        load_questions("mmlu")


class Refusing(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(503)
        self.end_headers()

    def log_message(self, *args):
        pass


def test_a_hub_that_answers_anything_is_reachable(monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    try:
        assert hub.hub_reachable(5)
    finally:
        server.shutdown()
        server.server_close()


def test_a_hub_that_hangs_or_is_not_there_is_not_waited_for(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        start = time.monotonic()
        assert not hub.hub_reachable(0.5) and time.monotonic() - start < 3
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert not hub.hub_reachable(5)
