"""The process that confines another and watches it: run by :mod:`goa_torch.sandbox.run`, one JSON job on stdin.

It separates namespaces, forks, and the fork confines itself and plays its role; this one, outside, ends it (and with it
everything it started) when the time is up or when told to.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path


def main() -> None:
    root = str(Path(__file__).resolve().parents[2])
    sys.path[0] = root  # instead of this folder
    confine, roles = (importlib.import_module(f"goa_torch.sandbox.{name}") for name in ("confine", "roles"))
    sys.path[:] = [path for path in sys.path if path != root]
    job = json.load(sys.stdin)
    os.environ.clear()
    channel = roles.Channel(*job["pipes"])
    status = os.dup(1)
    try:
        ids = confine.separate()
    except confine.Refused as error:
        roles.say(status, {"refused": str(error)})
        return
    told = {signal.SIGALRM, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, told)  # until somebody is there to heed them
    child = os.fork()
    if child:
        _watch(child, job, status)
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, told)
    try:
        limits = {getattr(resource, f"RLIMIT_{name}"): most for name, most in job["limits"].items()}
        try:
            confine.confine(ids, job["folders"], limits, job["scratch"])
        except confine.Refused as error:
            roles.say(status, {"refused": str(error)})
            return
        roles.silence()
        sys.path += job["site"]
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a library that starts threads when loaded, which the limits forbid
        roles.say(status, {"confined": True})
        if job["role"] == "judge":
            roles.say(status, roles.be_judge(job, channel))
        else:
            os.close(status)
            roles.be_candidate(job, channel)
    finally:
        os._exit(0)


def _watch(child: int, job: dict, status: int) -> None:
    """Waits for the confined process, at most ``seconds``."""
    def end(*_: object) -> None:
        os.kill(child, signal.SIGKILL)  # the first process of its namespace: all others in it go with it

    for descriptor in (0, 1, status, *job["pipes"]):
        os.close(descriptor)
    signal.signal(signal.SIGALRM, end)
    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGTERM})
    signal.setitimer(signal.ITIMER_REAL, job["seconds"])
    os.waitpid(child, 0)


if __name__ == "__main__":
    main()
