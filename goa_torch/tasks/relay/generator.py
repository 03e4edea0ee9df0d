"""Draws Relay questions, thousands at a time, each from named randomness.

Candidate number c of a stream is made of the stream's c-th block of uniforms, so a question depends on nothing but its
name. Splits are a hash of the question itself: whoever draws it, with whatever seed, finds it in the same split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...randomness import stream, uniforms
from .families import DOMAINS, LEAVES, MODULUS, FamilySet

#: Share of all questions in each split.
SPLITS = {"agent_train": 0.6, "controller_train": 0.1, "validation": 0.1, "test": 0.2}
#: Numbers that stand at the leaf in the held-out variant ``leaves`` alone.
HELD_OUT_LEAVES = (4, 13, 27, 38, 42, 59, 61, 76, 85, 90)
_OWN_LEAF = 0.5


@dataclass(frozen=True, slots=True)
class Drawn:
    """m candidates of one depth.

    Attributes:
        domain: [m, depth] number of each layer's domain, innermost first.
        family: [m, depth] number of its family, -1 for a leaf that is read.
        place: [m, depth] place of its parameter among the family's.
        leaf: [m] number of the way the leaf is written, -1 for a literal.
        value: [m, depth + 1] what has been worked out after 0..depth layers.
        code: [m] hash of the question, below 2**53.
    """

    domain: np.ndarray
    family: np.ndarray
    place: np.ndarray
    leaf: np.ndarray
    value: np.ndarray
    code: np.ndarray

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: np.ndarray) -> Drawn:
        return Drawn(*(getattr(self, name)[rows] for name in self.__slots__))


def draw(name: int, first: int, count: int, depth: int, families: FamilySet, domains: tuple[str, ...] = DOMAINS,
         innermost: str | None = None, foreign: bool = False) -> Drawn:
    """Candidates ``first .. first + count - 1`` of the stream ``name``.

    Domains are uniform among those that differ from the layer inside; families, parameters and leaves are uniform.

    Args:
        depth: layers.
        domains: which may occur (at least two if ``depth`` is more than 1).
        innermost: family of the innermost layer; drawn if ``None``.
        foreign: one layer, drawn, comes from the other set of families.
    """
    columns = 4 + 3 * depth
    counter = np.arange(first, first + count, dtype=np.uint64)[:, None] * np.uint64(columns)
    u = uniforms([name], counter + np.arange(columns, dtype=np.uint64))  # [m, columns]
    available = np.array([DOMAINS.index(d) for d in domains])
    place = np.empty((count, depth), dtype=np.int64)  # of the domain, among the available ones
    start = None if innermost is None else families.families[families.number(innermost)]
    place[:, 0] = u[:, 4] * len(domains) if start is None else domains.index(start.domain)
    for layer in range(1, depth):
        other = (u[:, 4 + 3 * layer] * (len(domains) - 1)).astype(np.int64)
        place[:, layer] = other + (other >= place[:, layer - 1])
    domain = available[place]

    source = np.zeros((count, depth), dtype=np.int64)
    if foreign:
        source[np.arange(count), (u[:, 3] * depth).astype(np.int64)] = 1
    number = (u[:, 5::3] * families.counts[source, domain]).astype(np.int64)
    family = families.choices[source, domain, number]
    leaf = np.full(count, -1)
    if innermost is not None:
        family[:, 0] = families.number(innermost)
    elif families.leaves:
        for kind, shape in enumerate(LEAVES):
            mine = (domain[:, 0] == DOMAINS.index(shape.domain)) & (u[:, 0] < _OWN_LEAF) & (source[:, 0] == 0)
            leaf[mine] = kind
    names = [f.name for f in families.families]
    if "from" in names:
        # "(47-8)" is written alike by `sub` and `from`; the innermost layer is `sub`, so that text and question agree
        family[(family[:, 0] == names.index("from")) & (leaf < 0), 0] = names.index("sub")
    padded, counts = families.parameters
    parameter = (u[:, 6::3] * counts[family]).astype(np.int64)

    sizes = np.where(leaf >= 0, np.array([shape.size for shape in LEAVES])[leaf], MODULUS)
    value = np.empty((count, depth + 1), dtype=np.int64)
    value[:, 0] = u[:, 1] * sizes
    for layer in range(depth):
        value[:, layer + 1] = families.table[family[:, layer], parameter[:, layer], value[:, layer]]
    value[:, 1] = np.where(leaf >= 0, value[:, 0], value[:, 1])
    for layer in range(1, depth):  # a leaf that is read shifts what follows
        value[:, layer + 1] = families.table[family[:, layer], parameter[:, layer], value[:, layer]]
    family[leaf >= 0, 0] = -1
    parameter[leaf >= 0, 0] = 0
    return Drawn(domain, family, parameter, leaf, value, _hash(leaf, value[:, 0], family, parameter, families, padded))


def partial_texts(families: FamilySet, family: Sequence[int], parameter: Sequence[int], leaf: int,
                  value: Sequence[int]) -> list[str]:
    """What one question reads after 0..depth layers were evaluated. The arguments are a row of :class:`Drawn`, with
    parameters instead of their places."""
    texts = []
    for done in range(len(family) + 1):
        text = LEAVES[leaf].write(value[0]) if leaf >= 0 and done == 0 else str(value[done])
        for f, k in zip(family[done:], parameter[done:]):
            text = families.families[f].write(text, k) if f >= 0 else text
        texts.append(text)
    return texts


def _hash(leaf: np.ndarray, value: np.ndarray, family: np.ndarray, place: np.ndarray, families: FamilySet,
          padded: np.ndarray) -> np.ndarray:
    """[m] A number below 2**53 that depends on the question alone, not on the set or the order of families."""
    def fold(code: np.ndarray, part: np.ndarray) -> np.ndarray:
        return (uniforms(code, part) * 2.0**53).astype(np.uint64)

    kinds = np.array([shape.code for shape in LEAVES] + [0], dtype=np.uint64)  # -1 finds the last: a literal
    code = fold(np.full(len(value), stream("relay question"), dtype=np.uint64), kinds[leaf] + value.astype(np.uint64))
    for layer in range(family.shape[1]):
        number = family[:, layer]
        part = families.codes[number] + padded[number, place[:, layer]].astype(np.uint64)
        code = np.where(number >= 0, fold(code, part), code)
    return code


def split_of(code: np.ndarray) -> np.ndarray:
    """[m] Number of the split (in the order of :data:`SPLITS`) each question belongs to."""
    share = uniforms(code, stream("relay split") >> 8)
    return np.searchsorted(np.cumsum(list(SPLITS.values()))[:-1], share, side="right")


def has_held_out_leaf(drawn: Drawn) -> np.ndarray:
    """[m] Whether the number at the leaf is one of :data:`HELD_OUT_LEAVES`."""
    return np.isin(drawn.value[:, 0], HELD_OUT_LEAVES)


def has_held_out_order(drawn: Drawn) -> np.ndarray:
    """[m] Whether three neighbouring layers are in one of the held-out orders of domains (a tenth of all)."""
    d = drawn.domain
    held = np.zeros(len(drawn), dtype=bool)
    for layer in range(d.shape[1] - 2):
        held |= held_out_orders()[d[:, layer], d[:, layer + 1], d[:, layer + 2]]
    return held


@lru_cache
def held_out_orders() -> np.ndarray:
    """[6, 6, 6] bool: orders of three neighbouring domains, inner first, that occur in the variant ``orders`` alone."""
    return np.array([[[stream("relay order", a, b, c) % 10 == 0 for c in DOMAINS] for b in DOMAINS] for a in DOMAINS])

