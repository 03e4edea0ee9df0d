"""Whether two mathematical answers are equal: math-verify, safe in threads, bounded in time and memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from functools import lru_cache
from pathlib import Path

from .boxed import read_boxed

_WHOLE = re.compile(r"[-+]?\d{1,1000}")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_VARIABLE = re.compile(r"^[A-Za-z]\s*=\s*(?=[^A-Za-z=]+$)")
# signs around formulas, sizes, thin spaces; "\\" is a line break, and what follows it its own
_SIZES = re.compile(r"\\?\$|(?<!\\)\\(?:[()\[\]!,;: ]|(?:left|right|displaystyle)(?![A-Za-z]))")
_ROOT = re.compile(r"(?<![\\A-Za-z])sqrt\(([^()]*)\)")
#: Longer answers are compared as text alone.
LONGEST = 1000


@lru_cache(maxsize=65536)
def math_equal(gold: str, text: str) -> bool:
    r"""Whether the answer ``text`` equals ``gold``: same number, expression, tuple, interval or set.

    Order matters in tuples and not in sets; ``x = 5`` equals ``5``; exact numbers are compared exactly, decimals to
    six places. Either may be inside ``\boxed``. What cannot be parsed equals nothing but its own spelling, and what
    takes longer than a few seconds or too much memory (``9^{9^{9^9}}``) is not equal. Works from any thread.

    Example:
        >>> math_equal(r"\frac12", "0.5")
        True
    """
    gold, text = canonical(gold), canonical(text)
    if not gold or not text:
        return False
    if gold.replace(" ", "") == text.replace(" ", ""):
        return True
    if _WHOLE.fullmatch(gold) and _WHOLE.fullmatch(text):
        return int(gold) == int(text)
    if max(len(gold), len(text)) > LONGEST:
        return False
    return _judge(os.getpid()).equal(gold, text)


def canonical(answer: str) -> str:
    r"""One spelling for what is written in many: no box, dollar signs, sizes or thin spaces, ``\frac`` with braces, no
    thousands separators, no ``x =`` before a number, no full stop."""
    if "\\boxed" in answer or "\\fbox" in answer:
        answer = read_boxed(answer) or answer
    answer = re.sub(r"(?<=\d)\\[,!](?=\d{3})", "", answer.replace("\u2212", "-").replace("{,}", ","))
    answer = _SIZES.sub(" ", answer)
    answer = re.sub(r"\\[dt]frac(?![A-Za-z])", r"\\frac", answer)
    answer = re.sub(r"\\frac\s*(\d)\s*(\d)(?!\d)", r"\\frac{\1}{\2}", answer)
    answer = re.sub(r"\s+", " ", answer).strip().rstrip(".,;").strip()
    answer = re.sub(r"\^(-?\d{2,}|-\d)", r"^{\1}", answer)  # 2^10, as models write it outside LaTeX
    answer = _ROOT.sub(r"\\sqrt{\1}", answer)
    answer = _VARIABLE.sub("", re.sub(r"(?<![\\A-Za-z])pi(?![A-Za-z])|\u03c0", r"\\pi ", answer))
    return answer.replace(",", "") if _THOUSANDS.fullmatch(answer) else answer


class MathJudge:
    """Compares expressions in worker processes that are killed and replaced when they take too long.

    Args:
        seconds: after which a comparison counts as not equal.
        workers: comparisons that run side by side.
    """

    def __init__(self, seconds: float = 5.0, workers: int = 2) -> None:
        self.seconds = seconds
        self._free = threading.BoundedSemaphore(workers)
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()

    def equal(self, gold: str, text: str) -> bool:
        with self._free:
            with self._lock:
                worker = self._idle.pop() if self._idle else None
            worker = worker or _Worker()
            verdict = worker.ask(gold, text, self.seconds)
            if worker.alive:
                with self._lock:
                    self._idle.append(worker)
        return bool(verdict)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.stop()


class _Worker:
    """One process of :mod:`goa_torch.tasks.math_worker`; it ends with its standard input, so never outlives us."""

    def __init__(self, start_within: float = 120.0) -> None:
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "goa_torch.tasks.math_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, encoding="utf-8", env={**os.environ, "PYTHONPATH": path})
        self.alive = True
        ready = self._read(start_within)
        if not (ready and ready.get("ready")):
            self.stop()
            raise RuntimeError(f"the math worker did not start: {(ready or {}).get('error', 'no reply')}; "
                               "is math-verify installed with its antlr4 runtime?")

    def ask(self, gold: str, text: str, seconds: float) -> bool | None:
        """The verdict, or ``None`` if there was none in time (the process is gone then)."""
        try:
            self._process.stdin.write(json.dumps({"gold": gold, "text": text}) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.stop()
            return None
        verdict = self._read(seconds)
        if verdict is None:
            self.stop()
            return None
        return verdict["equal"]

    def _read(self, seconds: float) -> dict | None:
        clock = threading.Timer(seconds, self._process.kill)  # ends the blocking read below
        clock.daemon = True
        clock.start()
        line = self._process.stdout.readline()
        clock.cancel()
        return json.loads(line) if line.endswith("\n") else None

    def stop(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass  # what was buffered for a process that is gone


@lru_cache(maxsize=1)
def _judge(process: int) -> MathJudge:
    """The judge of this process: one that forks must not share its parent's pipes."""
    return MathJudge()
