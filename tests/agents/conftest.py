from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_llama_folder(folder: Path) -> Path:
    """A random Llama of 26 thousand parameters that reads bytes, as `from_pretrained` and servers load it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: i for i, token in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>",
                                   additional_special_tokens=["<|im_start|>"])
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=2,
            pad_token_id=0))
    model.generation_config.do_sample = True  # `transformers serve` ignores the temperature of requests without it
    model.save_pretrained(folder)
    return folder


@dataclass
class Served:
    """A server that runs: where it is, the name of its model, and the folder the model lies in."""

    url: str
    model: str
    folder: Path


@pytest.fixture(scope="session")
def transformers_server(tmp_path_factory):
    """``transformers serve`` on a free port of loopback, with a tiny random model."""
    for needed in ("torch", "transformers", "tokenizers", "openai", "fastapi", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"no {needed}: install the extra `test`")
    folder = make_llama_folder(tmp_path_factory.mktemp("served") / "tiny-llama")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.parent / "server.log"
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", "serve", str(folder),
               "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, env=environment)
    try:
        if not _healthy(f"http://127.0.0.1:{port}/health", process, seconds=60):
            pytest.fail("`transformers serve` did not start:\n" + log.read_text(errors="replace")[-2000:])
        yield Served(f"http://127.0.0.1:{port}/v1", str(folder), folder)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(url: str, process: subprocess.Popen, seconds: float) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with direct.open(url, timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False
