"""Runs an experiment: what is missing, chunk by chunk, all methods and seeds side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

from ..agents.calls import Exchange
from ..errors import UserError
from ..types import Question
from .cache import DiskCache
from .config import load_experiment
from .distributed import Ranks, start_ranks
from .plan import Cell, Plan, make_plan
from .progress import Meter, Progress
from .records import errors, record
from .reference import relay_reference
from .report import write_report
from .store import Item, Record, RunFolder, resolved, write_whole
from .summary import best_agents, slim
from .tables import TABLE_WIDTH, print_summary

if TYPE_CHECKING:
    from rich.console import Console

    from ..agents.pool import Pool
    from ..methods.base import Method


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; its text says how to go on."""


def run_experiment(path: str | Path, overrides: Sequence[str] = (), limit: int | None = None,
                   seeds: Sequence[int] | None = None, out: str | Path | None = None, *,
                   pools: Mapping[str, Pool] | None = None, quiet: bool = False) -> Path:
    """Runs an experiment file (:class:`~goa_torch.bench.config.ExperimentConfig`) and returns the run folder.

    The folder holds ``config.yaml``, ``results.jsonl`` (one line for each method, question and seed),
    ``summary.json``, ``table.md``, ``table.csv`` and ``accuracy_cost.png``, on Relay ``reference.json`` too. If it is
    there already, only what is missing, failed or rests on failed calls is run; more seeds and a larger limit may be
    asked of it, any other change is refused. The process may die at any moment. Started by a launcher, each process
    answers its share of the questions.

    Args:
        path: the experiment.
        overrides: ``key=value`` with dotted keys.
        limit: at most so many questions of each task.
        seeds: instead of the file's.
        out: run folder instead of the file's.
        pools: pools of your own, by the names under which the experiment asks for them.
        quiet: neither progress (standard error) nor the table (standard output).

    Raises:
        UserError: for whatever is wrong before the first call; then nothing was written.
        Interrupted: on Ctrl-C; what is finished is on disk.
    """
    ranks = start_ranks()
    progress = _console(stderr=True) if ranks.main and not quiet else None
    experiment = ranks.together(lambda: load_experiment(path, overrides, limit, seeds, out))
    plan = ranks.together(lambda: make_plan(experiment, pools))
    folder = RunFolder(experiment.out)
    ranks.together(lambda: _check_same(plan, folder))
    with ExitStack() as stack:
        stack.callback(folder.close)
        run = _Run(plan, folder, ranks, progress)
        work = run.missing("validation", plan.candidates, plan.validation)
        work = work or run.missing("test", plan.cells, plan.tests, any_agent=True)
        # whoever has something to do loads the models; nobody writes before everybody has seen what is there
        ranks.together(lambda: [pool.check() for pool in plan.pools.values()] if work else None)
        ranks.together(lambda: _open(plan, folder, bool(work)) if ranks.main else None)
        run.open_cache(stack)
        try:
            run.all_of("validation", plan.candidates, plan.validation)
            ranks.wait()
            run.all_of("test", _with_best(plan, folder), plan.tests)
            ranks.wait()
        except KeyboardInterrupt:
            how = (f"{len(folder.results.latest(bool)):,} results are in {folder.path}; the same command goes on from "
                   "there")
            if progress is not None:
                progress.print(how)
            raise Interrupted(how) from None
        if ranks.main:
            _write_reference(plan, folder)
            summary = write_report(folder.path)
            if not quiet:
                print_summary(summary, console := _console())
                console.print(f"run folder: {folder.path}{run.cache_note()}")
        ranks.wait()
    return folder.path


def _console(stderr: bool = False) -> Console:
    """Where a run speaks. What is not a terminal has no width of its own: tables get theirs."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, markup=False, highlight=False, width=TABLE_WIDTH)
    return console


def _check_same(plan: Plan, folder: RunFolder) -> None:
    old = folder.read_config()
    if old is None:
        return
    changed = plan.changes_since(resolved(old, folder.path / "config.yaml")["identity"])
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise UserError(f"run folder {folder.path} holds results of another configuration: {'; '.join(changed[:3])}"
                        f"{more}; give --out another folder")


def _open(plan: Plan, folder: RunFolder, checked: bool) -> None:
    """Takes the run folder. Models are named by their fingerprints, which are known once they are loaded."""
    if plan.experiment.config.cache is not None and (cache := plan.experiment.cache) is not None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"reply cache {cache}: {error.strerror}; name another folder") from None
    old = (folder.read_config() or {}).get("resolved", {})
    models = dict(old.get("models", {}))
    if checked:
        now = {model.name: model.fingerprint for pool in plan.pools.values() for model in pool.models}
        for name, fingerprint in now.items():
            if models.get(name, fingerprint) != fingerprint:
                raise UserError(f"run folder {folder.path} holds results of model {name!r} as {models[name]}, now it "
                                f"is {fingerprint}; give --out another folder")
        models.update(now)
    versions = {"python": python_version()}
    for package in ("goa_torch", "torch", "transformers"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a clone that is not installed
            continue
    folder.open(plan.experiment.as_dict() | {
        "resolved": {"baselines": {cell.label: cell.baseline for cell in plan.cells}, "identity": plan.identity(),
                     "models": models, "software": versions}
    })


def _write_reference(plan: Plan, folder: RunFolder) -> None:
    """The bars of Relay's tasks, for the report."""
    known = folder.read_reference()
    if reference := relay_reference(plan, _with_best(plan, folder), known):
        if reference != known:
            write_whole(folder.path / "reference.json", json.dumps(reference) + "\n")


