"""Debate with random peers that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..topology.random_peers import RandomPeers
from .debate import Debate, check_k_peers, method_name, size

if TYPE_CHECKING:
    from ..agents.pool import Pool


class RandomFixed(Debate):
    r"""Each receiver draws k different peers once for each question and hears them in every round: the control of
    :class:`~goa_torch.methods.random_nodup.RandomNoDup` that tells what drawing anew is worth,

    .. math:: \mathcal{N}(j) \sim \mathrm{Uniform} \{ S \subseteq V \setminus \{j\} : |S| = k \}.

    An agent is heard by nobody at all with probability :math:`(1 - k / (N - 1))^{N-1}`, about :math:`e^{-k}`, and stays
    unheard. n x rounds calls.

    Args:
        n: copies of ``agent``; ``None`` for all agents of the pool.
        k: peers of each receiver.
        rounds: answers of each agent, the independent first one included.
        agent: whose copies; the meta-LLM by default.
        stop: a rule that ends a question earlier, such as ``rounds:2`` or ``stable:2 | entropy:0.3``.
    """

    def __init__(self, pool: Pool, n: int | None = 8, k: int = 2, rounds: int = 14, agent: str | None = None,
                 stop: str | None = None) -> None:
        super().__init__(pool, RandomPeers(k, redraw=False), n, agent, rounds, stop)
        check_k_peers(method_name(self), k, size(pool, n))
