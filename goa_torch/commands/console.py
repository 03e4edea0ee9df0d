"""How commands write to the terminal, and how they read ``key=value``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console(stderr: bool = False) -> Console:
    """Where a command writes. What models and users wrote is never read as markup or emoji names."""
    import rich.console

    class Console(rich.console.Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def plain(text: str) -> str:
    """``text`` without control characters, with which a reply could steer the terminal."""
    return _CONTROL.sub("\ufffd", text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table with one row a line of ``rows``; long cells wrap."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(str(cell))) for cell in row))
    console().print(table)


def check_output(option: str, path: Path | None) -> None:
    """Raises :class:`UserError` unless a file can be written to ``path``, which ``option`` names."""
    if path is None:
        return
    try:
        folder, there, is_folder = path.absolute().parent, path.exists(), path.is_dir()
        (folder / f".{path.name}").exists()  # a name that is too long
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}; choose another name") from error
    if is_folder or not path.name:
        raise UserError(f"{option}: {path} is a folder; name a file")
    if not folder.is_dir():
        raise UserError(f"{option} {path}: there is no folder {path.parent}")
    if not os.access(path if there else folder, os.W_OK):
        raise UserError(f"{option} {path}: no permission to write it")


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
