"""Replies score each other: the relevance of Graph-of-Agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import scatter

from .. import randomness
from ..agents.calls import option_probabilities
from .edges import complete_edges, plain
from .inbox import RankedMessagePassing
from .reading import read_scores
from .selection import option_labels
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State
    from ..types import Reply

Mode = Literal["paper", "released"]


def relevance_from_scores(judge: Tensor, judged: Tensor, score: Tensor, batch: Tensor, mode: Mode = "paper") -> Tensor:
    r"""S from scores on edges,

    .. math:: S_j = \sum_{i \ne j} \mathrm{score}_{i \to j}

    over the judges that parsed (``paper``: raw), or their average, normalised to sum 1 in each question
    (``released``). Differentiable in ``score``; a node that nobody scored has 0.

    Args:
        judge, judged: [E] ends of each score.
        score: [E] >= 0; a judge's scores sum to 1.
        batch: [n] question of each node.
    """
    n = batch.numel()
    if mode == "paper":
        return scatter(score, judged, dim=0, dim_size=n, reduce="sum")
    mean = scatter(score, judged, dim=0, dim_size=n, reduce="mean")
    total = scatter(mean, batch, dim=0, reduce="sum")[batch] if n else mean
    return torch.where(total > 0, mean / torch.where(total > 0, total, torch.ones_like(total)), torch.zeros_like(mean))


def sampled_pairs(state: State, judged: Tensor, pairs: int) -> Tensor:
    """``edge_index`` [2, E] (judged, judge) in which every judge reads at most ``pairs`` others of its question, and no
    reply is read more often than another by judges that are judged themselves: around a circle in an order drawn from
    the stream (seed, question), everybody judges the ``pairs`` that follow.

    Args:
        judged: [n] bool, whose replies there are to judge.
    """
    edges = []
    for question in range(state.num_graphs):
        asked = state.questions[question]
        lots = {node: randomness.uniforms([randomness.stream(
            state.recorder.seed, asked.task, asked.id, "score", state.agent_of(node).name,
            int(state.instance[node]))], 0)[0] for node in state.nodes_of(question)}
        circle = sorted(lots, key=lots.__getitem__)
        there = np.array([bool(judged[node]) for node in circle])
        replies = [node for node, has in zip(circle, there) if has]
        for judge, before in zip(circle, np.cumsum(there) - there):  # replies that come earlier on the circle
            first = int(before) + int(judged[judge])
            others = len(replies) - int(judged[judge])
            edges += [(replies[(first + step) % len(replies)], judge) for step in range(min(pairs, others))]
    return torch.tensor(sorted(edges), dtype=torch.long).reshape(-1, 2).t()


class Scoring(RankedMessagePassing):
    """Every node judges the replies of all others of its question (never its own); S, then pruning.

    Judges see the others' replies in the order of names. A judge whose numbers cannot be read is asked again up to
    ``tries`` times, then left out and counted; one that cannot read all replies, since they do not fit, is not asked
    and counted too. A lone reply gets 1, whatever its judge writes. S is rounded to nine decimals before it is compared
    with anything, so that arithmetic decides no tie. Fills ``state.relevance`` (float64) and ``state.kept``.

    Args:
        tau: relevance below which a node is dropped; ``paper`` drops S < tau, ``released`` keeps S > tau.
        mode: how numbers are read, added up and pruned.
        tries: calls to a judge at most (a likelihood is asked for once: it would be the same again).
        judging: ``text``: a judge writes its scores; ``likelihood``: they are the probabilities it gives to the
            numbers of the replies when asked which is best (template ``prefer``; one call, nothing to misread).
        pairs: how many replies a judge reads at most, of all others' (:func:`sampled_pairs`); all by default. As many
            calls, but prompts that do not grow with the number of agents. Scores still sum to 1 for each judge, so S
            has the same mean, and more spread.
    """

    #: What a judge is asked where likelihoods count.
    template = "prefer"

    def __init__(self, tau: float = 0.05, mode: Mode = "paper", tries: int = 1,
                 judging: str = "text", pairs: int | None = None) -> None:
        super().__init__()
        self.tau = tau
        self.mode = mode
        self.tries = tries
        self.judging = judging
        self.pairs = pairs

    @property
    def needs_templates(self) -> tuple[str, ...]:
        """What judges answer, and the synthesis of a question of which they leave nobody."""
        return (self.template if self.judging == "likelihood" else "score", "readout")

    def forward(self, state: State, prompts: PromptSet | None = None) -> Tensor:
        """S [n], after one batched call to all judges (and one for each further try)."""
        candidates = torch.tensor([not reply.failed for reply in state.replies], dtype=torch.bool)
        if self.pairs is None:
            edge_index = complete_edges(state.batch)
            edge_index = edge_index[:, candidates[edge_index[0]]]  # who said nothing is not judged
        else:
            edge_index = sampled_pairs(state, candidates, self.pairs)
        inboxes = self.inbox(plain(edge_index), state.order)
        cut: dict[int, list[int]] = {}
        scores = self.judge(state, inboxes, prompts, cut)
        judge, judged, values = _edges(inboxes, scores)
        state.relevance = relevance_from_scores(judge, judged, values, state.batch, self.mode).round(decimals=9)
        alone = torch.bincount(state.batch, minlength=state.num_graphs)[state.batch] == 1
        state.relevance = torch.where(alone & candidates, torch.ones_like(state.relevance), state.relevance)
        survives = state.relevance > self.tau if self.mode == "released" else state.relevance >= self.tau
        state.kept = survives & candidates
        self._log(state, inboxes, scores, cut)
        return state.relevance

    def judge(self, state: State, inboxes: list, prompts: PromptSet | None, cut: dict[int, list[int]]
              ) -> list[list[float] | None]:
        """Each node's scores of the senders in its inbox, ``None`` if they could not be read; fills ``cut`` with the
        senders whose replies did not fit a judge's context."""
        scores: list[list[float] | None] = [None] * len(inboxes)
        waiting = [node for node, heard in enumerate(inboxes) if heard]
        weighs = self.judging == "likelihood"
        for draw in range(1 if weighs else self.tries):
            receivers = [Receiver(state.agent_of(node), int(state.batch[node]), list(inboxes[node]), None, None, node,
                                  int(state.instance[node])) for node in waiting]
            extra = [{"n": len(receiver.heard)} for receiver in receivers]
            options = [option_labels(facts["n"], first=1) for facts in extra] if weighs else None
            replies = speak(state, receivers, "score", "none", prompts=prompts, draw=draw, extra=extra,
                            template=self.template if weighs else None, options=options, must_fit="all")
            again = []
            for receiver, reply in zip(receivers, replies):
                scores[receiver.node] = read = None if reply.failed else self._read(reply, len(receiver.heard))
                if receiver.cut:
                    cut[receiver.node] = receiver.cut
                elif read is None:
                    again.append(receiver.node)
            waiting = again
            if not waiting:
                break
        return scores

    def _read(self, reply: Reply, n: int) -> list[float] | None:
        """The scores of ``n`` replies; a lone one gets all there is to give."""
        if n == 1:
            return [1.0]
        if self.judging == "likelihood":
            return option_probabilities(reply)
        return read_scores(reply.text, n, self.mode == "released")

    def _log(self, state: State, inboxes: list, scores: list, cut: dict[int, list[int]]) -> None:
        for question in range(state.num_graphs):
            nodes = state.nodes_of(question)
            matrix: list[list[float | None]] = [[None] * len(nodes) for _ in nodes]
            unparsed = 0
            for node in nodes:
                given = scores[node]
                unparsed += bool(inboxes[node]) and given is None
                for (sender, _), value in zip(inboxes[node], given or []):
                    matrix[state.local(node)][state.local(sender)] = value
            state.log(question, "score", matrix=matrix, relevance=[float(state.relevance[node]) for node in nodes],
                      kept=[bool(state.kept[node]) for node in nodes], unparsed=unparsed,
                      cut=[[state.local(v), state.local(node)] for node in nodes for v in cut.get(node, [])])

    def __repr__(self) -> str:
        return f"Scoring(tau={self.tau}, mode={self.mode!r}, tries={self.tries})"


def _edges(inboxes: list, scores: list) -> tuple[Tensor, Tensor, Tensor]:
    triples = [(node, sender, value) for node, given in enumerate(scores) if given is not None
               for (sender, _), value in zip(inboxes[node], given)]
    judge = torch.tensor([t[0] for t in triples], dtype=torch.long)
    judged = torch.tensor([t[1] for t in triples], dtype=torch.long)
    return judge, judged, torch.tensor([t[2] for t in triples], dtype=torch.float64)
