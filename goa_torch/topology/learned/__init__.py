"""Connect-modules with parameters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ...errors import unknown

if TYPE_CHECKING:
    from .base import LearnedTopology

#: Learned topologies by name.
CONTROLLERS = {
    "edge_logits": "edge_logits:EdgeLogits", "edge_gnn": "edge_gnn:EdgeGNN", "reliability": "reliability:Reliability",
    "gptswarm": "staged:Swarm", "agentprune": "staged:Pruned", "agentdropout": "agentdropout:Dropout",
    "gdesigner": "gdesigner:GDesigner",
}


def controller_class(name: str) -> type[LearnedTopology]:
    """The class of a learned topology; loads torch."""
    if name not in CONTROLLERS:
        raise unknown("controller", name, CONTROLLERS)
    module, _, attribute = CONTROLLERS[name].partition(":")
    return getattr(import_module(f".{module}", __name__), attribute)