def _with_best(plan: Plan, folder: RunFolder) -> list[Cell]:
    """The cells, ``agent: best`` replaced by the agent that did best on the validation questions."""
    if not plan.candidates:
        return plan.cells
    best = best_agents(folder.results.latest(slim).values())
    return [cell.with_agent(best[cell.pool]["agent"]) if cell.chooses_best else cell for cell in plan.cells]


class _Run:
    """One process's work on a run folder."""

    def __init__(self, plan: Plan, folder: RunFolder, ranks: Ranks, console: Console | None) -> None:
        self.plan, self.folder, self.ranks, self.console = plan, folder, ranks, console
        self.cache: DiskCache | None = None
        self.meter = Meter()

    def open_cache(self, stack: ExitStack) -> None:
        """Opens the reply cache for the time of ``stack``."""
        if (where := self.plan.experiment.cache) is not None:
            self.cache = stack.enter_context(DiskCache(where))
            self.meter = Meter(self.cache)

    def cache_note(self) -> str:
        """How large the reply cache has become."""
        if self.cache is None:
            return ""
        return f"; reply cache: {len(self.cache):,} replies, {self.cache.size / 1e6:.1f} MB in {self.cache.folder}"

    def missing(self, part: str, cells: Sequence[Cell], questions: Mapping[str, list[Question]],
                any_agent: bool = False) -> set[Item]:
        """Items without a result, whose latest result failed or rests on calls that did, or whose best agent has
        changed; of every rank.

        ``any_agent``: whichever agent was the best is right (before it is known).
        """
        settings = {cell.label: json.loads(json.dumps(dict(cell.settings), default=str)) for cell in cells}
        wanted = {Item(part, cell.label, task, question.id, seed)
                  for cell in cells for task, listed in questions.items() for question in listed
                  for seed in self.plan.seeds}
        latest = self.folder.results.latest(lambda line: (errors(line), line["settings"]))
        finished = {item for item, (failed, used) in latest.items()
                    if not failed and (any_agent or used == settings.get(item.method))}
        return wanted - finished

    def all_of(self, part: str, cells: Sequence[Cell], questions: Mapping[str, list[Question]]) -> None:
        """Runs this rank's share of what is missing."""
        shares = {task: self.ranks.share(listed) for task, listed in questions.items()}
        missing = self.missing(part, cells, shares)
        if not missing:
            return
        total = sum(map(len, shares.values())) * len(cells) * len(self.plan.seeds)
        methods = {cell.label: self.plan.build(cell) for cell in cells}
        title = part + (f" (rank {self.ranks.rank} of {self.ranks.world})" if self.ranks.world > 1 else "")
        with Progress(self.console, total, total - len(missing), self.meter, title) as progress:
            exchange = Exchange(self.meter, progress.batch)
            for task, share in shares.items():
                open_ids = {item.question for item in missing if item.task == task}
                todo = [question for question in share if question.id in open_ids]
                for chunk in _chunks(todo, self.plan.experiment.config.batch_questions):
                    jobs = [
                        self._job(part, cell, methods[cell.label], task, seed, wanted, exchange, progress)
                        for cell in cells for seed in self.plan.seeds
                        if (wanted := [q for q in chunk if Item(part, cell.label, task, q.id, seed) in missing])
                    ]
                    exchange.together(jobs)

    def _job(self, part: str, cell: Cell, method: Method, task: str, seed: int, questions: list[Question],
             exchange: Exchange, progress: Progress) -> Callable[[], None]:
        def job() -> None:
            results = method(questions, seed=seed, exchange=exchange)
            if [r.question.id for r in results] != [q.id for q in questions]:
                raise RuntimeError(f"{cell.label} gave {len(results)} results for {len(questions)} questions, or in "
                                   "another order; a method returns one Result a question, in order")
            lines: list[Record] = [record(r, part, cell, task, seed, self.ranks.rank) for r in results]
            self.folder.results.append(lines)
            progress.finished(len(lines))

        return job


def _chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
