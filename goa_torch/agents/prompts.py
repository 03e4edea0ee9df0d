"""Prompt templates: Jinja files, one for each purpose, in a folder that a pool names.

What peers and users wrote enters a template as a placeholder and is put in after rendering, as a span of its own: it
can neither be read as template code nor as a control token, and models know which tokens are whose message.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..types import Message, Purpose, Span

_FRESH = 0.1
_SEEN: dict[Path, tuple[int | None, float]] = {}
_MARK = re.compile("\ue000(\\d+)\ue001")
PURPOSES: tuple[Purpose, ...] = ("select", "answer", "score", "pass", "readout")


class PromptSet:
    """The templates of one folder: ``<purpose>.jinja`` for the user's turn, ``system.jinja`` (optional) for the
    system's; a system template that renders to nothing gives no system message.

    Args:
        folder: where the templates lie. A purpose whose file is missing is an error when it is first needed.

    Templates see ``agent`` (name, card, system), ``question`` (text, instruction, choices, category), ``own`` (the
    receiver's latest reply or ``None``) and ``messages`` (each with ``text``, ``weight``, ``relevance`` in words or
    ``None``, ``domain``, ``number``), plus what a purpose adds: ``cards``, the ``names`` of
    their agents and ``k`` for *select*.
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

    def check(self, template: str, pool: Mapping[str, Any] | None = None) -> None:
        """Raises :class:`UserError` unless the template is there and renders. Tried are all variables any prompt has.

        Args:
            pool: the pool's own variables.
        """
        for name in ("system", template):  # what is checked is what is on the disk now
            _SEEN.pop(self.folder / f"{name}.jinja", None)
        self.render(template, {**_SAMPLE, "pool": dict(pool or {})})

    def sibling(self, name: str) -> PromptSet:
        """The set ``name`` that lies beside this one."""
        if not (self.folder.parent / name).is_dir():
            raise UserError(f"prompts: no folder {name!r} beside {self.folder}; add one, or choose another mode")
        return PromptSet(self.folder.parent / name)

    def render(self, purpose: Purpose | str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        """The messages of a prompt. Values that are :class:`Span` (at any depth of lists and dicts) become spans."""
        import jinja2

        spans: list[Span] = []
        marked = _mark(variables, spans)
        messages = []
        for role, name in (("system", "system"), ("user", purpose)):
            template = _template(self.folder, name, _modified(self.folder / f"{name}.jinja"))
            if template is None:
                if role == "user":
                    raise UserError(f"prompts: {self.folder} has no {name}.jinja")
                continue
            try:
                text = template.render(marked)
            except jinja2.TemplateError as error:  # a name that is not there, say
                raise UserError(f"prompts: {self.folder / name}.jinja: {error.message}") from error
            parts = _split(text.strip(), spans)
            if parts:
                messages.append(Message(role, parts))  # type: ignore[arg-type]
        return tuple(messages)


def _mark(value: Any, spans: list[Span]) -> Any:
    """``value`` with every span replaced by a placeholder, which is appended to ``spans``."""
    if isinstance(value, str):  # cards and roles: a private-use character there must not look like a placeholder
        return value if value.isascii() else value.replace("\ue000", "").replace("\ue001", "")
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, Span):
        spans.append(value)
        return f"\ue000{len(spans) - 1}\ue001"
    if isinstance(value, (dict, Mapping)):  # dict first: asking an abstract class takes ten times as long
        return {key: _mark(item, spans) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mark(item, spans) for item in value]
    return value


def _split(text: str, spans: list[Span]) -> tuple[Span, ...]:
    pieces = _MARK.split(text)  # plain text at even places, span numbers at odd ones
    parts = [spans[int(piece)] if place % 2 else Span(piece) for place, piece in enumerate(pieces)]
    return tuple(part for part in parts if part.text)


def _modified(path: Path) -> int | None:
    """When a file was changed, as was known ``_FRESH`` seconds ago: every prompt asks."""
    now = time.monotonic()
    found, until = _SEEN.get(path, (None, 0.0))
    if now >= until:
        try:
            found = path.stat().st_mtime_ns
        except FileNotFoundError:
            found = None
        _SEEN[path] = found, now + _FRESH
    return found



@lru_cache(maxsize=256)
def _template(folder: Path, name: str, modified: int | None) -> Any:
    """The template as it was when it was ``modified``; ``None`` if there was none."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    path = folder / f"{name}.jinja"
    if modified is None:
        return None
    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                                                loader=jinja2.FileSystemLoader(folder))
    try:
        return environment.get_template(f"{name}.jinja")
    except jinja2.TemplateSyntaxError as error:
        raise UserError(f"prompts: {path}, line {error.lineno}: {error.message}") from error


def _message(number: int) -> dict[str, Any]:
    return {"text": Span("a reply", sender=number), "number": number, "weight": 1.0, "relevance": "high",
            "domain": "math", "agent": "math"}


#: Everything that some prompt shows, for trying templates out before the first call.
_SAMPLE: dict[str, Any] = {
    "agent": {"name": "math", "card": "domain: math", "system": "You are math.", "domain": "math"},
    "question": {"text": Span("a question"), "instruction": "End with the answer.", "category": "algebra",
                 "choices": [Span("a choice")], "task": "a task"},
    "own": Span("a reply", sender=0), "messages": [_message(1), _message(2)], "cards": ["domain: math", "domain: law"],
    "names": ["math", "law"],
    "k": 1, "n": 2, "largest": 2, "feedback": Span("feedback"), "summaries": [Span("a summary"), Span("a summary")],
    "instructions": [Span("an instruction"), None],
    "groups": [{"answer": Span("an answer"), "count": 1, "texts": [Span("a reply", sender=1)]},
               {"answer": None, "count": 1, "texts": [Span("a reply", sender=2)]}],
}
