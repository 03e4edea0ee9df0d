"""Layers of agent graphs. Loaded when used: readers need no torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "EdgeBias": "attention", "edge_weighted": "attention", "enable_edge_weights": "attention",
    "message_bias": "attention", "SoftAgentConv": "soft_agent_conv",
    "AgentConv": "agent_conv", "first_answers": "agent_conv", "Scoring": "scoring",
    "relevance_from_scores": "scoring", "RankedMessagePassing": "inbox", "Readout": "readout",
    "MaxReadout": "readout", "MeanReadout": "readout", "VoteReadout": "readout", "LastReadout": "readout",
    "read_scores": "reading", "read_indices": "reading",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
