"""Reinforcement learning of who hears whom: debates as environments, PPO, and ``goa train`` for controllers.

Names are looked up when they are first used. ``DebateEnv`` and its vectorised form are registered with Gymnasium as
:data:`ENV_ID` by :func:`register_envs`, which importing either does.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

ENV_ID = "goa_torch/Debate-v0"

_HOMES = {
    "DebateEnv": "env", "DebateVectorEnv": "vector", "Debates": "debates", "Episode": "debates", "Step": "debates",
    "DebateConfig": "settings", "RewardConfig": "rewards", "PPO": "ppo", "PPOConfig": "ppo", "Rollout": "rollout",
    "roll_out": "rollout", "Trainer": "trainer", "TrainingConfig": "training", "train_controller": "training",
    "register_envs": "registration", "evaluate": "rollout",
}
__all__ = ["ENV_ID", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
