"""Values in pool files: what is said of one that is of the wrong type, before anything is built from it."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..config import Place
from ..errors import UserError

_WORDS = {str: "text", Path: "a path", int: "a whole number", float: "a number", bool: "true or false",
          list: "a list", dict: "a mapping", type(None): "null"}


def check_containers(cls: type, data: Any, place: Place) -> None:
    """Raises :class:`UserError` where ``data`` has something else for a field of the dataclass ``cls`` that holds a
    list or a mapping. Keys and plain values are left to :func:`goa_torch.config.typed`."""
    hints = get_type_hints(cls)
    for field in fields(cls):
        value = data.get(field.name) if isinstance(data, dict) else None
        kind = next((k for k in (list, dict) if k in (get_origin(hints[field.name]), field.default_factory)), None)
        if kind is not None and value is not None and not isinstance(value, kind):
            raise UserError(f"{place / field.name}: must be {_WORDS[kind]}, not {value!r}")


def check_arguments(build: Callable[..., Any], arguments: Mapping[str, Any], place: Place) -> None:
    """Raises :class:`UserError` for an argument that is not of the type that the signature of ``build`` names."""
    hints = get_type_hints(build.__init__ if inspect.isclass(build) else build)
    for key, value in arguments.items():
        hint = hints.get(key, Any)
        if not _fits(value, hint):
            raise UserError(f"{place / key}: must be {_described(hint)}, not {value!r}")


def check_name(name: str, place: Place) -> None:
    """Raises :class:`UserError` for a name that is empty or would disturb a terminal, a table or a file name."""
    if not name.strip():
        raise UserError(f"{place}: must not be empty")
    if not name.isprintable():
        raise UserError(f"{place}: must be one line of printable characters, not {name!r}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, option) for option in inner)
    kind = origin or hint
    if kind in (list, Sequence):
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value if inner)
    if kind in (dict, Mapping):
        return isinstance(value, dict) and all(_fits(item, inner[1]) for item in value.values() if inner)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind in (str, Path):
        return isinstance(value, str)
    if kind in (bool, type(None)):
        return isinstance(value, kind)
    return kind is not Callable  # no file holds a function; of other types nothing is known here


def _described(hint: Any) -> str:
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = [get_origin(option) or option for option in options]
    kinds = [list if kind is Sequence else dict if kind is Mapping else kind for kind in kinds]
    named = [_WORDS[kind] for kind in kinds if kind in _WORDS]
    return " or ".join(named) or "left out, since no file can hold it"
