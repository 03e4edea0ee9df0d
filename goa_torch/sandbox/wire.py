"""Plain values on a line of text: how the judge and the candidate talk. Nothing that is read can run code.

What may be sent is data: ``None``, booleans, numbers, text, bytes and lists, tuples, sets, dicts and iterators of
them, subclasses as their base. So an object that claims to equal everything never reaches an assertion.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

#: Most characters of one line.
LONGEST = 8_000_000
_MOST_ITEMS = 1_000_000  # taken from an iterator


def dumps(value: Any) -> str:
    """``value`` as one line.

    Raises:
        TypeError: if a part of it is not plain data.
        ValueError: if it is too long; RecursionError: if it is nested too deeply.
    """
    line = json.dumps(_tagged(value))
    if len(line) > LONGEST:
        raise ValueError(f"a value of {len(line):,} characters; at most {LONGEST:,} can be sent")
    return line


def loads(line: str) -> Any:
    """The value that a line of :func:`dumps` says.

    Raises:
        ValueError: if it is no such line; RecursionError: if it is nested too deeply.
    """
    return _untagged(json.loads(line))


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return {"int": hex(int(value))}  # no limit on digits, linear time
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {type(value).__mro__[-2].__name__: bytes(value).hex()}
    if isinstance(value, dict):
        return {"dict": [[_tagged(key), _tagged(item)] for key, item in value.items()]}
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [_tagged(item) for item in value]}
    if isinstance(value, Iterator):
        return {"iter": [_tagged(item) for item in itertools.islice(value, _MOST_ITEMS)]}
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _tagged(value.item())
    raise TypeError(f"a value of type {type(value).__name__} is not plain data")


_BUILD = {
    "int": lambda text: int(text, 16), "complex": lambda parts: complex(*parts), "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "dict": lambda pairs: {_untagged(key): _untagged(item) for key, item in pairs},
    "list": lambda items: [_untagged(item) for item in items],
    "tuple": lambda items: tuple(_untagged(item) for item in items),
    "set": lambda items: {_untagged(item) for item in items},
    "frozenset": lambda items: frozenset(_untagged(item) for item in items),
    "iter": lambda items: iter([_untagged(item) for item in items]),
}


def _untagged(value: Any) -> Any:
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if not isinstance(value, dict) or len(value) != 1 or not _BUILD.keys() >= value.keys():
        raise ValueError("not a line of plain data")
    [(kind, parts)] = value.items()
    try:
        return _BUILD[kind](parts)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not a line of plain data ({error})") from None
