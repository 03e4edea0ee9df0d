"""One agent, one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.readout import LastReadout
from ..nn.selection import Copies, TopK, shortlist_of
from .base import Method, check_count

if TYPE_CHECKING:
    from ..agents.pool import Pool


class Single(Method):
    """One agent answers: select one, connect nobody, read its reply. 1 call.

    Args:
        agent: its name; the meta-LLM by default. ``best`` is filled in by a benchmark, on validation questions.
    """

    def __init__(self, pool: Pool, agent: str | None = None) -> None:
        super().__init__(pool, Copies(agent, 1), LastReadout())
        if agent is not None:
            pool[agent]  # a name the pool does not know is an error now, not at the first question


class RoutedSingle(Method):
    """The meta-LLM picks one agent, which answers: Graph-of-Agents with k = 1 (arXiv 2604.17148). 2 calls.

    Args:
        tries: calls to the meta-LLM at most until its choice can be read.
        shortlist: the meta-LLM reads only so many cards, found by a search; all by default.
        shortlist_by: ``words`` or ``embedding`` (one more call), see :class:`~goa_torch.nn.shortlist.Shortlist`.
    """

    def __init__(self, pool: Pool, tries: int = 1, shortlist: int | None = None, shortlist_by: str = "words") -> None:
        check_count("routed_single", "tries", tries)
        few = shortlist_of("routed_single", pool, 1, shortlist, shortlist_by)
        super().__init__(pool, TopK(1, tries, judging=pool.judging, shortlist=few), LastReadout())
