"""Learned topologies on disk: weights in safetensors, everything else in JSON; never pickled code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...errors import UserError
from ...paths import digest_of
from . import controller_class
from .base import LearnedTopology

WEIGHTS_FILE, FACTS_FILE, FORMAT = "topology.safetensors", "topology.json", 2

#: What :func:`save_topology` is told about the debate.
DEBATE = ("rounds", "weighting")


def save_topology(folder: str | Path, controller: LearnedTopology, name: str, agents: Sequence[str],
                  debate: Mapping[str, Any] | None = None, **facts: Any) -> Path:
    """Writes a learned topology and how it is deployed (:meth:`LearnedTopology.deployment`).

    Args:
        name: under which its class is known.
        agents: names of the agents it was trained with, one for each instance.
        debate: the debate it was trained for, as far as the topology does not know it: ``rounds`` and ``weighting``.
        facts: how it was trained, JSON-able.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {key: value.detach().contiguous().clone() for key, value in controller.state_dict().items()}
    unfinished = folder / f"{WEIGHTS_FILE}.tmp"
    save_file(tensors, unfinished)
    os.replace(unfinished, folder / WEIGHTS_FILE)
    told = {"format": FORMAT, "controller": name, "agents": list(agents), "settings": controller.settings(),
            "deployed": {**controller.deployment(), **(debate or {})}, "trained": facts}
    (folder / FACTS_FILE).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return folder


def topology_facts(folder: str | Path) -> dict[str, Any]:
    """What a saved topology says about itself.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    path = Path(folder) / FACTS_FILE
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"no learned topology in {folder}: {FACTS_FILE} cannot be read "
                        f"({getattr(error, 'strerror', None) or error}); goa train makes one, in its folder best/"
                        ) from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = repr(facts.get("format")) if isinstance(facts, dict) else f"of a {type(facts).__name__}"
        raise UserError(f"{path}: format {found}, not {FORMAT}; train it again with this version")
    for key, kind in (("controller", str), ("agents", list), ("settings", dict), ("deployed", dict)):
        if not isinstance(facts.get(key), kind):
            raise UserError(f"{path}: {key} must be a {kind.__name__}, not {facts.get(key)!r}; train it again")
    return facts


def fingerprint(folder: str | Path) -> str:
    """A name for what a checkpoint holds: two topologies of equal fingerprint decide alike."""
    return digest_of(Path(folder) / name for name in (FACTS_FILE, WEIGHTS_FILE))


def load_topology(folder: str | Path, **deployed: Any) -> LearnedTopology:
    """A learned topology as it was saved.

    Args:
        deployed: what is to be otherwise than in training, of ``k``, ``threshold``, ``weights`` and ``policy``.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    facts = topology_facts(folder)
    try:
        kind = controller_class(facts["controller"])
        trained = {key: value for key, value in facts["deployed"].items() if key not in DEBATE}
        controller = kind.for_agents(facts["agents"], **facts["settings"], **{**trained, **deployed})
    except TypeError as error:
        raise UserError(f"{Path(folder) / FACTS_FILE}: {error}; train it again") from error
    try:
        controller.load_state_dict(load_file(Path(folder) / WEIGHTS_FILE))
    except (OSError, SafetensorError, KeyError, RuntimeError) as error:
        line = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{Path(folder) / WEIGHTS_FILE}: not the weights of this topology ({line})") from error
    return controller.eval()


def save_progress(path: Path, controller: LearnedTopology, optimizer: torch.optim.Optimizer,
                  facts: dict[str, Any]) -> None:
    """Where a training stands, in one file that is replaced in one go."""
    from safetensors.torch import save_file

    tensors = {f"weight/{key}": value for key, value in controller.state_dict().items()}
    for name, parameter in controller.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"optimizer/{key}/{name}"] = torch.as_tensor(value)
    unfinished = path.with_suffix(".tmp")
    save_file({key: value.detach().contiguous().clone() for key, value in tensors.items()}, unfinished,
              metadata={"facts": json.dumps(facts)})
    os.replace(unfinished, path)


def load_progress(path: Path, controller: LearnedTopology, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Puts weights and the optimiser's state back and returns the facts.

    Raises:
        UserError: if the file is damaged or belongs to another training.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}
        controller.load_state_dict({key.removeprefix("weight/"): value for key, value in tensors.items()
                                    if key.startswith("weight/")})
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: not where this training stood ({line}); delete it to begin anew") from error
    for name, parameter in controller.named_parameters():
        held = {key.split("/")[1]: value for key, value in tensors.items()
                if key.startswith("optimizer/") and key.split("/", 2)[2] == name}
        if held:
            optimizer.state[parameter] = held
    return facts
