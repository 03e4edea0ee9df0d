"""Relay: questions whose answer travels through agents of different domains.

A question is a nested expression, ``rev[(47+8)]``. The expert of the innermost layer rewrites it (``rev[55]``), others
copy it, until a literal is left. What travels is an integer 0..99 and every function is a bijection of it, so nothing
is lost on the way and nothing can be guessed from the outside. A reply is an expression; only a literal is an answer.
"""

from .expression import Expression, parse
from .families import DOMAINS
from .reader import RelayReader
from .task import REGIMES, VARIANTS, RelaySpec, load_relay

__all__ = ["DOMAINS", "REGIMES", "VARIANTS", "Expression", "RelayReader", "RelaySpec", "load_relay", "parse"]
