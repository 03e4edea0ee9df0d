"""Agents that rate what they read while they answer."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..types import Reply
from .agent_conv import AgentConv
from .speaking import Receiver, speak

if TYPE_CHECKING:
    from ..agents.prompts import PromptSet
    from ..state import State

_RATINGS = "rating.weights"
_LINE = re.compile(r"^[ \t>*_#-]*(?:scores?|ratings?)[ \t*_]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_LEAST, _MOST = 1, 5


def read_ratings(text: str, n: int) -> tuple[list[float] | None, str]:
    """The ratings of ``n`` replies on the first line that begins with "Scores:", normalised to sum 1, and the text
    without that line. ``None`` unless there are exactly ``n`` whole numbers from 1 to 5.

    Example:
        >>> read_ratings("Scores: 5, 1, 4\\nThe answer is B.", 3)
        ([0.5, 0.1, 0.4], 'The answer is B.')
    """
    line = _LINE.search(text)
    if line is None:
        return None, text
    rest = (text[: line.start()] + text[line.end() :].removeprefix("\n")).strip()
    numbers = [part.split("/")[0].strip(" *_[]()") for part in re.split(r"[,;|]", line[1].strip(" .*_[]()"))]
    if len(numbers) != n or not all(re.fullmatch(r"\d", number) for number in numbers):
        return None, rest
    ratings = [int(number) for number in numbers]
    if not all(_LEAST <= rating <= _MOST for rating in ratings):
        return None, rest
    return [rating / sum(ratings) for rating in ratings], rest


class RatingConv(AgentConv):
    r"""Message passing in which each receiver rates its inputs 1..5 in the same call (DyLAN, arXiv 2310.02170),

    .. math:: w_{ij} = s_{ij} / \sum_{i'} s_{i'j} .

    The line with the ratings is taken out of the reply before anybody reads it. A receiver whose ratings cannot be read
    is left out: its inputs have no weights. Who hears only itself rates nothing, its weight is 1. See
    :func:`ratings_of`.
    """

    def __init__(self) -> None:
        super().__init__("order", template="rate")

    def say(self, state: State, receivers: list[Receiver], prompts: PromptSet | None) -> list[Reply | None]:
        replies: list[Reply | None] = []
        weights: dict[tuple[int, int], float] = {}
        unparsed: dict[int, int] = {}
        for receiver, reply in zip(receivers, speak(state, receivers, "pass", self.weighting, prompts=prompts,
                                                    template=self.template)):
            if reply.text is None:
                replies.append(reply)
                continue
            if not receiver.heard and not receiver.cut:  # rereads itself: the only input has all the weight
                weights[receiver.node, receiver.node] = 1.0
                unparsed.setdefault(receiver.question, 0)
                replies.append(reply)
                continue
            read, rest = read_ratings(reply.text, len(receiver.heard))
            reader = state.questions[receiver.question].reader
            replies.append(replace(reply, text=rest).with_answer(reader))
            unparsed[receiver.question] = unparsed.get(receiver.question, 0) + (read is None)
            for (sender, _), weight in zip(receiver.heard, read or []):
                weights[sender, receiver.node] = weight
        state.notes.setdefault(_RATINGS, {})[state.round] = weights
        rated: dict[int, list] = {question: [] for question in unparsed}
        question_of = state.batch.tolist()
        for (s, r), w in weights.items():
            rated[question_of[r]].append([state.local(s), state.local(r), w])
        for question, count in unparsed.items():
            state.log(question, "rating", round=state.round, weights=rated[question], unparsed=count)
        return replies


def ratings_of(state: State, round: int) -> dict[tuple[int, int], float]:
    """The weight of each (sender, receiver) in a round, as its receiver rated it."""
    return state.notes.get(_RATINGS, {}).get(round, {})
