"""The state of a run: a batch of question graphs, collated as PyG collates graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .types import Question, Reply

if TYPE_CHECKING:
    from .agents.base import Agent
    from .agents.calls import Recorder
    from .agents.pool import Pool

UNASKED = Reply.failure("not asked yet")


@dataclass(slots=True, eq=False)
class State:
    """A batch of B questions with n nodes in all; node ids run through the whole batch.

    Attributes:
        questions: the batch.
        pool: where agents come from.
        recorder: makes and records calls.
        batch: [n] question of each node, ascending (PyG's ``batch``).
        agent: [n] position in ``pool.agents``; -1 is the meta-LLM where it is not one of them.
        instance: [n] tells copies of one agent apart.
        replies: latest reply of each node; nothing written in a round is read in it.
        initial: first answer of each node.
        relevance: [n] S of Graph-of-Agents, ``None`` before scoring.
        kept: [n] bool, nodes that survived pruning and take part in talking and reading out.
        done: [B] bool, questions that have stopped.
        round: the round that is being talked in; 0 is the independent answer.
        traces: one JSON-able dict a question.
        history: replies of all nodes after each round, round 0 first.
        notes: what modules have to remember within a run (they keep nothing themselves), by a name of their own.
    """

    questions: list[Question]
    pool: Pool
    recorder: Recorder
    batch: Tensor
    agent: Tensor
    instance: Tensor
    replies: list[Reply]
    initial: list[Reply]
    kept: Tensor
    done: Tensor
    relevance: Tensor | None = None
    round: int = 0
    traces: list[dict[str, Any]] = field(default_factory=list)
    history: list[list[Reply]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    _starts: list[int] | None = field(default=None, repr=False)  # [n] first node of the node's question

    @classmethod
    def collate(cls, questions: Sequence[Question], pool: Pool, recorder: Recorder,
                chosen: Sequence[Sequence[Agent]]) -> State:
        """Nodes for the agents ``chosen`` for each question; an agent chosen twice gets two instances.

        Nodes of a question are sorted by (agent name, instance), so that nothing depends on the order of the listing.
        """
        position = {id(agent): i for i, agent in enumerate(pool.agents)}
        batch, agents, instances = [], [], []
        for number, members in enumerate(chosen):
            seen: dict[str, int] = {}
            for member in sorted(members, key=lambda a: a.name):
                batch.append(number)
                agents.append(position.get(id(member), -1))
                instances.append(seen.setdefault(member.name, 0))
                seen[member.name] += 1
        n = len(batch)
        state = cls(list(questions), pool, recorder, torch.tensor(batch, dtype=torch.long),
                    torch.tensor(agents, dtype=torch.long), torch.tensor(instances, dtype=torch.long),
                    [UNASKED] * n, [UNASKED] * n, torch.ones(n, dtype=torch.bool),
                    torch.zeros(len(questions), dtype=torch.bool), traces=[{"stages": []} for _ in questions])
        for number, trace in enumerate(state.traces):
            trace["agents"] = [state.agent_of(node).name for node in state.nodes_of(number)]
        return state

    @property
    def num_nodes(self) -> int:
        return self.batch.numel()

    @property
    def num_graphs(self) -> int:
        return len(self.questions)

    def agent_of(self, node: int) -> Agent:
        position = int(self.agent[node])
        return self.pool.meta if position < 0 else self.pool.agents[position]

    def question_of(self, node: int) -> Question:
        return self.questions[int(self.batch[node])]

    def nodes_of(self, question: int) -> list[int]:
        return (self.batch == question).nonzero().flatten().tolist()

    @property
    def ptr(self) -> Tensor:
        """[B + 1] first node of each question."""
        sizes = torch.bincount(self.batch, minlength=self.num_graphs)
        return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])

    def local(self, node: int) -> int:
        """The node's number within its question, as traces show it."""
        if self._starts is None:
            self._starts = self.ptr[self.batch].tolist()
        return node - self._starts[node]

    @property
    def order(self) -> Tensor:
        """[n] rank of each node by (question, agent name, instance): breaks ties in the same way in every listing."""
        keys = sorted(range(self.num_nodes), key=lambda i: (int(self.batch[i]), self.agent_of(i).name,
                                                            int(self.instance[i])))
        rank = torch.empty(self.num_nodes, dtype=torch.long)
        rank[torch.tensor(keys, dtype=torch.long)] = torch.arange(self.num_nodes)
        return rank

    def log(self, question: int, stage: str, **facts: Any) -> None:
        """Appends a stage to the question's trace."""
        self.traces[question]["stages"].append({"stage": stage, **facts})

    def log_replies(self, stage: str, nodes: Sequence[int], replies: Sequence[Reply],
                    **per_question: dict[int, Any]) -> None:
        """Appends a stage with the ``replies`` of ``nodes`` to the trace of each question that has some."""
        shown: dict[int, list[dict[str, Any]]] = {}
        for node, reply in zip(nodes, replies):
            shown.setdefault(int(self.batch[node]), []).append({"node": self.local(node), **reply_facts(reply)})
        for question, said in shown.items():
            extra = {name: facts.get(question, []) for name, facts in per_question.items()}
            self.log(question, stage, round=self.round, replies=said, **extra)


def reply_facts(reply: Reply) -> dict[str, Any]:
    """What a trace shows of a reply."""
    facts = {"text": reply.text, "answer": reply.answer, "finish_reason": reply.finish_reason, "error": reply.error}
    if reply.log_prob is not None:
        facts |= {"log_prob": reply.log_prob, "completion_tokens": reply.usage.completion_tokens}
    return facts | ({"reasoning": reply.reasoning} if reply.reasoning else {})
