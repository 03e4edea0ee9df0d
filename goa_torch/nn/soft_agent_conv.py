"""Talking through weighted attention: edges that have a gradient."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from ..agents.base import GRADIENT
from ..agents.edge_attention import log_weight
from ..agents.stacked import stackable
from ..errors import UserError
from ..types import Chat, Reply, Topology, Usage
from .agent_conv import AgentConv, Own, audible
from .attention import mean_normalised
from .edges import check_topology, merge_duplicates
from .inbox import Inbox
from .speaking import ATTENTION, Weighting, fitted, render
from .teacher_forcing import Lesson, teacher_forced_together

if TYPE_CHECKING:
    from ..agents.base import Agent
    from ..agents.hf import HFModel
    from ..agents.prompts import PromptSet
    from ..state import State


@dataclass(slots=True)
class Likelihood:
    """How likely replies are.

    Attributes:
        value: [R] log p(target | prompt), differentiable in the topology's weights.
        nodes: [R] whose reply each would be.
        usage: a call for each; its ``completion_tokens`` are those of the targets, its ``seconds`` the forward pass.
    """

    value: Tensor
    nodes: list[int]
    usage: Usage


class SoftAgentConv(AgentConv):
    r"""An :class:`~goa_torch.nn.agent_conv.AgentConv` whose edges act inside the receiver's attention,

    .. math:: R'_j = v_j \left( Q, R_j, \{ (R_i, \log w_{ij}) : i \in \mathcal{N}(j) \} \right),

    by :mod:`edge-weighted attention <goa_torch.nn.attention>`. Messages stand in the order of names whatever their
    weights, so that a reply's likelihood is a smooth function of the weights: :meth:`log_likelihood` has its gradient
    with the agents frozen. Weight 1 on all edges is plain concatenation.

    Args:
        scope: ``all`` tokens hear the weights, or only the ``receiver``'s own, after the messages: then what precedes
            them is prefilled once for all weights, and training differentiates the rest alone.
        messages: ``sequential``, or ``parallel``: read independently of each other at shared positions (scope
            ``receiver``); a message's keys and values are then the same for every receiver of one model.
        normalise: ``mean`` divides a receiver's weights by their mean (a lone neighbour then always weighs 1).
        own: which own reply the receiver sees, as in ``AgentConv``.
        template: the prompt template receivers answer.

    Shapes:
        - **state**: :class:`~goa_torch.state.State` with n nodes
        - **topology**: ``edge_index`` [2, E], ``edge_weight`` [E] >= 0
        - **output**: n replies, also written to ``state.replies``
    """

    def __init__(self, scope: Literal["all", "receiver"] = "all",
                 messages: Literal["sequential", "parallel"] = "sequential", normalise: Literal["mean"] | None = None,
                 own: Own = "latest", template: str = "pass") -> None:
        if scope not in ("all", "receiver") or messages not in ("sequential", "parallel"):
            raise UserError(f"SoftAgentConv: scope is 'all' or 'receiver' and messages 'sequential' or 'parallel', not "
                            f"{scope!r} and {messages!r}")
        if messages == "parallel" and scope == "all":
            raise UserError("SoftAgentConv: parallel messages do not hear each other's weights; say scope='receiver'")
        if normalise not in (None, "mean"):
            raise UserError(f"SoftAgentConv: normalise is None or 'mean', not {normalise!r}")
        wanted = {"scope": scope, **({"parallel": True} if messages == "parallel" else {})}
        weighting: Weighting = next(name for name, how in ATTENTION.items() if how == wanted)  # type: ignore[assignment]
        super().__init__(weighting, own, template=template)
        self.normalise = normalise

    def forward(self, state: State, topology: Topology, own: Own | None = None,
                prompts: PromptSet | None = None) -> list[Reply]:
        check_topology(topology, state.batch)
        return super().forward(state, self._normalised(topology), own, prompts)

    def log_likelihood(self, state: State, topology: Topology, targets: Sequence[str | None], own: Own | None = None,
                       prompts: PromptSet | None = None) -> Likelihood:
        """log p(target | what the node hears) of every node that has a target and is active, in nats, the end of the
        reply included. Nothing is generated and the state stays as it is. An edge of weight 0 stays in the prompt,
        unheard, and has a gradient.

        Args:
            targets: for each node the reply whose likelihood is wanted, or ``None``.
        """
        started = time.perf_counter()
        check_topology(topology, state.batch)
        if len(targets) != state.num_nodes:
            raise ValueError(f"{len(targets)} targets for {state.num_nodes} nodes; give one (or None) for each")
        heard = merge_duplicates(audible(state, self._normalised(topology)), state.num_nodes)
        inboxes: Inbox = [[] for _ in range(state.num_nodes)]
        edges: list[dict[int, int]] = [{} for _ in range(state.num_nodes)]
        for number, (sender, receiver) in enumerate(heard.edge_index.t().tolist()):
            inboxes[receiver].append((sender, 1.0))
            edges[receiver][sender] = number
        wanted = torch.tensor([target is not None for target in targets], dtype=torch.bool)
        active = wanted if topology.active is None else wanted & topology.active
        lanes: dict[int, tuple[Agent, list[Lesson], list[int]]] = {}
        for receiver in self.receivers(state, inboxes, active, own or self.own):
            messages = fitted(state, receiver, "pass", lambda r=receiver: render(
                state, r, self.template, self.weighting, self.label_ones, prompts))
            lesson = Lesson(Chat(messages), targets[receiver.node] or "", edges[receiver.node])
            lane = lanes.setdefault(id(receiver.agent.model), (receiver.agent, [], []))
            lane[1].append(lesson)
            lane[2].append(receiver.node)
        table = torch.cat([log_weight(heard.edge_weight.float()), torch.zeros(1, device=heard.edge_weight.device)])
        values, nodes, prompt, target = [table.new_zeros(0)], [], 0, 0
        for agent, _, _ in lanes.values():
            agent.model.need(GRADIENT, type(self).__name__)
        for models in _together([agent.model for agent, _, _ in lanes.values()]):
            mine = [lanes[id(model)] for model in models]
            told, read, written = teacher_forced_together(models, [lessons for _, lessons, _ in mine], table)
            values += [value.to(table.device) for value in told]
            nodes += [node for _, _, theirs in mine for node in theirs]
            prompt, target = prompt + read, target + written
        return Likelihood(torch.cat(values), nodes,
                          Usage(len(nodes), prompt, target, seconds=time.perf_counter() - started))

    def _normalised(self, topology: Topology) -> Topology:
        if self.normalise is None or not topology.num_edges:
            return topology
        weight = mean_normalised(topology.edge_weight, topology.edge_index[1])
        return Topology(topology.edge_index, weight, topology.active, topology.log_prob)

    def __repr__(self) -> str:
        how = ATTENTION[self.weighting]
        messages = "parallel" if how.get("parallel") else "sequential"
        normalise = "" if self.normalise is None else f", normalise={self.normalise!r}"
        return f"{type(self).__name__}(scope={how['scope']!r}, messages={messages!r}, own={self.own!r}{normalise})"


def _together(models: list[HFModel]) -> list[list[HFModel]]:
    """Models in groups that run as one."""
    groups = stackable(models)
    stacked = {id(model) for group in groups for model in group}
    return [*groups, *([model] for model in models if id(model) not in stacked)]
