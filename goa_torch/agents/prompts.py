"""Prompt templates: Jinja files, one for each purpose, in a folder that a pool names.

What peers and users wrote enters a template as a placeholder and is put in after rendering, as a span of its own: it
can neither be read as template code nor as a control token, and models know which tokens are whose message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..types import Message, Purpose, Span

_MARK = re.compile("\ue000(\\d+)\ue001")
PURPOSES: tuple[Purpose, ...] = ("select", "answer", "score", "pass", "readout")


class PromptSet:
    """The templates of one folder: ``<purpose>.jinja`` for the user's turn, ``system.jinja`` (optional) for the
    system's; a system template that renders to nothing gives no system message.

    Args:
        folder: where the templates lie. A purpose whose file is missing is an error when it is first needed.

    Templates see ``agent`` (name, card, system), ``question`` (text, instruction, choices, category), ``own`` (the
    receiver's latest reply or ``None``) and ``messages`` (each with ``text``, ``weight``, ``relevance`` in words or
    ``None``, ``domain``, ``number``), plus what a purpose adds: ``cards`` and ``k`` for *select*.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise UserError(f"prompts: no folder {self.folder}; name a folder of .jinja templates")

    def __repr__(self) -> str:
        return f"PromptSet({self.folder.name})"

    def has(self, template: str) -> bool:
        """Whether there is a template of that name."""
        return (self.folder / f"{template}.jinja").is_file()

    def sibling(self, name: str) -> PromptSet:
        """The set ``name`` that lies beside this one."""
        if not (self.folder.parent / name).is_dir():
            raise UserError(f"prompts: no folder {name!r} beside {self.folder}; add one, or choose another mode")
        return PromptSet(self.folder.parent / name)

    def render(self, purpose: Purpose | str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """The messages of a prompt. Values that are :class:`Span` (at any depth of lists and dicts) become spans."""
        spans: list[Span] = []
        marked = _mark(variables, spans)
        messages = []
        for role, name in (("system", "system"), ("user", purpose)):
            template = _template(self.folder, name)
            if template is None:
                if role == "user":
                    raise UserError(f"prompts: {self.folder} has no {name}.jinja")
                continue
            parts = _split(template.render(marked).strip(), spans)
            if parts:
                messages.append(Message(role, parts))  # type: ignore[arg-type]
        return tuple(messages)


def _mark(value: Any, spans: list[Span]) -> Any:
    """``value`` with every span replaced by a placeholder, which is appended to ``spans``."""
    if isinstance(value, Span):
        spans.append(value)
        return f"\ue000{len(spans) - 1}\ue001"
    if isinstance(value, Mapping):
        return {key: _mark(item, spans) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mark(item, spans) for item in value]
    if isinstance(value, str):  # cards and roles: a private-use character there must not look like a placeholder
        return value.replace("\ue000", "").replace("\ue001", "")
    return value


def _split(text: str, spans: list[Span]) -> tuple[Span, ...]:
    pieces = _MARK.split(text)  # plain text at even places, span numbers at odd ones
    parts = [spans[int(piece)] if place % 2 else Span(piece) for place, piece in enumerate(pieces)]
    return tuple(part for part in parts if part.text)


@lru_cache(maxsize=256)
def _template(folder: Path, name: str) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    path = folder / f"{name}.jinja"
    if not path.is_file():
        return None
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                                                loader=jinja2.FileSystemLoader(folder))
    try:
        return environment.get_template(f"{name}.jinja")
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"prompts: {path}, line {error.lineno}: {error.message}") from error
