"""A run as labelled graphs of agents, for graph neural networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, InMemoryDataset

from ..bench.store import Record
from ..types import Question
from .lines import read_run
from .questions import questions_of

#: Columns of a node's features ``x``.
NODE_FEATURES = ("answered at first", "agrees with others at first, share", "answered at last",
                 "agrees with others at last, share", "log p of the first reply a token, nats",
                 "tokens of the first reply, hundreds", "relevance S, 0 if unscored", "was scored")


class RunGraphs(InMemoryDataset):
    r"""The graphs of a run, one a question, method and seed.

    A graph's nodes are its agents. An edge is one message: agents that talk in several rounds have several edges.

    - ``x`` [n, 8] (float32): what an observer without the right answer knows, see :data:`NODE_FEATURES`
    - ``agent`` [n]: number of the agent's name in :attr:`agents`
    - ``edge_index`` [2, E] (sender, receiver), ``edge_weight`` [E], ``edge_round`` [E]: the messages
    - ``y`` [1]: 1 if the method's answer was right, else 0
    - ``node_y`` [n]: 1 or 0 for each agent's last answer, -1 if the questions are not at hand
    - ``cost`` [1, 4] (float32): calls, tokens, sequential depth, seconds had the method run alone
    - ``method``, ``task``, ``question``, ``seed``: where it comes from; ``method`` counts in :attr:`methods`

    Nothing about the right answer is in ``x``, ``edge_*`` and ``agent``. Split by ``question``, so that no question is
    on both sides.

    Args:
        folder: a run folder of ``goa bench``; nothing is written to it.
        part: ``test`` or ``validation``.
        transform: applied to each graph when it is taken.
        pre_transform: applied once.
        pre_filter: which graphs stay.
    """

    def __init__(self, folder: str | Path, part: str = "test", transform: Callable[[Data], Any] | None = None,
                 pre_transform: Callable[[Data], Any] | None = None,
                 pre_filter: Callable[[Data], bool] | None = None) -> None:
        super().__init__(None, transform, pre_transform, pre_filter)
        config, lines = read_run(folder, part)
        asked, _ = questions_of(config)
        #: Names of agents, methods (labels of the run) and tasks, in the order of their numbers.
        self.agents = sorted({name for line in lines for name in line["trace"]["agents"]})
        self.methods = [method["label"] for method in config["resolved"]["identity"]["methods"]]
        self.methods += sorted({line["method"] for line in lines} - set(self.methods))
        self.tasks = sorted({line["task"] for line in lines})
        graphs = [self._graph(line, asked.get(line["task"], {}).get(line["question"])) for line in lines]
        graphs = [graph for graph in graphs if pre_filter is None or pre_filter(graph)]
        graphs = [graph if pre_transform is None else pre_transform(graph) for graph in graphs]
        self.data, self.slices = self.collate(graphs) if graphs else (Data(), {})

    def _graph(self, line: Record, question: Question | None) -> Data:
        trace, usage = line["trace"], line["usage"]
        names = trace["agents"]
        talk = [(*edge, stage["round"]) for stage in trace["stages"] if stage["stage"] == "pass"
                for edge in stage["edges"]]
        ends = torch.tensor([[s, r] for s, r, _, _ in talk], dtype=torch.long).reshape(-1, 2)
        first, last = _said(trace, only_first=True), _said(trace)
        right = [-1 if question is None else int(question.is_correct(said.get("answer"))) for said in last]
        cost = [usage["calls"], usage["prompt_tokens"] + usage["completion_tokens"], line["depth"], usage["seconds"]]
        return Data(
            x=_features(trace, first, last),
            agent=torch.tensor([self.agents.index(name) for name in names], dtype=torch.long),
            edge_index=ends.t().contiguous(),
            edge_weight=torch.tensor([weight for _, _, weight, _ in talk], dtype=torch.float32),
            edge_round=torch.tensor([number for *_, number in talk], dtype=torch.long),
            y=torch.tensor([int(line["correct"])]), node_y=torch.tensor(right, dtype=torch.long),
            cost=torch.tensor([cost], dtype=torch.float32), method=torch.tensor([self.methods.index(line["method"])]),
            task=line["task"], question=line["question"], seed=torch.tensor([line["seed"]]), num_nodes=len(names),
        )


def load_graphs(folder: str | Path, part: str = "test") -> RunGraphs:
    """The graphs of a run: ``load_graphs("runs/quickstart")``.

    Raises:
        UserError: if the folder holds no such results.
    """
    return RunGraphs(folder, part)


def _said(trace: dict[str, Any], only_first: bool = False) -> list[dict[str, Any]]:
    """What each node said first or last; an empty mapping for who said nothing."""
    said: list[dict[str, Any]] = [{} for _ in trace["agents"]]
    for stage in trace["stages"]:
        if stage["stage"] == "answer" or (stage["stage"] == "pass" and not only_first):
            for reply in stage["replies"]:
                if reply["text"] is not None:
                    said[reply["node"]] = reply
    return said


def _features(trace: dict[str, Any], first: list[dict[str, Any]], last: list[dict[str, Any]]) -> torch.Tensor:
    scores = next((stage for stage in trace["stages"] if stage["stage"] == "score"), None)
    rows = []
    for node, (early, late) in enumerate(zip(first, last)):
        tokens = early.get("completion_tokens", 0)
        rows.append([
            float(early.get("answer") is not None), _agreement(first, node),
            float(late.get("answer") is not None), _agreement(last, node),
            (early.get("log_prob") or 0.0) / max(tokens, 1), tokens / 100,
            scores["relevance"][node] if scores else 0.0, float(scores is not None),
        ])
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, len(NODE_FEATURES))


def _agreement(said: list[dict[str, Any]], node: int) -> float:
    """Share of the others whose answer is spelled the same; no answer agrees with nobody."""
    answer = said[node].get("answer")
    if answer is None or len(said) < 2:
        return 0.0
    return sum(other.get("answer") == answer for i, other in enumerate(said) if i != node) / (len(said) - 1)
