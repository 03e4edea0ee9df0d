"""Trainings of learned_topology.py: which ones, with which learning rate, side by side."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goa_torch.agents.calls import Exchange

#: The controller's seed of tuning trials; none of those that are compared.
TRIAL_SEED = 1000


@dataclass(frozen=True)
class Job:
    """A training.

    Attributes:
        training: the file.
        preset: presets of it, joined by +.
        seed: of the controller.
        folder: where it goes.
        factor: of the learning rate.
        shorter: of the steps; 1 for all of them.
        more: further overrides.
    """

    training: Path
    preset: str
    seed: int
    folder: Path
    factor: float = 1.0
    shorter: float = 1.0
    more: Sequence[str] = field(default_factory=tuple)

    @property
    def finished(self) -> bool:
        return (self.folder / "summary.json").is_file()

    def overrides(self) -> list[str]:
        """What the training file is changed by."""
        from goa_torch.training.topology.training import read_training

        asked = [f"preset={self.preset}", f"schedule.seed={self.seed}", *self.more]
        schedule = read_training(self.training, asked).schedule
        every = schedule["validate_every"]
        steps = max(every, int(schedule["steps"] * self.shorter) // every * every)
        changed = [f"schedule.lr={schedule['lr'] * self.factor:g}"] if self.factor != 1 else []
        return asked + changed + ([f"schedule.steps={steps}"] if self.shorter < 1 else [])

    def run(self, exchange: Exchange | None = None) -> None:
        """Trains, or goes on."""
        from goa_torch.training.topology.training import train_topology

        where = f"{self.folder.parent.name}/{self.folder.name}"
        train_topology(self.training, self.overrides(), self.folder, lambda line: print(f"{where}: {line}", flush=True),
                       exchange)


def run_all(jobs: Sequence[Job], workers: int) -> None:
    """Runs what is not finished, ``workers`` trainings at a time; those of one worker share first answers."""
    todo = [job for job in jobs if not job.finished]
    if workers == 1 or len(todo) < 2:
        for number, job in enumerate(todo, start=1):
            _work(job)
            print(f"-- {number} of {len(todo)} trainings", flush=True)
        return
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (threads,)) as pool:
        running = [pool.submit(_work, job) for job in todo]
        try:
            for number, done in enumerate(as_completed(running), start=1):
                done.result()
                print(f"-- {number} of {len(todo)} trainings", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)


_SHARED: dict[tuple[Path, str, tuple[str, ...]], Exchange] = {}


def _begin(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _work(job: Job) -> None:
    from goa_torch.agents.stacked_decoding import StackedExchange
    from goa_torch.training.topology.training import read_training
    from goa_torch.training.topology.world import MemoryCache

    config = read_training(job.training, job.overrides())
    key = (job.training, json.dumps([config.pool, config.task]), tuple(job.more))
    if key not in _SHARED:
        _SHARED.clear()  # the last regime's
        _SHARED[key] = StackedExchange(MemoryCache())
    job.run(_SHARED[key])


def best_of(folder: Path) -> dict[str, Any]:
    """The best validation of a finished training: its step, accuracy and tokens."""
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))["best"]
