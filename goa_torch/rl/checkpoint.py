"""Where a training stands, in one file that is replaced in one go: tensors and JSON, never pickled code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from .ppo import PPO

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def save_training(path: Path, ppo: PPO, facts: dict[str, Any]) -> None:
    """Writes weights, Adam's moments and ``facts`` (JSON-able)."""
    from safetensors.torch import save_file

    tensors = {f"policy/{name}": value for name, value in ppo.policy.state_dict().items()}
    for name, parameter in ppo.policy.named_parameters():
        for moment, value in ppo.optimizer.state.get(parameter, {}).items():
            tensors[f"{moment}/{name}"] = value
    tensors = {name: value.detach().contiguous().clone() for name, value in tensors.items()}
    unfinished = path.with_suffix(".tmp")
    save_file(tensors, unfinished, metadata={"facts": json.dumps({**facts, "ppo_updates": ppo.updates})})
    os.replace(unfinished, path)


def load_training(path: Path, ppo: PPO) -> dict[str, Any]:
    """Puts weights and moments back and returns the facts.

    Raises:
        UserError: if the file is damaged or belongs to another policy.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        ppo.policy.load_state_dict({name.removeprefix("policy/"): value for name, value in tensors.items()
                                    if name.startswith("policy/")})
        ppo.updates = facts.pop("ppo_updates")
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: not where this training stood ({line}); delete it to begin anew") from error
    for name, parameter in ppo.policy.named_parameters():
        moments = {moment: tensors[f"{moment}/{name}"] for moment in _MOMENTS if f"{moment}/{name}" in tensors}
        if moments:
            ppo.optimizer.state[parameter] = {key: value.to(torch.float32) for key, value in moments.items()}
    return facts
