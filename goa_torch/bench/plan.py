"""What an experiment comes to: which methods over which pools answer which questions. All of it is checked here,
before the first call and before anything is written."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ..agents.prompts import PromptSet
from ..errors import UserError, unknown
from ..types import Question
from .config import Experiment, SamplingChanges, TaskConfig
from .pools import load_pools
from .store import changes

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..methods.base import Method

BEST = "best"


@dataclass(frozen=True, slots=True)
class Cell:
    """A row of the table: a method with its settings over a pool. ``label`` is unique in the experiment."""

    label: str
    pool: str
    name: str
    settings: Mapping[str, Any]
    baseline: str = ""

    @property
    def chooses_best(self) -> bool:
        """Whether its agent is chosen on validation questions."""
        return self.settings.get("agent") == BEST

    def with_agent(self, agent: str) -> Cell:
        return replace(self, settings={**self.settings, "agent": agent})


@dataclass(slots=True)
class Plan:
    """An experiment whose names have been looked up.

    Attributes:
        pools: by name, with the experiment's sampling.
        cells: rows of the table.
        candidates: single agents that compete on validation questions, empty if no cell asks for the best one.
        tests: questions of each task by its label; ``validation`` likewise.
        configs: settings of each cell's method, defaults filled in, by label.
    """

    experiment: Experiment
    pools: dict[str, Pool]
    cells: list[Cell]
    candidates: list[Cell]
    tests: dict[str, list[Question]]
    validation: dict[str, list[Question]]
    configs: dict[str, dict[str, Any]]

    @property
    def seeds(self) -> list[int]:
        return self.experiment.config.seeds

    def build(self, cell: Cell) -> Method:
        """The method of a cell."""
        return _build(cell, self.pools[cell.pool], str(self.experiment.place.file))

    def identity(self) -> dict[str, Any]:
        """What results depend on, JSON-able: two runs of equal identity may share a folder."""
        described = {
            "methods": [{"label": c.label, "pool": c.pool, "name": c.name, "settings": self.configs[c.label]}
                        for c in self.cells],
            "pools": {name: _describe(pool) for name, pool in self.pools.items()},
            "tasks": _fingerprints(self.experiment.tasks, self.tests),
            "validation": _fingerprints(self.experiment.validation, self.validation) if self.candidates else {},
            "seeds": list(self.seeds),
        }
        return json.loads(json.dumps(described, default=str))

    def changes_since(self, old: Mapping[str, Any]) -> list[str]:
        """Why results of the identity ``old`` do not belong to this plan, one line each; empty if they do.

        More seeds, and more questions of a task after those that were there, are no change: what is finished stays
        valid. The order of tasks, pools and methods, the baseline and whatever only tables show are none either.
        """
        new = self.identity()
        old = json.loads(json.dumps(dict(old), default=str))
        if set(old.get("seeds") or ()) <= set(new["seeds"]):
            old["seeds"] = new["seeds"]
        for part, questions in (("tasks", self.tests), ("validation", self.validation)):
            for label, before in (old.get(part) or {}).items():
                now, count = (new.get(part) or {}).get(label), before.get("questions", 0)
                if now and count <= now["questions"] and digest(questions[label][:count]) == before.get("digest"):
                    before.update(questions=now["questions"], digest=now["digest"])
        for side in (old, new):
            side["methods"] = {entry["label"]: entry for entry in side.get("methods") or ()}
            side.pop("models", None)
        return changes(old, new)


def make_plan(experiment: Experiment, pools: Mapping[str, Pool] | None = None) -> Plan:
    """Looks up everything an experiment names.

    Args:
        pools: pools by name that need no file.

    Raises:
        UserError: an unknown method, setting, task or pool, a missing or empty file, a setting that does not fit the
            pool, and whatever else can be known before the first call.
    """
    where = str(experiment.place.file)
    loaded = load_pools(experiment.pools, dict(pools or {}), where)
    found = {name: _with_sampling(pool, experiment.sampling, where) for name, pool in loaded.items()}
    cells = _cells(experiment, list(found))
    candidates = [
        Cell(f"single(agent={agent.name})" + (f" @ {name}" if len(found) > 1 else ""), name, "single",
             {"agent": agent.name})
        for name, pool in found.items() if any(c.chooses_best for c in cells if c.pool == name)
        for agent in pool.agents
    ]
    if candidates and not experiment.validation:
        raise UserError(f"{where}: 'agent: best' is chosen on validation questions, but there are none; "
                        "list tasks under 'validation' or name an agent")
    configs = {}
    for cell in cells:
        agent = found[cell.pool].agents[0].name
        method = _build(cell.with_agent(agent) if cell.chooses_best else cell, found[cell.pool], where)
        configs[cell.label] = {**method.config, **({"agent": BEST} if cell.chooses_best else {})}
        if prompts := sorted(_prompt_digest(v) for v in vars(method).values() if isinstance(v, PromptSet)):
            configs[cell.label]["prompts"] = prompts
        if learned := getattr(method, "fingerprint", None):  # what a checkpoint holds, whatever its name
            configs[cell.label]["fingerprint"] = learned
    tests = test_questions(experiment)
    validation = {task.label: _questions(task, where) for task in experiment.validation} if candidates else {}
    _check_disjoint(tests, validation, where)
    return Plan(experiment, found, cells, candidates, tests, validation, configs)


def test_questions(experiment: Experiment) -> dict[str, list[Question]]:
    """The questions of each task by its label.

    Raises:
        UserError: for a task whose questions cannot be had.
    """
    return {task.label: _questions(task, str(experiment.place.file)) for task in experiment.tasks}


def digest(questions: Iterable[Question]) -> str:
    """A name for the questions: their ids, texts and gold answers, in order."""
    text = json.dumps([[q.id, q.text, q.gold, list(q.choices)] for q in questions])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _build(cell: Cell, pool: Pool, where: str) -> Method:
    from ..methods import build_method

    try:
        return build_method(cell.name, pool, **cell.settings)
    except UserError as error:
        raise UserError(f"{where}, methods, {cell.label}: {error}") from error


def _cells(experiment: Experiment, pools: Sequence[str]) -> list[Cell]:
    """Every combination of the settings that are lists, on every pool."""
    where = f"{experiment.place.file}, methods"
    rows: list[tuple[str, dict[str, Any], str]] = []  # label, settings, name
    for entry in experiment.methods:
        settings = {key: value for key, value in entry.items() if key not in ("name", "label")}
        values = [value if isinstance(value, list) else [value] for value in settings.values()]
        swept = [key for key, value in settings.items() if isinstance(value, list) and len(value) > 1]
        for chosen in itertools.product(*values):
            row = dict(zip(settings, chosen, strict=True))
            shown = ", ".join(f"{key}={_plain(row[key])}" for key in swept)
            label = entry.get("label", entry["name"])
            rows.append((f"{label}({shown})" if shown else label, row, entry["name"]))
    rows = _tell_apart(rows)
    labels = [label for label, _, _ in rows]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"{where}: {label!r} is listed twice; give each a 'label' of its own")
    baseline = _baseline(experiment.config.baseline, rows, where)
    many, reference = len(pools) > 1, experiment.config.baseline_pool
    if reference is not None and reference not in pools:
        raise unknown("pool", reference, pools, f"{experiment.place.file}, baseline_pool")

    def compared(label: str, pool: str) -> str:
        if not many:
            return baseline if reference is None else label
        return f"{baseline} @ {pool}" if reference is None else f"{label} @ {reference}"

    return [Cell(f"{label} @ {pool}" if many else label, pool, name, row, compared(label, pool))
            for pool in pools for label, row, name in rows]


def _tell_apart(rows: list[tuple[str, dict[str, Any], str]]) -> list[tuple[str, dict[str, Any], str]]:
    """Rows of one label, listed separately, are told apart by their settings."""
    labels = [label for label, _, _ in rows]
    told = []
    for label, row, name in rows:
        same = [other for other_label, other, _ in rows if other_label == label]
        differ = [key for key in row if any(other.get(key) != row[key] for other in same)]
        shown = ", ".join(f"{key}={_plain(row[key])}" for key in differ)
        told.append((f"{label}({shown})" if labels.count(label) > 1 and shown else label, row, name))
    return told


def _baseline(wanted: str | None, rows: list[tuple[str, dict[str, Any], str]], where: str) -> str:
    labels = [label for label, _, _ in rows]
    if wanted is None:
        return labels[0]
    if wanted in labels:
        return wanted
    named = [label for label, _, name in rows if name == wanted or label.startswith(f"{wanted}(")]
    if len(named) == 1:
        return named[0]
    if named:
        raise UserError(f"{where}: baseline {wanted!r} is several rows; choose one of {', '.join(map(repr, named))}")
    raise unknown("baseline", wanted, labels, where)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _with_sampling(pool: Pool, changed: SamplingChanges, where: str) -> Pool:
    pool, answers = copy.copy(pool), asdict(pool.sampling["answer"])
    try:
        pool.sampling = {
            purpose: replace(how, **changed.of(purpose, {key for key in answers if getattr(how, key) != answers[key]}))
            for purpose, how in pool.sampling.items()
        }
    except ValueError as error:
        raise UserError(f"{where}, {error}") from error
    return pool


def _questions(task: TaskConfig, where: str) -> list[Question]:
    from ..tasks import get_task, load_questions

    source = task.file or f"{task.name}, split {task.split}"
    try:
        # a limit, however large: then questions come in drawn order, and the first of them are what a smaller one takes
        most = sys.maxsize if get_task(task.name).generate is None else None
        questions = load_questions(task.name, file=task.file, split=task.split, limit=task.limit or most,
                                   seed=task.seed, **task.settings)
    except UserError as error:
        raise UserError(f"{where}, tasks, {task.label}: {error}") from error
    if not questions:
        raise UserError(f"{where}, tasks, {task.label}: {source} holds no questions")
    seen: set[str] = set()
    for question in questions:
        if not question.text.strip():
            raise UserError(f"{where}, tasks, {task.label}: question {question.id!r} of {source} is empty")
        if question.id in seen:
            raise UserError(f"{where}, tasks, {task.label}: two questions of {source} have the id {question.id!r}")
        seen.add(question.id)
    return questions


def _check_disjoint(tests: Mapping[str, list[Question]], validation: Mapping[str, list[Question]], where: str) -> None:
    from ..tasks import without_overlap

    for (label, questions), (task, asked) in itertools.product(validation.items(), tests.items()):
        apart = {question.id for question in without_overlap(questions, asked)}
        if both := [question.id for question in questions if question.id not in apart]:
            raise UserError(f"{where}, validation, {label}: question {both[0]!r} is also a test question of {task}; "
                            "nothing may be chosen on test questions, so take another split or file")


def _fingerprints(tasks: Iterable[TaskConfig], questions: Mapping[str, list[Question]]) -> dict[str, Any]:
    return {
        task.label: {"name": task.name, "split": task.split, "questions": len(questions[task.label]),
                     "digest": digest(questions[task.label])}
        for task in tasks
    }


def _describe(pool: Pool) -> dict[str, Any]:
    def describe(agent: Any) -> dict[str, Any]:
        return {"name": agent.name, "model": agent.model.name, "card": str(agent.card), "system": agent.system}

    return {
        "agents": [describe(agent) for agent in pool.agents],
        "meta": describe(pool.meta),
        "prompts": _prompt_digest(pool.prompts),
        "variables": pool.variables,
        "sampling": {purpose: asdict(how) for purpose, how in pool.sampling.items()},
    }


def _prompt_digest(prompts: PromptSet) -> str:
    folder = getattr(prompts, "folder", None)
    files = sorted(folder.glob("*.jinja")) if folder is not None else []
    text = b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in files)
    return hashlib.sha256(text).hexdigest()[:16]
