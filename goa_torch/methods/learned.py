"""Debate over a learned topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.speaking import WEIGHTINGS
from ..topology.learned import controller_class
from ..topology.learned.checkpoint import load_topology, topology_facts
from ..topology.learned.edge_logits import EdgeLogits
from ..topology.learned.turns import is_staged
from .base import check_choice, check_count, check_number
from .debate import Debate, method_name

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..topology.learned.base import LearnedTopology


class Learned(Debate):
    r"""Each round, every agent hears the k peers whose edges have the largest learned logits
    (:class:`~goa_torch.topology.learned.base.LearnedTopology`); majority at the end. At most n x rounds calls.

    Args:
        checkpoint: folder of a learned topology (``goa train``; its folder ``best``); without it the topology is
            untrained: what training has gained is the difference.
        controller: of an untrained topology: ``edge_logits``, ``edge_gnn`` or ``reliability``.
        k: peers of each receiver; ``None`` for no limit.
        threshold: least probability of an edge that is kept.
        weights: ``ones``, or ``soft``: edges weigh what they did in training.
        weighting: how weights reach the receiver; by default ``none`` for weights of one, ``attention_receiver`` for
            soft ones.
        rounds: answers of each agent, the independent first one included.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        controller_seed: of an untrained topology's weights.
        stop: a rule that ends a question earlier, such as ``stable:2``.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, controller: str = "edge_gnn", k: int | None = 2,
                 threshold: float = 0.0, weights: str = "ones", weighting: str | None = None, rounds: int = 4,
                 n: int | None = None, agent: str | None = None, controller_seed: int = 0,
                 stop: str | None = None) -> None:
        kind = method_name(self)
        if k is not None:
            check_count(kind, "k", k)
        check_number(kind, "threshold", threshold, 0, 1)
        check_choice(kind, "weights", weights, ("ones", "soft"))
        check_choice(kind, "weighting", weighting, (None, *WEIGHTINGS))
        deployed = {"k": k, "threshold": threshold, "weights": weights}
        if checkpoint is not None:
            connect = load_for(kind, checkpoint, agents_of(pool, n, agent), **deployed)
            controller = topology_facts(checkpoint)["controller"]
        else:
            connect = controller_class(controller).for_agents(agents_of(pool, n, agent), controller_seed, **deployed)
        if is_staged(connect):
            raise UserError(f"{kind}: in {checkpoint or controller} agents speak in turn; run it with the method "
                            f"{controller}")
        how = weighting or ("attention_receiver" if weights == "soft" else "none")
        super().__init__(pool, connect, n, agent, rounds, stop, passing=AgentConv(how))


def load_for(method: str, checkpoint: str, agents: Sequence[str], **deployed: Any) -> LearnedTopology:
    """A saved topology, for agents of these names.

    Raises:
        UserError: if there is none, or it belongs to other agents.
    """
    known = topology_facts(checkpoint)
    kind = controller_class(known["controller"])
    if issubclass(kind, EdgeLogits) and sorted(known["agents"]) != sorted(agents):
        raise UserError(f"{method}: {checkpoint} holds edge logits of the agents {', '.join(known['agents'])}, but "
                        f"{', '.join(agents)} take part; train them for this pool")
    return load_topology(checkpoint, **deployed)


def agents_of(pool: Pool, n: int | None, agent: str | None) -> list[str]:
    """Names of those who take part, one for each instance."""
    return [each.name for each in pool.agents] if n is None else [agent or pool.meta.name] * n
