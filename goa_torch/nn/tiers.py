"""Hearing in tiers: how loud a message is, is said in one of three words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types import Reply
from .agent_conv import AgentConv

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State
    from .speaking import Receiver


class TierConv(AgentConv):
    r"""Message passing in which the words for a message go by its weight itself, not by its share of what is heard
    (RUMAD, arXiv 2602.23864: critical, reference and background messages).

    With the weights of :class:`goa_torch.topology.gating.Gate` a critical message is called high, a reference message
    moderate and a background message low, whatever else the receiver hears:

    .. math:: R'_j = v_j \left( Q, R_j, \bigoplus_{i : w_{ij} > 0} \mathrm{tier}(w_{ij})\, R_i \right).

    Templates that show no relevance still show critical messages first.
    """

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        for receiver in receivers:
            receiver.shares = dict(receiver.heard)
        return super().say(state, receivers, prompts)
