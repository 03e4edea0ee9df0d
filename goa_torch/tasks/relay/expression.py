"""Relay expressions: reading, writing, and evaluating them layer by layer."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .families import HIDDEN, LEAVES, PRIMARY, SECOND, Family, Leaf

#: Longest text that is read as an expression; questions of depth 8 have at most about 110 characters.
LONGEST = 400
#: Layers of the deepest questions that agents are taught.
DEEPEST = 6
_LITERAL = re.compile(r"\d{1,2}")


@dataclass(frozen=True, slots=True)
class Expression:
    """A nested expression: a leaf and the layers around it, innermost first.

    Attributes:
        value: the number at the leaf, 0..99.
        leaf: how the leaf is written; ``None`` is a literal, anything else a layer to be evaluated first.
        layers: (family, parameter) of each function, innermost first.
    """

    value: int
    leaf: Leaf | None = None
    layers: tuple[tuple[Family, int], ...] = ()

    @property
    def domains(self) -> tuple[str, ...]:
        """Domain of each layer in the order of evaluation."""
        first = (self.leaf.domain,) if self.leaf else ()
        return first + tuple(family.domain for family, _ in self.layers)

    @property
    def depth(self) -> int:
        """Layers that are left; 0 is a literal, an answer."""
        return len(self.layers) + (self.leaf is not None)

    def step(self) -> Expression:
        """The expression after its innermost layer is evaluated; a literal stays."""
        if self.leaf is not None:
            return Expression(self.value, None, self.layers)
        if not self.layers:
            return self
        (family, k), *rest = self.layers
        return Expression(int(family.rule(np.asarray(self.value), k)), None, tuple(rest))

    def partial_results(self) -> list[Expression]:
        """The expression after 0, 1, ... layers were evaluated, down to its value."""
        results = [self]
        while results[-1].depth:
            results.append(results[-1].step())
        return results

    def __str__(self) -> str:
        text = self.leaf.write(self.value) if self.leaf else str(self.value)
        for family, k in self.layers:
            text = family.write(text, k)
        return text


def parse(text: str) -> Expression | None:
    """The expression that ``text`` is, and nothing but is; ``None`` if it is none.

    ``(47-8)`` can be read in two ways of the same value; it is 8 taken from 47 (the family ``sub``).

    Example:
        >>> parse("rev[(47+8)]").domains
        ('math', 'code')
    """
    text = text.strip()
    return _parse(text) if len(text) <= LONGEST else None


def resembles(text: str) -> bool:
    """Whether ``text`` looks as if it was meant to be an expression: numbers, brackets and operators, and no words but
    those of expressions, at most misspelt.

    Example:
        >>> resembles("rev[(47+9)"), resembles("(470+9)"), resembles("What is 47 + 9?")
        (True, True, False)
    """
    words = set(re.findall(r"[^\W\d_]+", text.lower()))
    if len(text) > LONGEST or not re.search(r"[\[\](){}<>+*-]", text) or not (words or re.search(r"\d", text)):
        return False
    strange = set(re.sub(r"[\w\s\[\](){}<>+*,.=-]", "", text))
    return not strange and all(word in _vocabulary() or difflib.get_close_matches(word, _vocabulary(), 1, 0.75)
                               for word in words)


@lru_cache(maxsize=65536)
def _parse(text: str) -> Expression | None:
    if _LITERAL.fullmatch(text):
        return Expression(int(text))
    if text in _leaves():
        leaf, value = _leaves()[text]
        return Expression(value, leaf)
    for family, pattern in _patterns():
        match = pattern.fullmatch(text)
        if match is None:
            continue
        k = int(match["k"]) if "k" in pattern.groupindex else 0
        if k not in family.parameters:
            continue
        inside = _parse(match["x"])
        if inside is not None:
            return Expression(inside.value, inside.leaf, (*inside.layers, (family, k)))
    return None


@lru_cache
def _leaves() -> dict[str, tuple[Leaf, int]]:
    return {leaf.write(n): (leaf, n) for leaf in LEAVES for n in range(leaf.size)}


@lru_cache
def _vocabulary() -> list[str]:
    """Every word that an expression can hold, in small letters."""
    texts = [family.template for family in (*PRIMARY, *SECOND, *HIDDEN)] + list(_leaves())
    return sorted({word for text in texts for word in re.findall(r"[^\W\d_]+", text.lower())} - {"x", "k"})


@lru_cache
def _patterns() -> list[tuple[Family, re.Pattern[str]]]:
    patterns = []
    for family in (*PRIMARY, *SECOND, *HIDDEN):
        pattern = re.escape(family.template).replace(r"\{x\}", "(?P<x>.+)")
        pattern = pattern.replace(r"\{k\}", r"(?P<k>\d{1,2})", 1).replace(r"\{k\}", "(?P=k)")
        patterns.append((family, re.compile(pattern)))
    return patterns
