"""Learned topologies in methods: deployed as they were trained, unless a setting says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..topology.learned import controller_class
from ..topology.learned.checkpoint import fingerprint, load_topology, topology_facts
from ..topology.learned.edge_logits import EdgeLogits
from .base import check_count, check_number

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..topology.learned.base import LearnedTopology

#: In-degree without a limit.
ALL = "all"


@dataclass(frozen=True)
class Deployed:
    """A topology as a method uses it.

    Attributes:
        connect: the topology.
        controller: the name of its class.
        trained: how it was validated in training (``k``, ``threshold``, ``rounds``, ...); empty if it is untrained.
        fingerprint: of the checkpoint; ``None`` if it is untrained.
        untrained: the settings of an untrained one, defaults filled in; all ``None`` for a checkpoint.
    """

    connect: LearnedTopology
    controller: str
    trained: Mapping[str, Any]
    fingerprint: str | None
    untrained: Mapping[str, Any]

    @property
    def k(self) -> int | str:
        """The in-degree as a setting."""
        return ALL if self.connect.k is None else self.connect.k


def deploy(method: str, agents: Sequence[str], checkpoint: str | None, controller: str | None,
           given: Mapping[str, Any], published: Mapping[str, Any], untrained: Mapping[str, tuple[Any, Any]]
           ) -> Deployed:
    """The trained topology of a checkpoint, or an untrained one.

    Args:
        method: what messages call the method.
        agents: names of those who take part, one for each instance.
        checkpoint: folder of a trained topology, if there is one.
        controller: the class of an untrained topology, and the one a checkpoint must hold; ``None`` for any.
        given: how it is to be used (``k``, ``threshold``, ``weights``); what is ``None`` is as trained.
        published: the same for an untrained topology.
        untrained: settings that only an untrained topology has: what was given, and the default.

    Raises:
        UserError: if there is no such checkpoint, it belongs to other agents or another method, or a setting does not
            go with it.
    """
    asked = {key: value for key, value in given.items() if value is not None}
    if asked.get("k") == ALL:
        asked["k"] = None
    elif "k" in asked:
        if isinstance(asked["k"], str):
            raise UserError(f"{method}: k must be a whole number of at least 1, or {ALL!r}, not {asked['k']!r}")
        check_count(method, "k", asked["k"])
    if "threshold" in asked:
        check_number(method, "threshold", asked["threshold"], 0, 1)
    refuse_beside_checkpoint(method, checkpoint, **{key: value for key, (value, _) in untrained.items()})
    if checkpoint is None:
        settings = {key: default if value is None else value for key, (value, default) in untrained.items()}
        own = {key: value for key, value in settings.items() if key not in ("controller", "controller_seed")}
        name = settings.get("controller", controller)
        connect = controller_class(name).for_agents(agents, settings["controller_seed"], **own,
                                                    **{**published, **asked})
        return Deployed(connect, name, {}, None, settings)
    known = topology_facts(checkpoint)
    kind = controller_class(known["controller"])
    if controller is not None and kind is not controller_class(controller):
        raise UserError(f"{method}: {checkpoint} holds a topology of {known['controller']}; run it with the method it "
                        "was trained for")
    if issubclass(kind, EdgeLogits) and sorted(known["agents"]) != sorted(agents):
        raise UserError(f"{method}: {checkpoint} holds edge logits of the agents {', '.join(known['agents'])}, but "
                        f"{', '.join(agents)} take part; train them for this pool")
    return Deployed(load_topology(checkpoint, **asked), known["controller"], known["deployed"],
                    fingerprint(checkpoint), dict.fromkeys(untrained))


def refuse_beside_checkpoint(method: str, checkpoint: str | None, **untrained: Any) -> None:
    """Raises :class:`UserError` if a setting of untrained controllers is given with a trained one."""
    for name, value in untrained.items() if checkpoint is not None else ():
        if value is not None:
            raise UserError(f"{method}: {name} = {value!r} is a setting of untrained controllers, but checkpoint = "
                            f"{str(checkpoint)!r} holds a trained one; leave one of the two out")


def agents_of(pool: Pool, n: int | None, agent: str | None) -> list[str]:
    """Names of those who take part, one for each instance."""
    return [each.name for each in pool.agents] if n is None else [agent or pool.meta.name] * n
