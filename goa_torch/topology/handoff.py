"""An orchestrator that names the next speaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from .. import randomness
from ..nn.reading import read_indices
from ..nn.speaking import Receiver, speak
from ..types import Topology

if TYPE_CHECKING:
    from ..state import State

_SPEAKER = "handoff.speaker"
_FIRST = "handoff.first"
_ANSWERS = "handoff.answers"

#: When a question ends besides its turns and the orchestrator's word.
UNTIL = ("final", "answered", "confirmed")


class Handoff(nn.Module):
    """Each round the meta-LLM reads the question, the cards and the latest reply, and names the agent that speaks next,
    who hears the latest speaker; or it names nobody, which ends the question.

    A choice that cannot be read ends the question too (the latest reply stands), or, if nobody has spoken yet, is
    replaced by a draw from the stream (seed, question); either is counted in the trace. A meta-LLM whose context the
    latest reply does not fit is not asked. Choices are written in text, whatever the pool's way of judging.
    """

    needs_templates = ("handoff",)

    def name(self, state: State) -> dict[int, int]:
        """The next node of each question that goes on; marks the others as done. One batched call."""
        latest = speakers(state)
        open_ = [q for q in range(state.num_graphs) if not bool(state.done[q]) and state.nodes_of(q)]
        receivers, extra = [], []
        for question in open_:
            heard = [(latest[question], 1.0)] if question in latest else []
            receivers.append(Receiver(state.pool.meta, question, heard))
            cards = [str(state.agent_of(node).card) for node in state.nodes_of(question)]
            extra.append({"cards": cards, "k": 1})
        chosen: dict[int, int] = {}
        replies = speak(state, receivers, "select", extra=extra, template="handoff", must_fit="all")
        for question, receiver, reply in zip(open_, receivers, replies):
            nodes = state.nodes_of(question)
            options = len(nodes) + (question in latest)  # the last index means that the latest reply is final
            read = None if reply.failed else read_indices(reply.text, options, 1)
            node = None
            if read is not None and read[0] < len(nodes):
                node = nodes[read[0]]
            elif read is None and question not in latest:
                asked = state.questions[question]
                node = min(nodes, key=lambda v: randomness.stream(
                    state.recorder.seed, asked.task, asked.id, "handoff", state.agent_of(v).name))
            state.log(question, "handoff", round=state.round, node=None if node is None else state.local(node),
                      text=reply.text, unparsed=int(read is None), cut=[state.local(v) for v in receiver.cut])
            if node is None:
                state.done[question] = True
            else:
                chosen[question] = node
        return chosen

    def forward(self, state: State, round: int) -> Topology:
        """Edges from the latest speaker to the next one; who follows nobody answers on its own (see ``first``)."""
        latest = speakers(state)
        chosen = self.name(state)
        state.notes[_FIRST] = [node for question, node in chosen.items() if question not in latest]
        edges = [(latest[question], node) for question, node in chosen.items() if question in latest]
        edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
        return Topology(edge_index, torch.ones(len(edges)))


class Spoken(nn.Module):
    """A stop-module: is what the latest speakers said an answer?

    Args:
        until: ``final``: never, that is left to the orchestrator; ``answered``: the latest reply holds an answer;
            ``confirmed``: the latest two, of whoever spoke, hold the same one.
    """

    def __init__(self, until: Literal["final", "answered", "confirmed"] = "final") -> None:
        super().__init__()
        self.until = until

    def forward(self, state: State, round: int) -> Tensor:
        """[B] bool: questions that are finished before ``round`` (from 1) begins."""
        stop = torch.zeros(state.num_graphs, dtype=torch.bool)
        if self.until == "final":
            return stop
        for question, said in answers(state).items():
            latest = said[-1:] if self.until == "answered" else said[-2:]
            equal = state.questions[question].reader.equal
            stop[question] = (len(latest) == (1 if self.until == "answered" else 2) and None not in latest
                              and all(answer == latest[0] or equal(latest[0], answer) for answer in latest))
        return stop

    def extra_repr(self) -> str:
        return f"until={self.until!r}"


def answers(state: State) -> dict[int, list[str | None]]:
    """The answers of each question's speakers, in turn; ``None`` for a reply without one."""
    return state.notes.setdefault(_ANSWERS, {})


def spoke(state: State, node: int) -> None:
    """Remembers that ``node`` spoke last."""
    question = int(state.batch[node])
    speakers(state)[question] = node
    answers(state).setdefault(question, []).append(state.replies[node].answer)


def speakers(state: State) -> dict[int, int]:
    """The node of each question that spoke last."""
    return state.notes.setdefault(_SPEAKER, {})


def first_speakers(state: State) -> list[int]:
    """Nodes that were named in this round and have nobody to follow."""
    return state.notes.get(_FIRST, [])
