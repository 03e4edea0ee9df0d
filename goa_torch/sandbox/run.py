"""Runs assertions against generated code without trusting it.

Two processes are confined (:mod:`.confine`): the *candidate* holds the generated program, the *judge* the assertions.
Each has its own pid, network, mount and IPC namespace, an unprivileged user, a file system that holds nothing but the
interpreter (read-only) and a scratch folder in memory, an empty environment, and limits on CPU time, memory, processes,
file size, open files and wall-clock time. The candidate is called over a pipe with plain data and gives plain data
back; it has neither the assertions nor the secret word (nonce) that the judge alone reports once all of them held. An
exit code means nothing.

Where a system does not give these (not Linux 5.12 or newer, no namespaces), nothing is run: :func:`need_sandbox`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import UserError

_START = 30.0  # seconds that starting and confining two processes may take, on a busy machine
_GRACE = 5.0  # seconds that ending them may take


@dataclass(frozen=True)
class Limits:
    """What generated code may use; the judge has the same limits.

    Attributes:
        seconds: wall-clock time of all calls of one program together (CPU seconds likewise).
        memory: address space in bytes.
        processes: processes and threads; 1 leaves it alone with itself.
        file_size: of one file, in bytes; ``scratch``: of all of them together.
        open_files: file descriptors.
    """

    seconds: float = 10.0
    memory: int = 1 << 30
    processes: int = 1
    file_size: int = 1 << 22
    scratch: int = 1 << 24
    open_files: int = 32

    def __post_init__(self) -> None:
        least = {"seconds": 0.1, "memory": 1 << 26, "processes": 1, "file_size": 0, "scratch": 4096, "open_files": 16}
        for name, smallest in least.items():
            if not getattr(self, name) >= smallest:
                raise UserError(f"sandbox: {name} must be at least {smallest}, not {getattr(self, name)!r}")


@dataclass(frozen=True)
class Verdict:
    """Whether all assertions held, and if not, in one line why."""

    passed: bool
    reason: str = ""


def run_tests(prompt: str, program: str, test: str, entry_point: str, limits: Limits = Limits()) -> Verdict:
    """Whether the function ``entry_point`` of a program passes its tests.

    Args:
        prompt: source that both sides run first (imports and helpers of a task).
        program: generated source; only the candidate's process sees it.
        test: source that defines ``check(candidate)``, which asserts; only the judge's process sees it.
        entry_point: name of the function that is tested.

    Raises:
        UserError: if this system cannot confine a process.
    """
    if not sys.platform.startswith("linux"):
        raise _unavailable(f"{sys.platform} has none of them")
    nonce = secrets.token_hex(16)
    calls, answers = os.pipe(), os.pipe()
    job = {"prompt": prompt, "entry_point": entry_point, **_confinement(limits)}
    jobs = [
        ({**job, "role": "candidate", "program": program}, (calls[0], answers[1])),
        ({**job, "role": "judge", "test": test, "nonce": nonce}, (answers[0], calls[1])),
    ]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        try:
            for what, pipes in jobs:
                workers.append(_start(pipes))
                _tell(workers[-1], {**what, "pipes": pipes})
        finally:
            for descriptor in (*calls, *answers):
                os.close(descriptor)
        candidate, judge = workers
        heard = _hear(judge, time.monotonic() + limits.seconds + _START)
        candidate.terminate()
        also = _hear(candidate, time.monotonic() + _GRACE)
    finally:
        for worker in workers:
            _end(worker)
    return _verdict(heard, also, nonce, limits)


def _verdict(heard: list[dict[str, Any]], also: list[dict[str, Any]], nonce: str, limits: Limits) -> Verdict:
    for fact in (*heard, *also):
        if "refused" in fact:
            raise _unavailable(fact["refused"])
    if {"nonce": nonce} in heard:
        return Verdict(True)
    failed = next((fact["failed"] for fact in heard if "failed" in fact), None)
    return Verdict(False, " ".join(str(failed).split()) if failed else f"no result within {limits.seconds:g} seconds")


def _unavailable(why: str) -> UserError:
    return UserError(f"generated code runs only in a sandbox of Linux namespaces, and here {why}; use another machine "
                     "or a container that may create them")


@lru_cache(maxsize=1)
def _probe() -> str | None:
    """Why nothing can be run here, ``None`` if it can."""
    try:
        verdict = run_tests("def f(x):\n    pass\n", "def f(x):\n    return x + 1\n",
                            "def check(f):\n    assert f(1) == 2\n", "f", Limits(seconds=20))
    except UserError as error:
        return str(error)
    return None if verdict.passed else str(_unavailable(f"the simplest program fails ({verdict.reason})"))


def need_sandbox() -> None:
    """Raises :class:`UserError`, in one line, unless generated code can be confined on this system."""
    if (why := _probe()) is not None:
        raise UserError(why)


def _confinement(limits: Limits) -> dict[str, Any]:
    paths = sysconfig.get_paths()
    site = list(dict.fromkeys(paths[name] for name in ("purelib", "platlib")))
    cpu = int(limits.seconds) + 1
    return {
        "seconds": limits.seconds, "scratch": limits.scratch, "site": site,
        "folders": sorted({sys.base_prefix, sys.base_exec_prefix, paths["stdlib"], paths["platstdlib"], *site}),
        "limits": {"CPU": cpu, "AS": limits.memory, "NPROC": limits.processes, "FSIZE": limits.file_size,
                   "NOFILE": limits.open_files, "CORE": 0},
    }


def _start(pipes: tuple[int, int]) -> subprocess.Popen[bytes]:
    worker = Path(__file__).with_name("worker.py")
    # no site: nothing of the user's runs before the process is confined; a fixed hash seed: sets have one order
    return subprocess.Popen([sys.executable, "-S", "-s", "-B", str(worker)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PYTHONHASHSEED": "0"}, cwd="/",
                            pass_fds=pipes, start_new_session=True)


def _tell(worker: subprocess.Popen[bytes], job: dict[str, Any]) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(json.dumps(job).encode("ascii"))
        worker.stdin.close()
    except BrokenPipeError:
        pass  # it ended before it had read all; what it said tells why


def _hear(worker: subprocess.Popen[bytes], until: float) -> list[dict[str, Any]]:
    """The lines a worker says before it ends, or before the time is up."""
    worker.stdin = None  # told everything already
    try:
        said, _ = worker.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
    return [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith(b"\n")]


def _end(worker: subprocess.Popen[bytes]) -> None:
    """Ends a worker and, by its death, what it confined."""
    if worker.poll() is None:
        worker.terminate()
        try:
            worker.wait(_GRACE)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    if worker.stdout is not None:
        worker.stdout.close()
