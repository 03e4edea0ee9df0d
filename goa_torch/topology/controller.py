"""A controller as a connect-module, and its checkpoints: weights in safetensors, everything else in JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..config import Place, typed
from ..errors import UserError
from ..paths import digest_of
from .gating import GateConfig, Gated, gate, speaking
from .observation import ObservationConfig, observe
from .policies import PolicyConfig, WeightPolicy

if TYPE_CHECKING:
    from ..state import State
    from ..types import Topology

WEIGHTS_FILE, FACTS_FILE, FORMAT = "controller.safetensors", "controller.json", 1


class Controller(nn.Module):
    r"""A trained policy decides who is called again and what it reads (RUMAD, arXiv 2602.23864),

    .. math:: W = \sigma(\mu_\theta(x)), \quad (\text{edges}, \text{called}) = \mathrm{gate}(W).

    The policy is used without chance. A question in which nobody is called is finished: the state would be the same in
    the next round, and so would the policy.
    """

    def __init__(self, policy: WeightPolicy, gate_config: GateConfig | None = None) -> None:
        super().__init__()
        self.policy = policy
        self.gate = gate_config or GateConfig()

    def decide(self, state: State) -> tuple[torch.Tensor, Gated]:
        """The weights [B, N, N], ``[receiver, sender]``, and what the gate makes of them."""
        x, here = observe(state, self.policy.observation)
        with torch.no_grad():
            distribution = self.policy(x, here)
            weights = distribution.weights(distribution.mean)
        return weights, gate(weights, here, speaking(state, here.size(1)), self.gate)

    def forward(self, state: State, round: int) -> Topology | None:
        weights, gated = self.decide(state)
        for question in (~state.done).nonzero().flatten().tolist():
            n = len(state.nodes_of(question))
            shown = [[float(f"{value:.4f}") for value in row[:n]] for row in weights[question, :n].tolist()]
            state.log(question, "controller", round=round, weights=shown,
                      called=gated.called[question, :n].nonzero().flatten().tolist())
        state.done = state.done | gated.silent
        return None if bool(state.done.all()) else gated.topology(state.batch)

    def save(self, folder: str | Path, **facts: Any) -> Path:
        """Writes the controller to ``folder``; ``facts`` (how it was trained) are kept beside what it takes to load."""
        return save_controller(folder, self.policy, self.gate, **facts)

    @classmethod
    def load(cls, folder: str | Path) -> Controller:
        """The controller in ``folder``.

        Raises:
            UserError: if there is none, or it is damaged.
        """
        policy, gate_config, _ = load_controller(folder)
        return cls(policy, gate_config)


def fingerprint(folder: str | Path) -> str:
    """A name for what a checkpoint holds: two controllers of equal fingerprint decide alike."""
    return digest_of(Path(folder) / name for name in (FACTS_FILE, WEIGHTS_FILE))


def save_controller(folder: str | Path, policy: WeightPolicy, gate_config: GateConfig, **facts: Any) -> Path:
    """See :meth:`Controller.save`."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in policy.state_dict().items()}
    save_file(tensors, folder / WEIGHTS_FILE)
    described = {"format": FORMAT, **policy.facts(), "gate": asdict(gate_config), **facts}
    (folder / FACTS_FILE).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return folder


def load_controller(folder: str | Path) -> tuple[WeightPolicy, GateConfig, dict[str, Any]]:
    """The policy, the gate and the facts in ``folder``. Reads data, never code.

    Raises:
        UserError: if there is no controller, or it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    path = folder / FACTS_FILE
    if not path.is_file() or not (folder / WEIGHTS_FILE).is_file():
        raise UserError(f"{folder} holds no controller ({FACTS_FILE} and {WEIGHTS_FILE}); goa train makes one")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        version = facts.get("format")
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path}: not a controller's description; train it again") from error
    if version != FORMAT:
        raise UserError(f"{path}: format {version!r} is not {FORMAT}; train it again with this version")
    parts = {name: typed(cls, facts.get(name), Place(path) / name)
             for name, cls in (("policy", PolicyConfig), ("observation", ObservationConfig), ("gate", GateConfig))}
    agents = facts.get("agents")
    if isinstance(agents, bool) or not isinstance(agents, int) or agents < 1:
        raise UserError(f"{path}, agents: must be a whole number of at least 1, not {agents!r}")
    policy = WeightPolicy(parts["policy"], parts["observation"], agents)
    try:
        policy.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError) as error:
        line = str(error).splitlines()[0]
        raise UserError(f"{folder / WEIGHTS_FILE}: does not fit its description ({line}); train it again") from error
    return policy.eval(), parts["gate"], facts
