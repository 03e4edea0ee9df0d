"""Experiment files: what to compare, on what, how often."""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..agents.prompts import PURPOSES
from ..config import Place, override, read_yaml, typed
from ..errors import UserError, unknown
from .pools import Entry, check_entries


@dataclass
class TaskConfig:
    """One task of an experiment.

    Attributes:
        name: a registered task (``goa tasks``).
        file: questions from a file instead of the hub; relative to the experiment file, else to the current folder.
        split: which split.
        limit: at most so many questions.
        seed: which of them: ``limit`` takes the first of an order drawn by it, ``null`` the first of the file.
        label: how tables name it; ``name`` by default. Needed where a task is listed twice.
        settings: those of a task that makes its questions (``relay``: ``regime``, ``depth``, ``variant``, ...).
    """

    name: str
    file: str | None = None
    split: str = "test"
    limit: int | None = None
    seed: int | None = 0
    label: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class SamplingChanges:
    """What an experiment changes in the decoding of its pools: how answers are decoded, and with them every purpose
    (select, answer, score, pass, readout) that the pool decodes like answers. Where a pool has a setting of its own for
    a purpose (a judge's short ``max_new_tokens``), only ``by_purpose`` changes it."""

    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    stop: list[str] | None = None
    by_purpose: dict[str, Any] = field(default_factory=dict)

    def of(self, purpose: str, kept: Container[str] = ()) -> dict[str, Any]:
        """The changes for one purpose, ``kept`` being settings that the pool has for it alone."""
        values = {key: value for key, value in vars(self).items() if key != "by_purpose" and value is not None}
        return {key: value for key, value in values.items() if key not in kept} | (self.by_purpose.get(purpose) or {})


@dataclass
class ExperimentConfig:
    """An experiment file: methods x pools x tasks x seeds.

    Attributes:
        methods: names, or mappings of ``name``, the method's settings and, if wanted, a ``label``. A setting that is
            a list is a sweep: every combination is a row of the table (that is how ablations are run). A setting
            whose value is itself a list is written as a list in a list.
        pool: a shipped pool, the path of a pool file (relative to the experiment file, else to the current folder),
            or a list of them: then every method runs on every pool. A mapping of ``name`` and dotted keys of the pool
            file changes it, and a key whose value is a list is a sweep:
            ``{name: liars.yaml, models.liar.kind: [wrong, silent]}`` is two pools (:mod:`goa_torch.bench.pools`).
        tasks: names or :class:`TaskConfig`.
        seeds: random streams of decoding; each question is answered once for each.
        baseline: label or name of the method that the others are compared with; the first by default.
        baseline_pool: name of the pool that the others are compared with, each method with itself there, instead of
            methods with a baseline.
        sampling: see :class:`SamplingChanges`.
        batch_questions: questions that are answered side by side.
        validation: tasks like ``tasks``, for choosing the agent of a method that says ``agent: best``, and for
            nothing else. They must not share a question with ``tasks``.
        margin: accuracies that differ by less count as equivalent (TOST), as a fraction; none by default.
        draws: resamples of the bootstrap, a million at most.
        cache: folder of replies that runs may share; ``off`` for none; inside the run folder by default.
        out: run folder; ``runs/<name of the experiment file>`` by default.
        resolved: written into a run's ``config.yaml``: what names stood for. Ignored when read.
    """

    methods: list[Any]
    pool: Any
    tasks: list[Any]
    seeds: list[int] = field(default_factory=lambda: [0])
    baseline: str | None = None
    baseline_pool: str | None = None
    sampling: Any = field(default_factory=dict)
    batch_questions: int = 48
    validation: list[Any] = field(default_factory=list)
    margin: float | None = None
    draws: int = 10_000
    cache: Any = None
    out: str | None = None
    resolved: Any = None


@dataclass
class Experiment:
    """A checked experiment file: shapes and names of keys are right; what they name is looked up in the plan."""

    place: Place
    methods: list[dict[str, Any]]
    pools: list[Entry]
    tasks: list[TaskConfig]
    validation: list[TaskConfig]
    sampling: SamplingChanges
    config: ExperimentConfig

    @property
    def out(self) -> Path:
        return Path(self.config.out)  # type: ignore[arg-type]

    @property
    def cache(self) -> Path | None:
        """Folder of the reply cache, ``None`` for none."""
        if self.config.cache is None:
            return self.out / "cache"
        return Path(self.config.cache) if self.config.cache is not False else None

    def as_dict(self) -> dict[str, Any]:
        """The experiment as a file that says everything; it can be run itself."""
        tasks = {name: [dict(vars(task)) for task in getattr(self, name)] for name in ("tasks", "validation")}
        sampling = {key: value for key, value in vars(self.sampling).items() if value not in (None, {})}
        values = {key: value for key, value in vars(self.config).items() if key != "resolved"}
        pool = self.pools[0] if len(self.pools) == 1 else self.pools
        return values | tasks | {"methods": self.methods, "pool": pool, "sampling": sampling}


