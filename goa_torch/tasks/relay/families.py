"""Function families of Relay: bijections of an integer 0..99, each of them one domain's business."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from ...errors import unknown
from ...randomness import stream

#: The six domains, as in the pool of Graph-of-Agents (arXiv 2604.17148).
DOMAINS = ("biology", "code", "finance", "general", "law", "math")
#: What travels is an integer modulo this.
MODULUS = 100

_ONES = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
         "seventeen eighteen nineteen").split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
#: Every word that occurs in a number.
NUMBER_WORDS = (*_ONES, *_TENS)


def in_words(n: int) -> str:
    """``n`` (0..99) in English words: ``forty-two``."""
    if n < 20:
        return _ONES[n]
    return _TENS[n // 10 - 2] + (f"-{_ONES[n % 10]}" if n % 10 else "")


def as_codon(n: int) -> str:
    """``n`` (0..63) as three bases: digits to base 4, A C G T."""
    return "codon<{}{}{}>".format(*("ACGT"[n // place % 4] for place in (16, 4, 1)))


@dataclass(frozen=True)
class Family:
    """Functions of one kind.

    Attributes:
        domain: whose business it is.
        name: unique among all families.
        template: how an application is written; ``{x}`` is what it is applied to, ``{k}`` the parameter.
        rule: ``(x, k) -> y``, elementwise on integer arrays, a bijection of 0..99 for every k.
        parameters: what k may be.
    """

    domain: str
    name: str
    template: str
    rule: Callable[[np.ndarray, int], np.ndarray]
    parameters: tuple[int, ...] = (0,)

    @property
    def code(self) -> int:
        """A stable number for hashes of questions."""
        return stream("relay family", self.name) >> 16

    def write(self, x: str, k: int) -> str:
        return self.template.replace("{k}", str(k)).replace("{x}", x)


@dataclass(frozen=True)
class Leaf:
    """A way to write a number that only its domain can read; reading it is a layer."""

    domain: str
    name: str
    write: Callable[[int], str]
    size: int = MODULUS

    @property
    def code(self) -> int:
        return stream("relay leaf", self.name) >> 16


def _digits(rule: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray, int], np.ndarray]:
    """A rule that treats both decimal digits alike."""
    return lambda x, k: rule(x // 10) * 10 + rule(x % 10)


def _modulo(rule: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[np.ndarray, int], np.ndarray]:
    return lambda x, k: rule(x, k) % MODULUS


_ANY = tuple(range(MODULUS))
LEAVES = (Leaf("general", "words", in_words), Leaf("biology", "codon", as_codon, 64))

PRIMARY = (
    Family("math", "add", "({x}+{k})", _modulo(lambda x, k: x + k), _ANY),
    Family("math", "sub", "({x}-{k})", _modulo(lambda x, k: x - k), _ANY),
    Family("math", "from", "({k}-{x})", _modulo(lambda x, k: k - x), _ANY),
    Family("code", "rev", "rev[{x}]", lambda x, k: x % 10 * 10 + x // 10),
    Family("code", "inc", "inc[{x}]", _digits(lambda d: (d + 1) % 10)),
    Family("code", "neg", "neg[{x}]", _digits(lambda d: 9 - d)),
    Family("finance", "cents", "cents({k}*{x})", _modulo(lambda x, k: k * x), (3, 7, 9, 11, 13)),
    Family("finance", "change", "change({x})", _modulo(lambda x, k: -x)),
    # law: under 50 gains 50, else loses 50; odd loses 1, even gains 1; below k is mirrored, the rest stays
    Family("law", "half", "half({x})", lambda x, k: np.where(x < 50, x + 50, x - 50)),
    Family("law", "odd", "odd({x})", lambda x, k: np.where(x % 2 == 1, x - 1, x + 1)),
    Family("law", "under", "under({k},{x})", lambda x, k: np.where(x < k, k - 1 - x, x), tuple(range(20, 81))),
    Family("biology", "pair", "pair<{x}>", _digits(lambda d: (d + 5) % 10)),
    Family("biology", "flip", "flip<{x}>", _digits(lambda d: d ^ 1)),
    Family("general", "next", "next {x}", _modulo(lambda x, k: x + 1)),
    Family("general", "dozen", "dozen {x}", _modulo(lambda x, k: x + 12)),
)

#: Other families of the same domains: unseen functions for agents trained on the first ones, and the second
#: generator on which conclusions are checked.
SECOND = (
    Family("math", "times", "({x}*{k})", _modulo(lambda x, k: x * k), (3, 7, 9, 11)),
    Family("math", "mirror", "({k}+{k}-{x})", _modulo(lambda x, k: 2 * k - x), _ANY),
    Family("code", "dec", "dec[{x}]", _digits(lambda d: (d - 1) % 10)),
    Family("code", "low", "low[{x}]", lambda x, k: x // 10 * 10 + (x % 10 + 3) % 10),
    Family("code", "high", "high[{x}]", lambda x, k: (x // 10 + 3) % 10 * 10 + x % 10),
    Family("finance", "tax", "tax({k}*{x})", _modulo(lambda x, k: k * x), (17, 19, 21)),
    Family("finance", "bond", "bond({x})", _modulo(lambda x, k: x + 25)),
    # law: even gains 2, odd stays; from k on is mirrored, the rest stays
    Family("law", "even", "even({x})", lambda x, k: np.where(x % 2 == 0, (x + 2) % MODULUS, x)),
    Family("law", "above", "above({k},{x})", lambda x, k: np.where(x >= k, 99 + k - x, x), tuple(range(20, 81))),
    Family("biology", "turn", "turn<{x}>", _digits(lambda d: 3 * d % 10)),
    Family("biology", "strand", "strand<{x}>", lambda x, k: (x % 10 + 5) % 10 * 10 + (x // 10 + 5) % 10),
    Family("general", "before", "before {x}", _modulo(lambda x, k: x - 1)),
    Family("general", "gross", "gross {x}", _modulo(lambda x, k: x + 44)),
)

def _hidden(number: int, family: Family) -> Family:
    """The same function under a name that says nothing about its domain; neighbours in number are of other domains."""
    name = f"f{7 * number % len(PRIMARY)}"
    return replace(family, name=name, template=name + ("({k},{x})" if "{k}" in family.template else "({x})"))


#: The functions of the first set, domains hidden from the surface: ``f5(f12(63,47))``. Who is needed has to be learned.
HIDDEN = tuple(_hidden(number, family) for number, family in enumerate(PRIMARY))


class FamilySet:
    """Families by number, with tables: everything a vectorised generator looks up.

    Attributes:
        families: family of each number.
        choices: [2, D, F'] numbers of the families of each domain, from the set itself (row 0) and from the other one
            (row 1), padded; ``counts`` [2, D] says how many.
        leaves: whether numbers may be written in a domain's own way.
    """

    def __init__(self, own: tuple[Family, ...], other: tuple[Family, ...], leaves: bool = True) -> None:
        self.families = (*own, *other)
        self.leaves = leaves
        ids = [[[i for i, f in enumerate(self.families) if f.domain == d and (i < len(own)) == first]
                for d in DOMAINS] for first in (True, False)]
        self.counts = np.array([[len(row) for row in part] for part in ids])
        width = int(self.counts.max())
        self.choices = np.array([[row + [0] * (width - len(row)) for row in part] for part in ids])

    @cached_property
    def parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """[F, P] parameters of each family, padded, and [F] how many there are."""
        counts = np.array([len(f.parameters) for f in self.families])
        padded = np.zeros((len(self.families), int(counts.max())), dtype=np.int64)
        for row, family in zip(padded, self.families):
            row[: len(family.parameters)] = family.parameters
        return padded, counts

    @cached_property
    def table(self) -> np.ndarray:
        """[F, P, 100] value of each function (by place of its parameter) at each x."""
        x = np.arange(MODULUS)
        padded, counts = self.parameters
        table = np.zeros((*padded.shape, MODULUS), dtype=np.int64)
        for f, family in enumerate(self.families):
            for p in range(counts[f]):
                table[f, p] = family.rule(x, int(padded[f, p]))
        return table

    @cached_property
    def codes(self) -> np.ndarray:
        return np.array([f.code for f in self.families], dtype=np.uint64)

    def own(self, domain: str) -> list[int]:
        """Numbers of a domain's families, without those of the other set."""
        place = DOMAINS.index(domain)
        return self.choices[0, place, : self.counts[0, place]].tolist()

    def number(self, name: str) -> int:
        names = [f.name for f in self.families]
        if name not in names:
            raise unknown("family", name, names, "relay")
        return names.index(name)


@lru_cache
def family_set(name: str) -> FamilySet:
    """``primary``, ``second``, or ``hidden``: the primary ones, domains hidden from the surface."""
    sets = {"primary": (PRIMARY, SECOND), "second": (SECOND, PRIMARY), "hidden": (HIDDEN, SECOND, False)}
    if name not in sets:
        raise unknown("set of families", name, sets, "relay")
    return FamilySet(*sets[name])
