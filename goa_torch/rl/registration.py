"""Gymnasium's registry."""

from __future__ import annotations

from . import ENV_ID


def register_envs() -> None:
    """Makes :data:`goa_torch.rl.ENV_ID` known to ``gymnasium.make`` and ``gymnasium.make_vec``; twice does no harm."""
    import gymnasium

    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point="goa_torch.rl.env:DebateEnv",
                           vector_entry_point="goa_torch.rl.vector:DebateVectorEnv")
