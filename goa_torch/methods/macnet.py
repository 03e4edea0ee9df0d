"""MacNet: actors on the nodes of a directed acyclic graph, critics on its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nn.agent_conv import first_answers
from ..nn.critics import CriticConv
from ..nn.readout import MeanReadout
from ..topology.generations import Generations
from ..topology.graphs import FixedGraph
from .base import Method, check_count, check_number
from .debate import participants

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..state import State


class MacNet(Method):
    r"""Multi-agent collaboration network (Qian et al. 2024, arXiv 2406.07155): a directed acyclic graph in topological
    order. Sources answer; on every edge a critic writes an instruction about the predecessor's artefact; every other
    node reads its predecessors' artefacts with their instructions and writes its own,

    .. math:: I_{ij} = c_{ij}(Q, R_i), \quad R_j = v_j \left( Q, \bigoplus_{i \in \mathcal{N}(j)} (R_i, I_{ij}) \right).

    Only artefacts travel, not conversations. Calls: n + \|E\|, one more if there are several sinks: 11 for a chain of
    six. Depth: 1 + 2 x (generations - 1).

    Readings (?): the critic of an edge is played by the receiving agent (so never by the author of what it
    criticises); one exchange of instruction and artefact for each edge; several sinks are synthesised by the meta-LLM;
    ``layered`` has layers of the square root of n, rounded up; ``random`` keeps every node reachable.

    Args:
        graph: ``chain``, ``star``, ``tree``, ``mesh``, ``layered`` or ``random``.
        k: children of a node in ``tree``.
        density: share of all possible edges in ``random``.
        n: copies of ``agent``; ``None`` for all agents of the pool, in the order in which they are listed.
        agent: whose copies; the meta-LLM by default.
    """

    templates = ("critic", "actor")

    def __init__(self, pool: Pool, graph: str = "chain", k: int = 2, density: float = 0.4, n: int | None = 6,
                 agent: str | None = None) -> None:
        check_count("macnet", "k", k)
        check_number("macnet", "density", density, 0, 1)
        connect = Generations(FixedGraph(graph, k, density, directed=True))
        super().__init__(pool, participants("macnet", pool, n, agent), MeanReadout(), connect, CriticConv())

    def answer(self, state: State) -> None:
        first_answers(state, self.answer_prompts, (self.connect.levels(state) == 0).nonzero().flatten().tolist())
        state.kept = self.connect.sinks(state)
