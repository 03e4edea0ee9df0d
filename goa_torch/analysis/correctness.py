"""Where right answers sit in the graph, and whether being central goes with being right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import randomness
from ..errors import UserError
from ..types import Question, Result
from .graph import as_graph, mean_graph, rounds_of
from .ranking import centrality

When = Literal["first", "last"]
#: A result of a method, or a trace (of a line of ``results.jsonl``) and its question.
Answered = Result | tuple[Mapping[str, Any], Question]


@dataclass(frozen=True, slots=True)
class Correlation:
    """A correlation over the agents of many questions, with its 95% interval (bootstrap over questions).

    Attributes:
        r: NaN if either side never varies within a question.
        low: lower end.
        high: upper end.
        questions: how many had any variation on both sides.
    """

    r: float
    low: float
    high: float
    questions: int


def agent_answers(trace: Mapping[str, Any], when: When = "last") -> list[str | None]:
    """The first or last answer of each node of a trace, ``None`` where none could be read. Who failed to speak again
    keeps what it said."""
    answers: list[str | None] = [None] * len(trace["agents"])
    for stage in trace["stages"]:
        if stage["stage"] == "answer" or (stage["stage"] == "pass" and when == "last"):
            for said in stage["replies"]:
                if said["text"] is not None:
                    answers[said["node"]] = said["answer"]
    return answers


def agents_right(trace: Mapping[str, Any], question: Question, when: When = "last") -> np.ndarray:
    """[n] whether each node's first or last answer is right; no answer is wrong."""
    return np.array([question.is_correct(answer) for answer in agent_answers(trace, when)], dtype=bool)


def assortativity(graph: Any, labels: np.ndarray) -> float:
    r"""Whether the right hear the right and the wrong the wrong (Newman 2003),

    .. math:: r = \frac{\sum_c e_{cc} - \sum_c a_c b_c}{1 - \sum_c a_c b_c},

    :math:`e_{cd}` the share of the weight that runs from class c to class d, a and b its sums, loops left out. 1 is
    only among equals, 0 is chance; NaN without edges or if one class has all of them. Since nobody is its own
    neighbour, small graphs lie below 0 by chance: a complete one of n agents at -1 / (n - 1), whatever the labels.

    Args:
        labels: [n] class of each agent, such as whether it is right.
    """
    alike, chance = _mixing(graph, labels)
    return float((alike - chance) / (1 - chance)) if 1 - chance > 1e-12 else float("nan")


def assortativity_and_right(answered: Iterable[Answered], when: When = "last", draws: int = 2000, seed: int = 0
                            ) -> Correlation:
    r"""Whether the right hear the right, over the questions of a run: :func:`assortativity` by being right, pooled,

    .. math:: r = \frac{\sum_q (\sum_c e_{cc} - \sum_c a_c b_c)_q}{\sum_q (1 - \sum_c a_c b_c)_q},

    each question's graph the mean over its rounds. Questions in which all are right, or all are wrong, say nothing and
    do not count. Arguments are those of :func:`centrality_and_right`.
    """
    sums = []
    for trace, question in map(_pair, answered):
        graphs = rounds_of(trace)
        alike, chance = _mixing(mean_graph(graphs), agents_right(trace, question, when)) if graphs else (1.0, 1.0)
        if 1 - chance > 1e-12:
            sums.append([alike - chance, 1 - chance])
    table = np.array(sums).reshape(-1, 2)
    if not len(table):
        return Correlation(float("nan"), float("nan"), float("nan"), 0)
    low, high = np.quantile(np.divide(*(_resamples(len(table), draws, seed) @ table).T), [0.025, 0.975])
    return Correlation(float(np.divide(*table.sum(axis=0))), float(low), float(high), len(table))


def centrality_and_right(answered: Iterable[Answered], name: str = "pagerank",
                         when: When = "last", draws: int = 2000, seed: int = 0) -> Correlation:
    """How much being central goes with being right, over the questions of a run.

    Both are taken as differences from their mean within a question, so that easy questions and large graphs do not
    count as agents' merit; pooled over questions. The graph is the mean over the rounds of the trace.

    Args:
        answered: results of a method, or pairs of a trace (of a line of ``results.jsonl``) and its question.
        name: of a centrality (:func:`goa_torch.analysis.ranking.centrality`).
        when: whether first or last answers count. The last ones are also an effect of the graph, the first are not.
        draws: resamples of the bootstrap.
        seed: of the bootstrap.
    """
    sums = []
    for trace, question in map(_pair, answered):
        graphs = rounds_of(trace)
        if not graphs:
            continue
        central = centrality(mean_graph(graphs), name)
        right = agents_right(trace, question, when).astype(float)
        central, right = central - central.mean(), right - right.mean()
        products = [central @ right, central @ central, right @ right]
        if np.isfinite(products).all():
            sums.append([0.0 if abs(x) < 1e-12 else x for x in products])
    table = np.array(sums).reshape(-1, 3)
    varied = int(((table[:, 1] > 0) & (table[:, 2] > 0)).sum())
    r = float(_pooled(table.sum(axis=0)))
    if not len(table) or not np.isfinite(r):
        return Correlation(float("nan"), float("nan"), float("nan"), varied)
    low, high = np.nanquantile(_pooled((_resamples(len(table), draws, seed) @ table).T), [0.025, 0.975])
    return Correlation(r, float(low), float(high), varied)


def _pair(item: Answered) -> tuple[Mapping[str, Any], Question]:
    return (item.trace, item.question) if isinstance(item, Result) else item


def _mixing(graph: Any, labels: np.ndarray) -> tuple[float, float]:
    """The share of the weight between agents of one class, and what chance would make it; 1 and 1 without edges."""
    weights = as_graph(graph).without_loops().tocoo()
    labels = np.unique(np.asarray(labels), return_inverse=True)[1].ravel()
    if len(labels) != weights.shape[0]:
        raise UserError(f"{len(labels)} labels for {weights.shape[0]} agents; give one for each")
    if not weights.nnz:
        return 1.0, 1.0
    count = int(labels.max()) + 1
    mixing = np.zeros((count, count))
    np.add.at(mixing, (labels[weights.col], labels[weights.row]), weights.data / weights.data.sum())
    return float(np.trace(mixing)), float(mixing.sum(axis=1) @ mixing.sum(axis=0))


def _resamples(n: int, draws: int, seed: int) -> np.ndarray:
    """[draws, n] how often each of n questions is drawn."""
    rng = np.random.Generator(np.random.Philox(randomness.stream("analysis", "bootstrap", seed)))
    return rng.multinomial(n, np.full(n, 1 / n), size=draws)


def _pooled(sums: np.ndarray) -> np.ndarray:
    both, first, second = sums
    scale = np.sqrt(first * second)
    return np.divide(both, scale, out=np.full_like(scale, np.nan), where=scale > 0)
