"""Runs as data sets: Hugging Face ``datasets`` and PyG.

    from goa_torch.export import load_dataset, load_graphs

    rows = load_dataset("runs/quickstart")      # one row a question, method and seed
    graphs = load_graphs("runs/quickstart")     # the same, as labelled graphs of agents
"""

from __future__ import annotations

import importlib

_HOME = {"load_dataset": ".hf", "RunGraphs": ".pyg", "load_graphs": ".pyg", "questions_of": ".questions"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value
