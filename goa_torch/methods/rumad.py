"""Debate under a controller trained with reinforcement learning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError
from ..nn.tiers import TierConv
from ..topology.controller import Controller, fingerprint, load_controller
from ..topology.gating import GateConfig
from ..topology.observation import ObservationConfig
from ..topology.policies import PolicyConfig, WeightPolicy
from .base import check_count
from .debate import Debate, method_name, size
from .deployment import refuse_beside_checkpoint

if TYPE_CHECKING:
    from ..agents.pool import Pool


class RUMAD(Debate):
    r"""A controller weighs every ordered pair of agents each round, from who agrees with whom (arXiv 2602.23864):
    an agent answers again only if others weigh at least as much as it does itself, and reads only messages of weight
    above .10, in three tiers; majority at the end. At most n x rounds calls.

    Readings (?): similarity and agreement count half each; replies are compared by TF-IDF unless the controller was
    trained with embeddings; a round in which nobody is called ends the question.

    Args:
        checkpoint: folder of a trained controller (``goa train``), or the name of one in the shipped ``controllers``;
            without it the controller is untrained: what training has gained is the difference.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        rounds: answers of each agent at most, the independent first one included; as trained, 6 if untrained.
        architecture: of an untrained controller: ``mlp`` (by default) or ``graph``.
        controller_seed: of an untrained controller's weights.
        stop: a rule that ends a question earlier, beside the controller's silence.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, n: int | None = None, agent: str | None = None,
                 rounds: int | None = None, architecture: str | None = None, controller_seed: int | None = None,
                 stop: str | None = None) -> None:
        kind = method_name(self)
        learned = None
        if rounds is not None:
            check_count(kind, "rounds", rounds)
        refuse_beside_checkpoint(kind, checkpoint, architecture=architecture, controller_seed=controller_seed)
        if checkpoint is None:
            architecture, controller_seed, rounds = architecture or "mlp", controller_seed or 0, rounds or 6
            policy = WeightPolicy(PolicyConfig(architecture), ObservationConfig(rounds=rounds), size(pool, n),
                                  controller_seed)
            gate = GateConfig()
        else:
            folder = find_controller(checkpoint)
            policy, gate, _ = load_controller(folder)
            learned = fingerprint(folder)
        if policy.config.architecture == "mlp" and policy.agents != size(pool, n):
            raise UserError(f"{kind}: controller {checkpoint!r} was trained for {policy.agents} agents, but "
                            f"{size(pool, n)} take part; change n, or train one with architecture 'graph'")
        policy.observation.check(pool)
        rounds = rounds or policy.observation.rounds
        super().__init__(pool, Controller(policy, gate), n, agent, rounds, stop, passing=TierConv("words"))
        self.config.update(rounds=rounds, architecture=architecture, controller_seed=controller_seed)
        #: What the checkpoint holds, so that a run is not resumed with another controller under the same name.
        self.fingerprint = learned


def find_controller(name: str) -> Path:
    """The folder of a controller: a path, or a name in the shipped ``controllers``."""
    from ..paths import models_folder

    if not isinstance(name, str) or not name:
        raise UserError(f"rumad: checkpoint = {name!r} must be a folder or the name of a shipped controller")
    path, shipped = Path(name), models_folder() / "controllers"
    if path.is_dir():
        return path
    if len(path.parts) == 1 and (shipped / name).is_dir():
        return shipped / name
    names = sorted(p.name for p in shipped.iterdir() if p.is_dir()) if shipped.is_dir() else []
    raise UserError(f"rumad: no controller {name!r}; name a folder that goa train has written"
                    + (f", or one of {', '.join(names)}" if names else ""))
