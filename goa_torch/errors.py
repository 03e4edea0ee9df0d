"""The one exception a user is meant to read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Input that is wrong before any call: one line that says what, where and what to do."""


def unknown(kind: str, name: object, available: Iterable[str], where: str = "") -> UserError:
    """The error for a name that is not known: the closest known ones, then all of them."""
    names = sorted(map(str, available))
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    place = f"{where}: " if where else ""
    return UserError(f"{place}unknown {kind} {name!r}.{hint} Available: {', '.join(names) or 'none'}.")
