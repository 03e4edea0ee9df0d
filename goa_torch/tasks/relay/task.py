"""The task ``relay``: nested expressions whose layers belong to different domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import UserError, unknown
from ...randomness import stream
from ...types import Question
from .families import DOMAINS, LEAVES, family_set
from .generator import SPLITS, Drawn, draw, has_held_out_leaf, has_held_out_order, partial_texts, split_of
from .reader import RelayReader

#: What questions look like in each regime. What makes a regime is its pool: see ``models/relay``.
REGIMES: dict[str, dict] = {
    "chain": {"depth": (1, 2, 3, 4)},
    "redundant": {"depth": (1, 2, 3)},
    "null": {"depth": (1,)},
    "harm": {"depth": (1, 2), "innermost": "under"},
    "adversarial": {"depth": (1, 2, 3)},
}
#: Held-out questions: never trained on.
VARIANTS = ("leaves", "orders", "deeper", "families")
SPLIT_NAMES = {"train": "controller_train", **{name: name for name in SPLITS}}
_DEFAULT_LIMIT = 400
_CHUNK = 4096
_PATIENCE = 40
_MOST = 1_000_000


@dataclass(frozen=True)
class RelaySpec:
    """Which questions.

    Attributes:
        regime: ``chain``, ``redundant``, ``null``, ``harm`` or ``adversarial``; sets ``depth`` and, for harm, the
            family whose layer is innermost (the one that the pool's majority gets wrong).
        depth: layers, 1..6, or a list of them, which take turns; by default the regime's.
        domains: which domains occur.
        families: ``primary``; ``second``: the second generator; or ``hidden``: the primary functions, whose names say
            nothing about their domains. The shipped agents were taught the primary ones.
        variant: ``None`` or a held-out variant: ``leaves`` (numbers never seen at a leaf), ``orders`` (orders of three
            domains never seen; depth 3 at least), ``deeper`` (depth 7 and 8), ``families`` (one layer from the other
            set of families).
    """

    regime: str = "chain"
    depth: int | tuple[int, ...] | None = None
    domains: tuple[str, ...] = DOMAINS
    families: str = "primary"
    variant: str | None = None

    def __post_init__(self) -> None:
        if self.regime not in REGIMES:
            raise unknown("regime", self.regime, REGIMES, "relay")
        if self.variant is not None and self.variant not in VARIANTS:
            raise unknown("variant", self.variant, VARIANTS, "relay")
        family_set(self.families)
        object.__setattr__(self, "domains", tuple(self.domains))
        for domain in self.domains:
            if domain not in DOMAINS:
                raise unknown("domain", domain, DOMAINS, "relay")
        if len(set(self.domains)) != len(self.domains) or not self.domains:
            raise UserError("relay: domains must be a list of different domains, at least one")
        object.__setattr__(self, "depth", self._depths())
        if max(self.depths) > 1 and len(self.domains) < 2:
            raise UserError("relay: neighbouring layers never share a domain, so depth 2 and more needs two domains")
        if self.innermost is not None and (self.families != "primary" or "law" not in self.domains):
            raise UserError(f"relay: regime {self.regime} needs the primary families and the domain law")

    def _depths(self) -> tuple[int, ...]:
        shallowest, deepest = {"deeper": (7, 8), "orders": (3, 6)}.get(self.variant or "", (1, 6))
        default = [d for d in REGIMES[self.regime]["depth"] if shallowest <= d <= deepest] or [shallowest, deepest]
        asked = default if self.depth is None else self.depth
        given = list(asked) if isinstance(asked, Sequence) else [asked]
        if not given or any(isinstance(d, bool) or not isinstance(d, int) or not shallowest <= d <= deepest
                            for d in given):
            where = f" in variant {self.variant!r}" if self.variant else ""
            raise UserError(f"relay: depth must be whole numbers from {shallowest} to {deepest}{where}, "
                            f"not {self.depth!r}")
        if self.regime == "null" and given != [1]:
            raise UserError("relay: in regime null one agent suffices, so depth is 1")
        return tuple(dict.fromkeys(given))

    @property
    def depths(self) -> tuple[int, ...]:
        """The depths that take turns."""
        return self.depth  # type: ignore[return-value]

    @property
    def innermost(self) -> str | None:
        """Family of the innermost layer, if the regime fixes it."""
        return REGIMES[self.regime].get("innermost")


def load_relay(split: str = "test", limit: int | None = None, seed: int = 0, regime: str = "chain",
               depth: int | Sequence[int] | None = None, domains: Sequence[str] = DOMAINS, families: str = "primary",
               variant: str | None = None) -> list[Question]:
    """Relay questions; the same arguments give the same questions in every process, and a smaller limit a prefix.

    Args:
        split: ``agent_train``, ``controller_train`` (also called ``train``), ``validation`` or ``test``. A question is
            in one split whatever the seed.
        limit: how many, 400 by default; depths take turns.
        seed: which ones.
        regime, depth, domains, families, variant: see :class:`RelaySpec`.

    Raises:
        UserError: for a setting that is unknown or does not go with the others, or if there are fewer such questions.
    """
    deep = tuple(depth) if isinstance(depth, Sequence) else depth
    spec = RelaySpec(regime, deep, tuple(domains), families, variant)
    if split not in SPLIT_NAMES:
        raise unknown("split", split, SPLIT_NAMES, "relay")
    split = SPLIT_NAMES[split]
    if variant is not None and split.endswith("train"):
        raise UserError(f"relay: variant {variant!r} is held out and has no split {split!r}; use validation or test")
    limit = _DEFAULT_LIMIT if limit is None else limit
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UserError(f"relay: limit must be a whole number from 1 to {_MOST}, not {limit!r}: there is no end to "
                        "generated questions")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(f"relay: seed must be a whole number, 0 or more, not {seed!r}")
    turns = [len(range(i, limit, len(spec.depths))) for i in range(len(spec.depths))]
    by_depth = [_questions(spec, split, seed, d, n) for d, n in zip(spec.depths, turns)]
    return [by_depth[i % len(by_depth)][i // len(by_depth)] for i in range(limit)]


def sample(spec: RelaySpec, split: str, seed: int, depth: int, count: int) -> Drawn:
    """The first ``count`` different questions of one depth, as arrays."""
    name = stream("relay", split, seed, depth, spec.families, spec.variant or "", spec.innermost or "", *spec.domains)
    families = family_set(spec.families)
    kept: list[Drawn] = []
    codes = np.zeros(0, dtype=np.uint64)
    first, barren = 0, 0
    while len(codes) < count and barren < _PATIENCE:
        drawn = draw(name, first, _CHUNK, depth, families, spec.domains, spec.innermost, spec.variant == "families")
        first += _CHUNK
        leaf, order = has_held_out_leaf(drawn), has_held_out_order(drawn)
        drawn = drawn[(split_of(drawn.code) == list(SPLITS).index(split)) & (leaf == (spec.variant == "leaves"))
                      & (order == (spec.variant == "orders"))]
        _, unique = np.unique(drawn.code, return_index=True)
        fresh = np.sort(unique[~np.isin(drawn.code[unique], codes)])
        barren = 0 if len(fresh) else barren + 1
        kept.append(drawn[fresh])
        codes = np.concatenate([codes, kept[-1].code])
    if len(codes) < count:
        raise UserError(f"relay: there are only {len(codes)} different questions of depth {depth} in split {split!r} "
                        f"with these settings, not {count}; lower limit or add depths")
    joined = Drawn(*(np.concatenate([getattr(part, field) for part in kept]) for field in Drawn.__slots__))
    return joined[np.arange(count)]


def _questions(spec: RelaySpec, split: str, seed: int, depth: int, count: int) -> list[Question]:
    if not count:
        return []
    drawn = sample(spec, split, seed, depth, count)
    families, reader = family_set(spec.families), RelayReader()
    padded, _ = families.parameters
    questions = []
    rows = zip(drawn.domain.tolist(), drawn.family.tolist(), padded[drawn.family, drawn.place].tolist(),
               drawn.leaf.tolist(), drawn.value.tolist(), drawn.code.tolist())
    for domain, family, parameter, leaf, value, code in rows:
        partial = partial_texts(families, family, parameter, leaf, value)
        metadata = {"depth": depth, "domains": [DOMAINS[d] for d in domain], "partial_results": partial,
                    "families": [families.families[f].name if f >= 0 else LEAVES[leaf].name for f in family],
                    "regime": spec.regime, "variant": spec.variant}
        questions.append(Question(f"{code:014x}", partial[0], partial[-1], reader, "relay", f"depth {depth}", (), split,
                                  metadata))
    return questions
