"""The tasks by name. A target is a :class:`Task` or the place of one ("package.module:NAME"), loaded when needed."""

from __future__ import annotations

import importlib

from ..errors import unknown
from .task import Task

_TARGETS: dict[str, str | Task] = {}


def register(name: str, target: str | Task) -> None:
    """Makes a task known. A name belongs to one task: registering it for another raises ``ValueError``.

    Example:
        >>> register("mine", "my_package.my_tasks:MINE")  # doctest: +SKIP
    """
    known = _TARGETS.get(name)
    if known is not None and known != target:
        raise ValueError(f"task {name!r} is already registered as {known!r}; choose another name for {target!r}")
    _TARGETS[name] = target


def get_task(name: str) -> Task:
    """The task called ``name``; raises :class:`UserError` if there is none."""
    if name not in _TARGETS:
        raise unknown("task", name, _TARGETS)
    target = _TARGETS[name]
    if isinstance(target, Task):
        return target
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def task_names() -> list[str]:
    """The names of all tasks, sorted."""
    return sorted(_TARGETS)


def describe(name: str) -> str:
    """One line about a task: what it asks, where its questions live, which splits it has."""
    return get_task(name).describe()


for _name in "aime24 arc_challenge file gpqa gsm8k humaneval math500 medmcqa mmlu mmlu_pro scienceqa".split():
    register(_name, f"goa_torch.tasks.specs.{_name}:TASK")
register("relay", "goa_torch.tasks.specs.relay:TASK")
