"""How commands write to the terminal, and how they read ``key=value``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from rich.console import Console


def console(stderr: bool = False) -> Console:
    """Where a command writes. Text of models and users is never read as rich markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, soft_wrap=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table with one row a line of ``rows``; long cells wrap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console().print(table)


def settings(words: Sequence[str]) -> dict[str, Any]:
    """``key=value`` words as a dict; values are read as YAML (``k=3``, ``readout=mean``, ``tau=0.1``).

    Raises:
        UserError: for a word without ``=``, a key given twice or a value that is not YAML.
    """
    import yaml

    values: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"{word!r} is not a setting; write key=value, or put quotes around a question")
        if key in values:
            raise UserError(f"{key!r} is given twice")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UserError(f"{word!r}: the value is not YAML") from error
    return values
