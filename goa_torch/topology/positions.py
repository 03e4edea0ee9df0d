"""Where a node stands in its graph, for topologies that have positions; vectorised over a whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from .. import randomness
from ..types import Topology

if TYPE_CHECKING:
    from ..state import State


@dataclass(frozen=True, slots=True)
class Positions:
    """The places of n nodes in a batch of graphs.

    Attributes:
        position: [n] place of each node in its graph, 0 .. size - 1.
        size: [n] number of nodes of its graph.
        start: [n] first node of its graph.
        node_at: [n] node that stands at ``start + position``.
    """

    position: Tensor
    size: Tensor
    start: Tensor
    node_at: Tensor

    @classmethod
    def of(cls, batch: Tensor, agent: Tensor | None = None, instance: Tensor | None = None) -> Positions:
        """Places of the nodes of ``batch`` [n] (ascending) by (listing of the agent, instance); without ``agent`` by
        node number, which is the order of (agent name, instance) and does not depend on the listing."""
        n = batch.numel()
        sizes = torch.bincount(batch) if n else batch.new_zeros(1)
        start = (sizes.cumsum(0) - sizes)[batch]
        node_at = torch.arange(n)
        for key in (instance, agent) if agent is not None else ():
            node_at = node_at[torch.argsort(key[node_at], stable=True)]
        if agent is not None:
            node_at = node_at[torch.argsort(batch[node_at], stable=True)]
        position = torch.empty(n, dtype=torch.long)
        position[node_at] = torch.arange(n) - start[node_at]
        return cls(position, sizes[batch], start, node_at)

    @classmethod
    def by_listing(cls, state: State) -> Positions:
        """Places as the pool lists the agents: a ring of copies or of listed agents."""
        return cls.of(state.batch, state.agent, state.instance)

    @classmethod
    def by_name(cls, state: State) -> Positions:
        """Places that no permutation of the listing changes: for draws."""
        return cls.of(state.batch)


def peers_topology(places: Positions, peers: Tensor, heard: Tensor | None = None) -> Topology:
    """Weight 1 from every peer to the node that hears it.

    Args:
        places: places of the n nodes.
        peers: [n, k] positions of the peers of each node within its graph.
        heard: [n, k] bool, entries that count; all by default.
    """
    peers = torch.minimum(peers, (places.size - 1)[:, None])  # entries that do not count may point anywhere
    sender = places.node_at[places.start[:, None] + peers]
    receiver = torch.arange(peers.size(0))[:, None].expand_as(sender)
    edge_index = torch.stack([sender.flatten(), receiver.flatten()])
    if heard is not None:
        edge_index = edge_index[:, heard.flatten()]
    return Topology(edge_index, torch.ones(edge_index.size(1)))


def lots(state: State, purpose: str, round: int, counter: Tensor, nodes: slice | Tensor = slice(None)) -> Tensor:
    """A number in [0, 1) for each entry of ``counter`` [n, ...], from the stream (seed, question, purpose, round) of
    each of the n ``nodes``."""
    names = [randomness.stream(state.recorder.seed, question.task, question.id, "topology", purpose, round)
             for question in state.questions]
    batch = state.batch[nodes].view(-1, *[1] * (counter.dim() - 1)).numpy()
    return torch.from_numpy(randomness.uniforms(np.array(names, dtype=np.uint64)[batch], counter.numpy()))
