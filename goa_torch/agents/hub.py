"""Model folders from the Hugging Face hub: from its local cache first, over the network only if the hub answers."""

from __future__ import annotations

import functools
import logging
import os
import ssl
import threading
import urllib.error
import urllib.request
from pathlib import Path

from ..errors import UserError

log = logging.getLogger("goa_torch")
#: What a model needs: never a pickle.
PATTERNS = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt", "tokenizer*")
#: Copies of the weights in other formats, which some repositories carry in sub-folders.
OTHERS = ("original/*", "onnx/*", "metal/*", "*.bin", "*.pt", "*.pth", "*.msgpack", "*.h5", "*.gguf")
PROBE_SECONDS = 5.0


class Unreachable(Exception):
    """The hub cannot be asked: one line that says why."""


@functools.cache
def reachable(endpoint: str, seconds: float = PROBE_SECONDS) -> str:
    """Why ``endpoint`` does not answer within ``seconds``, empty if it does. Asked once a process.

    Proxies of the environment are honoured, and name resolution counts: it can hang longer than any timeout of a
    socket.
    """
    answer: list[str] = []

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=seconds).close()
            answer.append("")
        except urllib.error.HTTPError:  # whatever it says, it answers
            answer.append("")
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            answer.append("" if isinstance(reason, ssl.SSLError) else " ".join(str(reason).split()))

    thread = threading.Thread(target=ask, daemon=True, name="hub-probe")
    thread.start()
    thread.join(seconds)
    return answer[0] if answer else f"no answer within {seconds:g} s"


def is_hub_id(source: str) -> bool:
    """Whether ``source`` could name a repository (``name`` or ``owner/name``) rather than a path."""
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(source)
    except HFValidationError:
        return False
    return not source.startswith((".", "~", os.sep))


def cached(repo: str, revision: str | None = None, code: bool = False, file: str | None = None) -> Path | None:
    """What :func:`fetch` would return, if the hub's cache on disk has all of it; asks no network."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        path = _get(repo, revision, code, file, local=True)
    except LocalEntryNotFoundError:
        return None
    return path if file is not None or complete(path) else None


def fetch(repo: str, revision: str | None = None, code: bool = False, file: str | None = None) -> Path:
    """The folder of a snapshot (or the path of one ``file``) in the hub's cache on disk, downloaded if need be.

    Args:
        repo: hub id.
        revision: branch, tag or commit; ``None`` takes what is in the cache, else the main branch.
        code: also fetch the repository's Python files.
        file: fetch this file alone.

    Raises:
        Unreachable: it is not in the cache and the hub cannot be asked.
        UserError: the hub says no (no such repository, gated, no such revision or file), or it holds no safetensors.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    path = cached(repo, revision, code, file)
    if path is not None:
        return path
    if constants.is_offline_mode():
        raise Unreachable("HF_HUB_OFFLINE is set")
    endpoint = constants.ENDPOINT
    why = reachable(endpoint)
    if why:
        raise Unreachable(f"{endpoint} cannot be reached ({why})")
    where = f"model {repo!r}" + (f" at revision {revision!r}" if revision else "")
    try:
        path = _get(repo, revision, code, file, local=False)
    except GatedRepoError as error:
        raise UserError(f"{where}: the repository is gated; accept its terms on {endpoint}/{repo} "
                        "and set HF_TOKEN") from error
    except RevisionNotFoundError as error:
        raise UserError(f"{where}: no such revision on {endpoint}") from error
    except RepositoryNotFoundError as error:
        raise UserError(f"{where}: no such repository on {endpoint} (or it is private: set HF_TOKEN)") from error
    except LocalEntryNotFoundError as error:
        raise Unreachable(f"{endpoint} stopped answering") from error
    except EntryNotFoundError as error:
        raise UserError(f"{where}: no file {file!r} in the repository") from error
    except HfHubHTTPError as error:
        raise UserError(f"{where}: {endpoint} answered {' '.join(str(error).split())[:200]}") from error
    if file is None and not complete(path):
        raise UserError(f"{where}: the repository has no config.json with safetensors weights, and weights in other "
                        "formats are not loaded; name a repository that has them, or a gguf_file")
    return path


def _get(repo: str, revision: str | None, code: bool, file: str | None, local: bool) -> Path:
    from huggingface_hub import hf_hub_download, snapshot_download

    if file is not None:
        return Path(hf_hub_download(repo, file, revision=revision, local_files_only=local))
    patterns = [*PATTERNS, *(["*.py"] if code else [])]
    return Path(snapshot_download(repo, revision=revision, allow_patterns=patterns, ignore_patterns=list(OTHERS),
                                  local_files_only=local))


def complete(folder: Path) -> bool:
    """Whether a folder holds a config and every safetensors file it speaks of."""
    import json

    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (json.JSONDecodeError, KeyError):
            return False
        return all((folder / name).is_file() for name in names)
    return any(folder.glob("*.safetensors"))
