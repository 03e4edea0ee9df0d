"""Reads programs out of replies, and grades them by running their tests in the sandbox."""

from __future__ import annotations

import ast
import json
import re
import warnings
from dataclasses import dataclass
from functools import lru_cache

from .text import spoken

#: Longer programs are no answers.
LONGEST = 20_000
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
#: Lines that may stand above a function and belong to it.
_ABOVE = re.compile(r"import |from \w|@|(?:async )?def |class |[ \t)\]}]|\w+\s*(?::[^=]+)?=|#|$")
_MOST_CUTS = 50
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LASTING = (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Try)


@dataclass(frozen=True)
class CodeReader:
    """A Python function, graded by its tests.

    An answer is a program that defines ``entry_point`` (:func:`read_code`). The gold answer is ``test`` itself: an
    answer equals it when it passes it, in :func:`goa_torch.sandbox.run_tests`. Two answers, as they are compared in
    votes, are equal when they are the same program; nothing is run for that.

    Attributes:
        prompt: source that ends in the signature and docstring of the function (what the question shows).
        entry_point: the function's name.
        test: source that defines ``check(candidate)``.
    """

    prompt: str
    entry_point: str
    test: str
    instruction: str = "End with the whole function, imports included, in one ```python block."

    def read(self, text: str) -> str | None:
        return read_code(text, self.entry_point, self.prompt)

    def equal(self, gold: str, answer: str) -> bool:
        if gold != self.test:
            return gold == answer
        return _passes(self.prompt, answer, self.test, self.entry_point)


@lru_cache(maxsize=16384)
def _passes(prompt: str, program: str, test: str, entry_point: str) -> bool:
    from ..sandbox import run_tests

    return run_tests(prompt, program, test, entry_point).passed


def read_code(text: str, entry_point: str, prompt: str = "") -> str | None:
    """The program of a reply that defines ``entry_point``; ``None`` if there is none.

    Lines of fences divide a reply into parts, whether they come in pairs or not. In order: the last part in which the
    function is defined, from the imports and helpers right above it on; the first part that continues ``prompt``, as
    models that only complete text do, up to the first line that does not belong to the body. Prose after the code is
    cut off. A reply in JSON has its program under ``answer``.

    Of the program stay imports, functions, classes and, before the function, assignments: as usual in grading chat
    models, examples of use are not part of the answer. Comments and docstrings go, too, so that the same program has
    one spelling.
    """
    text = spoken(text)
    if len(text) > LONGEST * 4:
        return None
    parts = _FENCE.split(_from_json(text).replace("\r\n", "\n").replace("\t", "    "))
    defines = re.compile(rf"^(?:async )?def {re.escape(entry_point)}\b", re.MULTILINE)
    for part in reversed(parts):
        for found in reversed(list(defines.finditer(part))):
            for source in (part, _from_definition(part, found.start())):
                if program := _program(_parsed(source), entry_point):
                    return program
    for part in parts:
        body = _body(part)
        if not defines.search(part) and body and (program := _program(_parsed(prompt + body), entry_point)):
            return program
    return None


def _from_json(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return text
    try:
        said = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    answer = said.get("answer") if isinstance(said, dict) else None
    return answer if isinstance(answer, str) else text


def _from_definition(text: str, start: int) -> str:
    """``text`` from the imports, helpers and decorators that stand right above the definition at ``start``."""
    lines = text[:start].split("\n")[:-1]
    while lines and _ABOVE.match(lines[-1]):
        lines.pop()
    return text[len("\n".join(lines)) :].lstrip("\n")


def _body(text: str) -> str:
    """What continues a function: the lines up to the first that is not indented."""
    lines = text.lstrip("\n").split("\n")
    end = next((n for n, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return "\n".join(lines[:end])


def _parsed(source: str) -> ast.Module | None:
    """The syntax tree of ``source``, or of the lines before the one that is no Python; ``None`` if none is left."""
    for _ in range(_MOST_CUTS):
        if not source.strip() or len(source) > LONGEST:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # strange escapes in somebody else's strings
                return ast.parse(source)
        except SyntaxError as error:
            lines = source.split("\n")
            last = min(error.lineno or 1, len(lines))
            source = "\n".join(lines[: last - 1])
        except (ValueError, RecursionError, MemoryError):  # null bytes; nested too deeply
            return None
    return None


def _program(tree: ast.Module | None, entry_point: str) -> str | None:
    """The program in its one spelling, if it defines the function."""
    places = [place for place, node in enumerate(tree.body if tree else [])
              if isinstance(node, _FUNCTIONS) and node.name == entry_point]
    if tree is None or not places or not _does_something(tree.body[places[-1]]):
        return None
    tree.body = [node for place, node in enumerate(tree.body)
                 if isinstance(node, (*_LASTING, *(_ASSIGNMENTS if place < places[-1] else ())))]
    try:
        for node in ast.walk(tree):
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        return ast.unparse(tree)
    except (RecursionError, ValueError):
        return None


def _does_something(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether there is more to it than a docstring: a signature alone is a question, not an answer."""
    return not all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body)
