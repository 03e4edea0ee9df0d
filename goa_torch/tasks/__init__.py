"""Questions in, answers read and scored. Importing this loads nothing heavy; names are looked up when used."""

from __future__ import annotations

import importlib

_HOME = {
    "ChoiceReader": ".readers",
    "CodeReader": ".code",
    "MathReader": ".readers",
    "NumberReader": ".readers",
    "Row": ".task",
    "Task": ".task",
    "TextReader": ".readers",
    "describe": ".registry",
    "get_task": ".registry",
    "load_questions": ".loading",
    "math_equal": ".equality",
    "read_boxed": ".boxed",
    "read_choice": ".choice",
    "read_code": ".code",
    "read_number": ".number",
    "register": ".registry",
    "task_names": ".registry",
    "without_overlap": ".loading",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))
