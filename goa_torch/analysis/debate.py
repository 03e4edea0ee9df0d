r"""What happens in a debate: who changes their mind, in which direction, and whether that is more than chance.

All of it is read from recorded replies; nothing is asked. The *belief* of a group is the share :math:`b_t` of its
agents whose reply after round t is right. "Debate or Vote" (arXiv 2508.17536) argues that debate alone moves belief
like a martingale, :math:`E[b_{t+1} \mid b_t] = b_t`: then what debates gain is what voting gains. The check here has
two parts: the mean drift :math:`E[b_{t+1} - b_t]`, and the slope of the drift against :math:`b_t`, both 0 for a
martingale. Agents that join whatever is more common may drift by 0 on average and have a positive slope; agents that
answer anew, whatever they heard, have a negative one, since a share that was high by luck is lower the next time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from .. import randomness
from ..types import Question

RIGHT, WRONG, SILENT = "1", "0", "-"


@dataclass(frozen=True, slots=True)
class Debate:
    """One run of several agents that heard each other.

    Attributes:
        question: its id; runs of one question are not independent of each other.
        agents: who took part; copies are numbered.
        rounds: after each round, round 0 (independent answers) first, a letter for each agent: ``1`` right, ``0``
            wrong, ``-`` no answer that could be read.
        correct: whether the answer that was read out is right.
    """

    question: str
    agents: tuple[str, ...]
    rounds: tuple[str, ...]
    correct: bool

    @property
    def beliefs(self) -> list[float]:
        """The share of agents that are right after each round."""
        return [letters.count(RIGHT) / len(letters) for letters in self.rounds]


def debate_of(question: Question, trace: Mapping[str, Any], correct: bool) -> Debate | None:
    """The debate that a trace tells, ``None`` if there were not two agents or nobody heard anybody."""
    names = list(trace.get("agents", ()))
    letters = [SILENT] * len(names)
    rounds: list[str] = []
    known: dict[str | None, str] = {None: SILENT}
    for stage in trace.get("stages", ()):
        if stage["stage"] not in ("answer", "pass"):
            continue
        while len(rounds) < stage["round"]:  # rounds in which nobody was asked
            rounds.append("".join(letters))
        for said in stage["replies"]:
            if said["text"] is None and stage["stage"] == "pass":
                continue  # who fails later keeps its reply
            answer = said["answer"]
            if answer not in known:
                known[answer] = RIGHT if question.is_correct(answer) else WRONG
            letters[said["node"]] = known[answer]
        rounds[stage["round"] :] = ["".join(letters)]
    if len(names) < 2 or len(rounds) < 2:
        return None
    numbered = tuple(f"{name}.{names[:i].count(name)}" for i, name in enumerate(names))
    return Debate(question.id, numbered, tuple(rounds), correct)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What many debates come to. Shares are in [0, 1]; intervals are 95% percentile intervals of a bootstrap over
    questions, ``None`` where there is no spread to make one from.

    Attributes:
        debates, questions: how many.
        agents, rounds: in the mean; rounds of talking.
        right: share of agents that are right after each round (of the debates that went on so long).
        gained, lost: in each round of talking, the share of agents that turned from wrong (or silent) to right, and
            from right to wrong (or silent).
        any_right: share of debates with at least one right agent, ``first`` before and ``last`` after talking.
        readout_loss: share of debates in which somebody was right in the end and the answer was not.
        drift, slope: of belief, see the module; ``slope`` is ``None`` where belief was the same everywhere.
        error_correlation: mean correlation of two agents' errors (of all pairs whose errors vary), first and last.
    """

    debates: int
    questions: int
    agents: float
    rounds: float
    right: tuple[float, ...]
    gained: tuple[float, ...]
    lost: tuple[float, ...]
    any_right_first: float
    any_right_last: float
    readout_loss: float
    drift: float
    drift_low: float | None
    drift_high: float | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    error_correlation_first: float | None
    error_correlation_last: float | None


def diagnose(debates: Sequence[Debate], draws: int = 2000) -> Diagnosis | None:
    """The diagnosis of some debates, ``None`` if there are none."""
    if not debates:
        return None
    longest = max(len(debate.rounds) for debate in debates)
    right, gained, lost = [], [], []
    for t in range(longest):
        here = [debate for debate in debates if len(debate.rounds) > t]
        now = np.concatenate([_right(debate.rounds[t]) for debate in here])
        right.append(float(now.mean()))
        if t:
            before = np.concatenate([_right(debate.rounds[t - 1]) for debate in here])
            gained.append(float((now & ~before).mean()))
            lost.append(float((before & ~now).mean()))
    found = [(RIGHT in debate.rounds[0], RIGHT in debate.rounds[-1]) for debate in debates]
    questions = {debate.question: None for debate in debates}
    return Diagnosis(
        len(debates), len(questions), float(np.mean([len(debate.agents) for debate in debates])),
        float(np.mean([len(debate.rounds) - 1 for debate in debates])), tuple(right), tuple(gained), tuple(lost),
        float(np.mean([first for first, _ in found])), float(np.mean([last for _, last in found])),
        float(np.mean([last and not debate.correct for (_, last), debate in zip(found, debates)])),
        *_martingale(debates, list(questions), draws), _correlation(debates, 0), _correlation(debates, -1),
    )


def _right(letters: str) -> np.ndarray:
    return np.array([letter == RIGHT for letter in letters])


def _martingale(debates: Sequence[Debate], questions: list[str], draws: int) -> tuple[float | None, ...]:
    """Drift and slope, each with its interval, from sums by question, which are what is resampled."""
    row = {question: number for number, question in enumerate(questions)}
    sums = np.zeros((len(questions), 5))  # n, x, xx, y, xy with belief x and its step y
    for debate in debates:
        beliefs = debate.beliefs
        for x, later in zip(beliefs, beliefs[1:]):
            sums[row[debate.question]] += (1, x, x * x, later - x, x * (later - x))
    names = randomness.stream("debate", len(questions), draws)
    rng = np.random.Generator(np.random.Philox(names))
    counts = rng.multinomial(len(questions), np.full(len(questions), 1 / len(questions)), size=draws)
    drift, slope = _estimates(sums.sum(0)[None])
    drifts, slopes = _estimates(counts @ sums)
    return (float(drift[0]), *_interval(drifts), None if np.isnan(slope[0]) else float(slope[0]), *_interval(slopes))


def _estimates(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, x, xx, y, xy = sums.T
    spread = xx - x * x / n
    flat = spread <= 1e-9 * n
    return y / n, np.where(flat, np.nan, (xy - x * y / n) / np.where(flat, 1.0, spread))


def _interval(values: np.ndarray) -> tuple[float | None, float | None]:
    values = values[~np.isnan(values)]
    if not len(values) or np.ptp(values) < 1e-12:
        return None, None
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _correlation(debates: Sequence[Debate], round: int) -> float | None:
    """Mean over pairs of agents of the correlation of their being wrong, over the debates that both took part in."""
    columns = {agent: number for number, agent in enumerate(sorted({a for d in debates for a in d.agents}))}
    wrong = np.full((len(debates), len(columns)), np.nan)
    for line, debate in zip(wrong, debates):
        line[[columns[agent] for agent in debate.agents]] = ~_right(debate.rounds[round])
    found = []
    for a, b in combinations(wrong.T, 2):
        both = ~np.isnan(a) & ~np.isnan(b)
        if both.sum() > 1 and np.ptp(a[both]) and np.ptp(b[both]):
            found.append(float(np.corrcoef(a[both], b[both])[0, 1]))
    return float(np.mean(found)) if found else None
