"""What the methods of an experiment could at best reach on Relay, and what a guess gets: bars to read accuracies by.

For each method, on the questions of a generated Relay task:

* *ceiling*: its own topology with agents, judges and selection that make no mistakes
  (:mod:`goa_torch.methods.ceiling`);
* *oracle*: the best graph for each question, and the best static graph of no larger in-degree for all questions, both
  with as many rounds as the method may talk (a synthesis is one more, and its author one more agent), agents again
  perfect in their domains (:mod:`goa_torch.analysis.oracle`);
* *blind guess*: the most frequent answer of training questions with the same outside
  (:mod:`goa_torch.tasks.relay.blind`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..types import Question, Result
from .plan import Cell, Plan, digest

if TYPE_CHECKING:
    from ..methods.base import Method

#: At most so many questions of a task are looked at: the first of them, which are drawn like the others.
MOST = 200
_SEEN = 4000  # training questions that the blind guess knows
_SECONDS = 10.0  # for the search of one static graph


def relay_reference(plan: Plan, cells: Sequence[Cell], known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """By label of each Relay task: ``questions`` (ids), ``blind`` (one 0 or 1 a question) and ``methods``: by label
    ``ceiling``, ``oracle``, ``static`` (likewise; ``None`` where it cannot be said) and ``static_exact``.

    Args:
        plan: the experiment.
        cells: its rows, ``agent: best`` replaced.
        known: an earlier reference of the same run folder; what still holds is taken over.
    """
    found = {}
    for task in plan.experiment.tasks:
        questions = plan.tests[task.label][:MOST]
        if task.name != "relay" or any("domains" not in question.metadata for question in questions):
            continue
        old = (known or {}).get(task.label) or {}
        mark = digest(questions)
        kept = old.get("methods", {}) if old.get("digest") == mark else {}
        blind = old["blind"] if kept else _blind(questions, task.settings)
        methods, searched = {}, {}
        for cell in cells:
            settings = json.loads(json.dumps(dict(cell.settings), default=str))
            same = kept.get(cell.label, {}).get("settings") == settings
            methods[cell.label] = (kept[cell.label] if same else
                                   {"settings": settings, **_bars(plan.build(cell), questions, searched)})
        found[task.label] = {"digest": mark, "questions": [question.id for question in questions], "blind": blind,
                             "methods": methods}
    return found


def _blind(questions: Sequence[Question], settings: Mapping[str, Any]) -> list[int]:
    from ..tasks.relay.blind import blind_guess
    from ..tasks.relay.task import load_relay

    drawn = {key: value for key, value in settings.items() if key != "variant"}
    if settings.get("variant") == "deeper":
        drawn.pop("depth", None)  # nothing to train on is that deep: nothing to guess by
    for count in (_SEEN, _SEEN // 4, _SEEN // 16, _SEEN // 64):
        try:
            seen = load_relay("controller_train", count, 1, **drawn)
            break
        except UserError:  # there are fewer questions with these settings
            seen = []
    return [int(q.is_correct(guess)) for q, guess in zip(questions, blind_guess(seen, questions))]


def _bars(method: Method, questions: Sequence[Question], searched: dict[Any, Any]) -> dict[str, Any]:
    from ..analysis.oracle import oracle_per_question, oracle_static
    from ..analysis.reach import layer_numbers
    from ..methods.ceiling import perfect_pool, skills_of
    from ..tasks.relay.families import DOMAINS

    nothing = {"ceiling": None, "oracle": None, "static": None, "static_exact": None}
    try:
        results = type(method)(perfect_pool(method.pool), **method.config)(questions)
    except UserError:  # asks its agents for something that perfect agents do not know to say
        return nothing
    members = {tuple(result.trace["agents"]) for result in results}
    names = members.pop() if len(members) == 1 else tuple(agent.name for agent in method.pool.agents)
    able = {agent.name: skills_of(agent) for agent in (*method.pool.agents, method.pool.meta)}
    layers = layer_numbers([question.metadata["domains"] for question in questions], DOMAINS)
    rounds, degree = _talk(method, results)
    authors = {call.agent for result in results for call in result.calls if call.purpose == "readout"}
    if authors:
        names, rounds = (*names, *sorted(authors - set(names))), rounds + 1
    skills = np.array([[domain in able[name] for domain in DOMAINS] for name in names])
    bars = nothing | {"ceiling": [int(result.correct) for result in results],
                      "oracle": oracle_per_question(skills, layers, rounds).astype(int).tolist()}
    if len(names) <= 8:
        key = (skills.tobytes(), rounds, degree)
        if key not in searched:
            searched[key] = oracle_static(skills, layers, rounds, max(1, degree), _SECONDS)
        static = searched[key]
        bars |= {"static": static.solved.astype(int).tolist(), "static_exact": bool(static.exact)}
    return bars


def _talk(method: Method, results: Sequence[Result]) -> tuple[int, int]:
    """Rounds at most, the independent answers included, and the largest number of others that are heard at once."""
    from ..topology.stopping import FixedRounds

    limits = [module.rounds for module in method.stop.modules() if isinstance(module, FixedRounds)]
    rounds = 1 + min((limit for limit in limits if limit is not None), default=0)
    degree = 0
    for result in results:
        for stage in result.trace["stages"]:
            heard: dict[Any, set[int]] = {}
            if stage["stage"] == "pass":
                rounds = max(rounds, 1 + stage["round"])
                for sender, receiver, *_ in stage.get("edges", ()):
                    heard.setdefault(receiver, set()).update({sender} - {receiver})
            elif stage["stage"] == "readout" and any(call.purpose == "readout" for call in result.calls):
                heard[None] = {node for node, *_ in stage.get("edges", ())}
            degree = max(degree, max(map(len, heard.values()), default=0))
    return rounds, degree
