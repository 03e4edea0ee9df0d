"""Named randomness: every draw is a counter-based hash of what it is for.

There is no generator whose state depends on what was drawn before. A *stream* is a 64-bit name made from (seed,
question, agent instance, round, purpose, draw); number ``counter`` of a stream is a hash of both. So a question gets
the same draws alone or in a batch, on one process or eight, whatever ran before it.
"""

from __future__ import annotations

import hashlib

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream(*parts: str | int) -> int:
    """A 63-bit name for ``parts``: equal parts, equal stream (across processes and machines)."""
    # A separator inside a part is doubled, so that no two lists of parts make one text.
    text = "\x1f".join(type(part).__name__[0] + str(part).replace("\x1f", "\x1f\x1f") for part in parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele et al. 2014): a bijection of 64-bit words that passes BigCrush."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(streams: np.ndarray | list[int], counter: np.ndarray | int) -> np.ndarray:
    """Numbers in [0, 1) with 53 random bits, one for each pair of ``streams`` and ``counter`` (broadcast), float64."""
    with np.errstate(over="ignore"):
        names = _mix(np.asarray(streams, dtype=np.uint64))
        words = _mix(names + (np.asarray(counter, dtype=np.uint64) + np.uint64(1)) * _GOLDEN)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