def load_experiment(path: str | Path, overrides: Sequence[str] = (), limit: int | None = None,
                    seeds: Sequence[int] | None = None, out: str | Path | None = None) -> Experiment:
    """Reads an experiment file.

    Args:
        path: the YAML file.
        overrides: ``key=value`` with dotted keys, ``tasks.0.limit=8`` or ``sampling.temperature=0``; values are YAML.
        limit: at most so many questions of each task (and of each validation task).
        seeds: instead of the file's.
        out: run folder instead of the file's.

    Raises:
        UserError: for anything wrong with the file or the overrides, with its place.
    """
    path = Path(path)
    place = Place(path)
    data = override(read_yaml(path), overrides)
    config = typed(ExperimentConfig, data, place)
    if seeds is not None:
        config.seeds = list(seeds)
    if config.out == "" or out is not None and not str(out):
        raise UserError(f"{place / 'out'}: the run folder needs a name; leave it out for runs/{path.stem}")
    config.out = str(out or config.out or Path("runs") / path.stem)
    tasks, validation = (
        [_task(entry, place / key / i, limit) for i, entry in enumerate(getattr(config, key))]
        for key in ("tasks", "validation")
    )
    pools = config.pool if isinstance(config.pool, list) else [config.pool]
    methods = [_method(entry, place / "methods" / i) for i, entry in enumerate(config.methods)]
    for key, listed in (("methods", methods), ("pool", pools), ("tasks", tasks), ("seeds", config.seeds)):
        if not listed:
            raise UserError(f"{place / key}: list at least one")
    if (wrong := check_entries(pools)) is not None:
        raise UserError(f"{place / 'pool'}: must be the name or path of a pool, a mapping with 'name' and what to "
                        "change in its file (label: text that is not empty; lists: at least one value), or a list of "
                        f"them, not {wrong!r}")
    if config.baseline is not None and config.baseline_pool is not None:
        raise UserError(f"{place / 'baseline_pool'}: give baseline or baseline_pool, not both")
    for key, listed in (("pool", pools), ("seeds", config.seeds), ("tasks", [t.label for t in tasks]),
                        ("validation", [t.label for t in validation])):
        twice = [entry for i, entry in enumerate(listed) if entry in listed[:i]]
        if twice:
            remedy = "give each a label of its own" if key in ("tasks", "validation") else "list it once"
            raise UserError(f"{place / key}: {twice[0]!r} is listed twice; {remedy}")
    for key, least, most in (("batch_questions", 1, 1_000_000), ("draws", 100, 1_000_000)):
        if not least <= getattr(config, key) <= most:
            raise UserError(f"{place / key}: must be at least {least} and at most {most:,}, not {getattr(config, key)}")
    if config.margin is not None and not 0 < config.margin < 1:
        raise UserError(f"{place / 'margin'}: a fraction between 0 and 1 (0.02 is two points), not {config.margin}")
    if config.cache in ("off", "none"):
        config.cache = False
    if config.cache is not None and config.cache is not False and not (config.cache and isinstance(config.cache, str)):
        raise UserError(f"{place / 'cache'}: must be a folder or off, not {config.cache!r}")
    experiment = Experiment(place, methods, [_pool(place, pool) for pool in pools], tasks, validation,
                            _sampling(config.sampling, place / "sampling"), config)
    for key in ("out", "cache"):
        _check_folder(getattr(experiment, key), place / key)
    return experiment


def _check_folder(folder: Path | None, place: Place) -> None:
    """Whether ``folder`` is one or could be made."""
    try:
        full = folder.absolute() if folder is not None else None
        above = next(path for path in (full, *full.parents) if path.exists()) if full is not None else None
    except (OSError, ValueError) as error:
        raise UserError(f"{place}: {folder} cannot be a folder ({getattr(error, 'strerror', error)})") from error
    if above is not None and not above.is_dir():
        raise UserError(f"{place}: {above} is a file, not a folder; name another")
    if above is not None and not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"{place}: no permission to write in {above}; name another folder")


def _method(entry: Any, place: Place) -> dict[str, Any]:
    entry = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not all(
            isinstance(key, str) for key in entry):
        raise UserError(f"{place}: must be a method's name, or a mapping with 'name' and its settings, not {entry!r}")
    label = entry.get("label", entry["name"])
    if not isinstance(label, str) or not label.strip() or any(value == [] for value in entry.values()):
        raise UserError(f"{place}: a label is text that is not empty and a list of values is not empty; got {entry!r}")
    return entry


def _task(entry: Any, place: Place, limit: int | None) -> TaskConfig:
    task = typed(TaskConfig, {"name": entry} if isinstance(entry, str) else entry, place)
    task.label = task.label or task.name
    task.limit = limit if limit is not None else task.limit
    if task.limit is not None and task.limit < 1:
        raise UserError(f"{place / 'limit'}: must be at least 1, not {task.limit}")
    if task.file is not None:
        task.file = _near(place, task.file)
        if not Path(task.file).is_file():
            raise UserError(f"{place / 'file'}: no file {task.file}")
    return task


def _near(place: Place, name: str) -> str:
    """A file beside the experiment file, else as it is: relative to the current folder, or no file at all."""
    beside = place.file.parent / name
    return str(beside.resolve()) if beside.is_file() else str(Path(name).resolve()) if Path(name).is_file() else name


def _pool(place: Place, entry: Entry) -> Entry:
    if isinstance(entry, dict):
        return entry | {"name": _pool(place, entry["name"])}
    name = entry
    return _near(place, name) if name.endswith((".yaml", ".yml")) or len(Path(name).parts) > 1 else name


def _sampling(entry: Any, place: Place) -> SamplingChanges:
    changes = typed(SamplingChanges, entry or {}, place)
    for purpose, own in changes.by_purpose.items():
        where = place / "by_purpose" / purpose
        if purpose not in PURPOSES:
            raise unknown("purpose", purpose, PURPOSES, str(where))
        own = typed(SamplingChanges, own, where)
        if own.by_purpose:
            raise UserError(f"{where}: by_purpose cannot hold another by_purpose")
        changes.by_purpose[purpose] = own.of("")
    return changes
