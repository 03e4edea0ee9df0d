"""A vote at the token budget of the method it is compared with."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from ..nn.readout import VoteReadout
from ..nn.selection import log_selection
from ..nn.speaking import Receiver, speak
from ..state import State
from .base import Method, check_count
from .debate import participants

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..types import Reply


class VoteTokens(Method):
    r"""Majority of as many independent answers as a budget of tokens pays for: each agent answers once, then again, in
    turn, while one more answer of mean cost fits,

    .. math:: m = \left\lfloor \frac{B - \sum_i c_i}{\bar c} \right\rfloor .

    Much of what debates gain is voting: this is what they must beat at equal cost. Its answers are those of
    :class:`~goa_torch.methods.vote.Vote` with that many samples, stream for stream. The budget is missed by the
    spread of an answer's cost at most; every agent answers once, whatever that costs. Depth counts the waves in which
    the answers are asked for, though none waits for another.

    Args:
        tokens: prompt and completion tokens for a question, such as a rival's mean.
        n: that many agents, copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        most: answers of each agent at most.
    """

    def __init__(self, pool: Pool, tokens: int = 4000, n: int | None = None, agent: str | None = None,
                 most: int = 16) -> None:
        check_count("vote_tokens", "tokens", tokens)
        check_count("vote_tokens", "most", most)
        super().__init__(pool, participants("vote_tokens", pool, n, agent), VoteReadout())
        self.tokens = tokens
        self.most = most

    def answer(self, state: State) -> None:
        asked: list[list[int]] = [[] for _ in state.questions]  # nodes of the first wave, once for each answer
        given: dict[tuple[int, int], Reply] = {}  # (node, how many answers it gave before) -> answer
        wave = {question: state.nodes_of(question) for question in range(state.num_graphs)}
        copies = [len(state.nodes_of(q)) for q in range(state.num_graphs)]
        while any(wave.values()):
            places, receivers = [], []
            for question, nodes in wave.items():
                for node in nodes:
                    before = asked[question].count(node)
                    asked[question].append(node)
                    places.append((node, before))
                    same = sum(state.agent[v] == state.agent[node] for v in state.nodes_of(question))
                    instance = int(state.instance[node]) + before * int(same)
                    receivers.append(Receiver(state.agent_of(node), question, instance=instance))
            given |= dict(zip(places, speak(state, receivers, "answer", prompts=self.answer_prompts)))
            wave = {q: self._more(state, q, asked[q]) if copies[q] else [] for q in range(state.num_graphs)}
        self._regroup(state, given)

    def _more(self, state: State, question: int, asked: list[int]) -> list[int]:
        """The nodes that answer once more in the next wave."""
        spent = sum(call.usage.tokens for call in state.recorder.calls[question])
        mean = spent / len(asked)
        room = int((self.tokens - spent) / mean) if mean > 0 else 0
        nodes = state.nodes_of(question)
        turn = len(asked) % len(nodes)  # nodes answer in turn: whose is it?
        room = max(0, min(room, self.most * len(nodes) - len(asked)))
        return [nodes[(turn + i) % len(nodes)] for i in range(room)]

    def _regroup(self, state: State, given: dict[tuple[int, int], Reply]) -> None:
        """Makes every answer a node."""
        chosen: list[list] = [[] for _ in state.questions]
        for node, _ in sorted(given):
            chosen[int(state.batch[node])].append(state.agent_of(node))
        order = sorted(given, key=lambda place: (int(state.batch[place[0]]), state.agent_of(place[0]).name, place[1],
                                                 int(state.instance[place[0]])))
        grown = State.collate(state.questions, state.pool, state.recorder, chosen)
        grown.replies = [given[place] for place in order]
        grown.initial = list(grown.replies)
        log_selection(grown, "all")
        grown.log_replies("answer", range(grown.num_nodes), grown.replies)
        for field in fields(state):
            setattr(state, field.name, getattr(grown, field.name))
