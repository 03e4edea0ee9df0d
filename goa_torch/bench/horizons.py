"""What the recorded debates of a run folder come to at every horizon and under stopping rules, without a new call.

A run of T rounds holds all shorter ones (:mod:`goa_torch.methods.trajectory`), so one run says what every horizon and
every stopping rule would have given, on the same questions and seeds: comparisons between them are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import UserError
from ..types import Question
from . import statistics
from .config import load_experiment
from .plan import test_questions
from .store import Item, RunFolder, resolved

if TYPE_CHECKING:
    from ..methods.trajectory import Cut

#: Stopping rules by name (:func:`goa_torch.topology.stopping.parse_stop`); ``None`` lets a run go on to its end.
RULES: dict[str, str | None] = {
    "all rounds": None, "fixed round 3": "rounds:2", "majority stable": "stable:2", "unanimity": "unanimity",
    "agreement gate": "gate:0.67", "uncertainty gate": "entropy:0.25", "joint": "stable:2 | entropy:0.25",
}
_MEASURES = ("correct", "tokens", "calls", "depth", "rounds")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Runs of one method on one task, each measure [questions, seeds]: ``correct`` (0 or 1), ``tokens``, ``calls`` and
    sequential ``depth`` of a question, and ``rounds`` of talking."""

    correct: np.ndarray
    tokens: np.ndarray
    calls: np.ndarray
    depth: np.ndarray
    rounds: np.ndarray

    def of(self, rows: Sequence[int]) -> Outcomes:
        """The same of some questions."""
        return Outcomes(*(getattr(self, name)[list(rows)] for name in _MEASURES))

    def interval(self, draws: int = 2000) -> tuple[float, float, float]:
        """Accuracy with its 95% interval."""
        found = statistics.accuracy_interval(self.correct, statistics.resampled_means([self.correct], draws)[:, 0])
        return float(self.correct.mean()), found.low, found.high


@dataclass(frozen=True, slots=True)
class Horizons:
    """The debates of one task.

    Attributes:
        questions: those that every method has answered with every seed.
        at: by method, the outcome after 0, 1, 2, ... rounds of talking.
        under: by method and rule, the outcome under that stopping rule.
    """

    questions: list[Question]
    at: dict[str, list[Outcomes]]
    under: dict[str, dict[str, Outcomes]]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether one outcome is as good as another: the paired ``difference`` of accuracies with its 90% interval, ``p``
    of two one-sided tests that it lies within the margin (``None`` where every resample shows the same difference,
    which says nothing about how sure it is), and ``within``, the least margin that would have been shown (at 5%)."""

    difference: float
    low: float
    high: float
    p: float | None
    within: float


def equivalence(mine: Outcomes, other: Outcomes, margin: float, draws: int = 10_000) -> Equivalence:
    """TOST by the paired hierarchical bootstrap (:func:`~goa_torch.bench.statistics.equivalence_p`)."""
    gap = mine.correct - other.correct
    means = statistics.resampled_means([gap], draws)[:, 0]
    low, high = statistics.percentile_interval(means, 0.9)
    p = statistics.equivalence_p(means, margin) if np.ptp(means) > 1e-12 else None
    return Equivalence(float(gap.mean()), low, high, p, max(abs(low), abs(high)))


def read_horizons(folder: str | Path, rules: Mapping[str, str | None] | None = None) -> dict[str, Horizons]:
    """By task, what the debates in a run folder come to.

    Args:
        folder: of a run; it may still be going on. Its questions are loaded, its pools are not.
        rules: stopping rules by name.

    Raises:
        UserError: if it is no run folder, or holds runs that do not end in the majority of their last replies.
    """
    run = RunFolder(folder)
    config = run.read_config()
    if config is None:
        raise UserError(f"{run.path} is not a run folder: it has no config.yaml of a run")
    identity = resolved(config, run.path / "config.yaml")["identity"]
    tests = test_questions(load_experiment(run.path / "config.yaml"))
    questions = {(task, question.id): question for task, asked in tests.items() for question in asked}
    rules = RULES if rules is None else rules
    cuts: dict[Item, tuple[list[Cut], dict[str, Cut]]] = {}
    for line in run.results:
        if line["part"] == "test" and (asked := questions.get((line["task"], line["question"]))) is not None:
            cuts[Item.of(line)] = _cut(asked, line, rules, str(run.path))
    labels, seeds = [method["label"] for method in identity["methods"]], sorted(identity["seeds"])
    found = {}
    for task, asked in tests.items():
        here = [q for q in asked if all(Item("test", label, task, q.id, seed) in cuts
                                        for label in labels for seed in seeds)]
        if not here:
            continue

        def outcomes(label: str, pick, here: list[Question] = here, task: str = task) -> Outcomes:
            rows = [[pick(*cuts[Item("test", label, task, q.id, seed)]) for seed in seeds] for q in here]
            return Outcomes(*(np.array([[_measures(cut)[i] for cut in row] for row in rows], dtype=np.float64)
                              for i in range(len(_MEASURES))))

        longest = {label: max(len(cuts[Item("test", label, task, q.id, seed)][0]) for q in here for seed in seeds)
                   for label in labels}
        at = {label: [outcomes(label, lambda ends, _, t=t: ends[min(t, len(ends) - 1)]) for t in range(longest[label])]
              for label in labels}
        under = {label: {name: outcomes(label, lambda _, stopped, name=name: stopped[name]) for name in rules}
                 for label in labels}
        found[task] = Horizons(here, at, under)
    if not found:
        raise UserError(f"{run.path}: no question has been answered by every method with every seed yet")
    return found


def _cut(question: Question, line: Mapping, rules: Mapping[str, str | None], where: str
         ) -> tuple[list[Cut], dict[str, Cut]]:
    """A run at every horizon, and where each rule would have ended it."""
    from ..methods.trajectory import Trajectory
    from ..topology.stopping import parse_stop

    trajectory = Trajectory.recorded(question, line["trace"], line["calls"], line["seed"])
    ends = [trajectory.at(rounds) for rounds in range(trajectory.rounds + 1)]
    if ends[-1].answer != line["answer"]:
        raise UserError(f"{where}: {line['method']} does not end in the majority of its last replies, so its runs "
                        "cannot be cut off; give a run of debates that do")
    states = [trajectory.state(rounds) for rounds in range(trajectory.rounds)]
    stopped = {}
    for name, text in rules.items():
        rule = parse_stop(text, None)
        last = next((t for t, state in enumerate(states) if bool(rule(state, t + 1)[0])), trajectory.rounds)
        stopped[name] = ends[last]
    return ends, stopped


def _measures(cut: Cut) -> tuple[float, ...]:
    return float(cut.correct), cut.usage.tokens, cut.usage.calls, cut.depth, cut.rounds
