"""Peers drawn anew each round ("Do We Need Complex Topology Control?", arXiv 2609.27150)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .positions import Positions, lots, peers_topology

if TYPE_CHECKING:
    from ..state import State
    from ..types import Topology


def without_replacement(uniform: Tensor, among: Tensor) -> Tensor:
    """``k`` different whole numbers of ``0 .. among - 1`` for each row, uniformly: the j-th lot picks one of the
    numbers that are left.

    Args:
        uniform: [n, k] lots in [0, 1).
        among: [n], each at least k.
    """
    n, k = uniform.shape
    chosen = uniform.new_zeros(n, 0, dtype=torch.long)
    for draw in range(k):
        left = among - draw
        number = torch.minimum((uniform[:, draw] * left).long(), left - 1)
        for taken in chosen.sort(dim=1).values.unbind(1):  # skip over those that are gone, smallest first
            number = number + (number >= taken)
        chosen = torch.cat([chosen, number[:, None]], dim=1)
    return chosen


class RandomPeers(nn.Module):
    r"""Each round, each receiver hears k different peers, drawn uniformly without replacement from the N - 1 others,

    .. math:: \mathcal{N}_t(j) \sim \mathrm{Uniform} \{ S \subseteq V \setminus \{j\} : |S| = k \},

    with no memory between rounds and free out-degree ("Random-NoDup"). The draw belongs to (seed, question, round).
    In graphs of at most k agents everybody hears everybody.

    Args:
        k: in-degree.
        redraw: draw anew each round; otherwise one draw serves all rounds.
    """

    def __init__(self, k: int = 2, redraw: bool = True) -> None:
        super().__init__()
        self.k = k
        self.redraw = redraw

    def forward(self, state: State, round: int) -> Topology:
        places = Positions.by_name(state)
        k = min(self.k, int(places.size.max()) - 1) if places.size.numel() else 0
        return peers_topology(places, *self.draw(state, places, k, round if self.redraw else 1))

    def draw(self, state: State, places: Positions, k: int, round: int) -> tuple[Tensor, Tensor]:
        """Positions of the peers [n, k], and which of them count (in smaller graphs than the largest not all do)."""
        counter = places.position[:, None] * self.k + torch.arange(k)
        others = (places.size - 1)[:, None]
        among = torch.maximum(places.size - 1, torch.tensor(k))
        number = without_replacement(lots(state, "random_peers", round, counter), among)
        heard = (torch.arange(k) < others) if bool((others < k).any()) else None
        if heard is not None:  # a graph of at most k nodes: all others, in order
            number = torch.where(others <= k, torch.arange(k), number)
        return number + (number >= places.position[:, None]), heard

    def extra_repr(self) -> str:
        return f"k={self.k}, redraw={self.redraw}"


class SmallWorld(nn.Module):
    r"""Local peers that stay and distant ones drawn anew each round ("small-world-inspired"): of k peers, the
    :math:`\lceil k/2 \rceil` nearest on the ring are kept, the others are drawn uniformly without replacement from
    outside the ring neighbourhood of k.

    Readings (?): the local peer that is kept is the predecessor i - 1; the distant one lies outside both ring
    neighbours. Where fewer are outside than are to be drawn, all of them are taken, and ring neighbours besides.

    Args:
        k: in-degree.
        redraw: draw anew each round; otherwise one draw serves all rounds (a fixed small world).
    """

    def __init__(self, k: int = 2, redraw: bool = True) -> None:
        super().__init__()
        self.k = k
        self.redraw = redraw

    def forward(self, state: State, round: int) -> Topology:
        places = Positions.by_listing(state)
        largest = int(places.size.max()) if places.size.numel() else 1
        k = min(self.k, largest - 1)
        near = (k + 1) // 2
        offsets = ring_offsets(k)
        here, size = places.position[:, None], places.size[:, None]
        peers = (here + offsets) % size
        far, outside = k - near, places.size - 1 - k  # how many are neither the receiver nor a ring neighbour
        counter = here * self.k + torch.arange(far)
        number = without_replacement(lots(state, "small_world", round if self.redraw else 1, counter),
                                     outside.clamp_min(far))
        ahead = int((offsets > 0).sum())
        distant = (here + ahead + 1 + number) % size
        beyond = number - outside[:, None]  # nobody is left outside: a ring neighbour that is not near yet
        spare = peers.gather(1, (near + beyond).clamp(0, max(k - 1, 0))) if far else distant
        peers[:, near:] = torch.where(beyond < 0, distant, spare)
        small = size - 1 < k
        return peers_topology(places, peers, torch.arange(k) < size - 1 if bool(small.any()) else None)

    def extra_repr(self) -> str:
        return f"k={self.k}, redraw={self.redraw}"


def ring_offsets(k: int) -> Tensor:
    """The k nearest places on a ring: -1, 1, -2, 2, ..."""
    step = torch.arange(k)
    return (step // 2 + 1) * (1 - 2 * ((step + 1) % 2))
