"""Layers of agents, the weaker ones of which drop out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from ..nn.edges import complete_edges, plain
from ..nn.reading import read_indices
from ..nn.speaking import Receiver, speak

if TYPE_CHECKING:
    from ..state import State
    from ..types import Topology


class RankedLayers(nn.Module):
    """Every agent that still takes part hears all that do, itself included (DyLAN, arXiv 2310.02170). From the third
    layer on (round 2) the meta-LLM first ranks their replies and keeps the best ``keep``; one call a question, none if
    there are no more than that.

    A ranking that cannot be read keeps everybody and is counted in the trace; so does one that is not asked for, since
    the replies do not fit the meta-LLM's context. Rankings are written in text, whatever the pool's way of judging.
    """

    needs_templates = ("rank",)

    def __init__(self, keep: int = 2) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, state: State, round: int) -> Topology:
        if round >= 2:
            self.rank(state)
        edge_index = complete_edges(state.batch, self_loops=True)
        return plain(edge_index[:, state.kept[edge_index[0]] & state.kept[edge_index[1]]])

    def rank(self, state: State) -> None:
        """Drops all but the best replies of every question that goes on."""
        receivers, members = [], []
        for question in (~state.done).nonzero().flatten().tolist():
            nodes = [v for v in state.nodes_of(question) if bool(state.kept[v]) and not state.replies[v].failed]
            if len(nodes) > self.keep:
                receivers.append(Receiver(state.pool.meta, question, [(v, 1.0) for v in nodes]))
                members.append(nodes)
        replies = speak(state, receivers, "select", "order", extra=[{"k": self.keep}] * len(receivers),
                        template="rank", must_fit="all")
        state.kept = state.kept.clone()
        for receiver, nodes, reply in zip(receivers, members, replies):
            shown = [v for v, _ in receiver.heard]
            read = None if reply.failed else read_indices(reply.text, len(shown), self.keep)
            best = None if read is None or len(set(read)) < self.keep else [shown[i] for i in read]
            if best is not None:
                state.kept[torch.tensor(state.nodes_of(receiver.question))] = False
                state.kept[torch.tensor(best)] = True
            state.log(receiver.question, "rank", round=state.round, text=reply.text, unparsed=int(best is None),
                      nodes=[state.local(v) for v in best or nodes], cut=[state.local(v) for v in receiver.cut])

    def extra_repr(self) -> str:
        return f"keep={self.keep}"
