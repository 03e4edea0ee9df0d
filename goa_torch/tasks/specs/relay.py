"""Relay: generated questions in which topology matters, see :mod:`goa_torch.tasks.relay`."""

from __future__ import annotations

from ..relay.task import RelaySpec, load_relay
from ..task import Task

TASK = Task("relay", "nested expressions whose layers belong to different domains", lambda row: None, answers="text",
            splits={name: name for name in ("test", "validation", "train", "agent_train", "controller_train")},
            generate=load_relay, settings=RelaySpec)
