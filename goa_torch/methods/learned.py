"""Debate over a learned topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UserError
from ..nn.agent_conv import AgentConv
from ..nn.speaking import WEIGHTINGS
from ..topology.learned.turns import is_staged
from .base import check_choice
from .debate import Debate, method_name
from .deployment import agents_of, deploy

if TYPE_CHECKING:
    from ..agents.pool import Pool


class Learned(Debate):
    r"""Each round, every agent hears the k peers whose edges have the largest learned logits
    (:class:`~goa_torch.topology.learned.base.LearnedTopology`); majority at the end. At most n x rounds calls.

    A trained topology is deployed as it was trained and validated, except for what is given here.

    Args:
        checkpoint: folder of a learned topology (``goa train``; its folder ``best``); without it the topology is
            untrained: what training has gained is the difference.
        controller: of an untrained topology: ``edge_gnn`` (by default), ``edge_logits`` or ``reliability``.
        k: peers of each receiver, ``all`` for no limit; as trained, 2 if untrained.
        threshold: least probability of an edge that is kept; as trained, 0 if untrained.
        weights: ``ones``, or ``soft``: edges weigh what they did in training; as trained, ``ones`` if untrained.
        weighting: how weights reach the receiver; as trained, or, if ``weights`` are given or untrained, ``none`` for
            weights of one and ``attention_receiver`` for soft ones.
        rounds: answers of each agent, the independent first one included; as trained, 4 if untrained.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        controller_seed: of an untrained topology's weights.
        stop: a rule that ends a question earlier, such as ``stable:2``.
    """

    def __init__(self, pool: Pool, checkpoint: str | None = None, controller: str | None = None,
                 k: int | str | None = None, threshold: float | None = None, weights: str | None = None,
                 weighting: str | None = None, rounds: int | None = None, n: int | None = None,
                 agent: str | None = None, controller_seed: int | None = None, stop: str | None = None) -> None:
        kind = method_name(self)
        check_choice(kind, "weights", weights, (None, "ones", "soft"))
        check_choice(kind, "weighting", weighting, (None, *WEIGHTINGS))
        used = deploy(kind, agents_of(pool, n, agent), checkpoint, None,
                      given={"k": k, "threshold": threshold, "weights": weights},
                      published={"k": 2, "threshold": 0.0, "weights": "ones"},
                      untrained={"controller": (controller, "edge_gnn"), "controller_seed": (controller_seed, 0)})
        connect, trained = used.connect, used.trained
        if is_staged(connect):
            raise UserError(f"{kind}: in {checkpoint or controller} agents speak in turn; run it with the method "
                            f"{used.controller}")
        if rounds is None:
            rounds = trained.get("rounds", 4)
        if weighting is None and weights is None:
            weighting = trained.get("weighting")
        how = weighting or ("attention_receiver" if connect.weights == "soft" else "none")
        super().__init__(pool, connect, n, agent, rounds, stop, passing=AgentConv(how))
        #: What the checkpoint holds, so that a run is not resumed with another topology under the same name.
        self.fingerprint = used.fingerprint
        self.config.update(used.untrained, k=used.k, threshold=connect.threshold, weights=connect.weights,
                           weighting=how, rounds=rounds)
