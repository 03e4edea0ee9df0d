"""Pools of an experiment: names and files, and files with settings changed, swept like those of methods."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from ..agents.base import LanguageModel
    from ..agents.pool import Pool

Entry = str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """A pool with some of its file's keys changed.

    Attributes:
        source: a shipped pool, or the path of a pool file.
        changes: ``key=value`` words with dotted keys (``models.liar.kind="wrong"``).
        label: its name in tables; the pool's own by default.
    """

    source: str
    changes: tuple[str, ...] = ()
    label: str | None = None


def pool_choices(entries: Sequence[Entry]) -> list[PoolChoice]:
    """Every combination of the values that are lists. An entry is a name or a path, or a mapping of ``name``, dotted
    keys of the pool file and, if wanted, a ``label``; ``models.{a,b}.kind`` is two keys of one value. A sweep is told
    apart by the last part of its keys: ``liars(kind=wrong)``."""
    choices = []
    for entry in entries:
        if isinstance(entry, str):
            choices.append(PoolChoice(entry))
            continue
        settings = {key: value for key, value in entry.items() if key not in ("name", "label")}
        values = [value if isinstance(value, list) else [value] for value in settings.values()]
        swept = [key for key, value in settings.items() if isinstance(value, list) and len(value) > 1]
        for chosen in itertools.product(*values):
            row = dict(zip(settings, chosen, strict=True))
            shown = ", ".join(f"{key.rpartition('.')[2]}={_plain(row[key])}" for key in swept)
            stem = entry.get("label") or (entry["name"].rpartition("/")[2].removesuffix(".yaml") if shown else None)
            label = f"{stem}({shown})" if shown else stem
            changes = [f"{one}={json.dumps(value)}" for key, value in row.items() for one in _keys(key)]
            choices.append(PoolChoice(entry["name"], tuple(changes), label))
    return choices


def load_pools(entries: Sequence[Entry], given: Mapping[str, Pool], where: str) -> dict[str, Pool]:
    """The pools of an experiment by name; models that several of them name alike are built once.

    Args:
        given: pools by name that need no file.

    Raises:
        UserError: for a pool that cannot be built, or two of one name.
    """
    from ..agents.pools import load_pool

    found: dict[str, Pool] = {}
    built: dict[str, LanguageModel] = {}
    for choice in pool_choices(entries):
        if choice.source in given and choice.changes:
            raise UserError(f"{where}, pool: {choice.source!r} was given as it is; only what has a file can be changed")
        pool = given[choice.source] if choice.source in given else load_pool(choice.source, choice.changes, built)
        if choice.label:
            pool = copy.copy(pool)
            pool.name = choice.label
        if pool.name in found:
            raise UserError(f"{where}, pool: two pools are named {pool.name!r}; rename one, or give it a label")
        found[pool.name] = pool
    return found


def check_entries(entries: Iterable[Any]) -> Any:
    """The first entry that is neither a name nor a mapping with one; ``None`` if all are."""
    for entry in entries:
        if isinstance(entry, dict):
            label = entry.get("label", "x")
            sound = (isinstance(entry.get("name"), str) and entry["name"] and isinstance(label, str) and label.strip()
                     and all(isinstance(key, str) and value != [] for key, value in entry.items()))
        else:
            sound = isinstance(entry, str) and entry
        if not sound:
            return entry if entry is not None else "nothing"
    return None


def _keys(key: str) -> list[str]:
    """``a.{b,c}.d`` is ``a.b.d`` and ``a.c.d``."""
    before, brace, rest = key.partition("{")
    among, closing, after = rest.partition("}")
    if not brace or not closing:
        return [key]
    return [full for one in among.split(",") for full in _keys(f"{before}{one.strip()}{after}")]


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
