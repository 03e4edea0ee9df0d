"""Comparisons of methods: run, kept, resumed, and reported with their uncertainty."""

from __future__ import annotations

import importlib

_HOME = {"DiskCache": ".cache", "Interrupted": ".runner", "run_experiment": ".runner", "write_report": ".report"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value
