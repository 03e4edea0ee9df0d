"""What the two confined processes do: one holds the candidate's function, the other the assertions.

They share neither memory nor user nor process numbers; between them goes plain data (:mod:`.wire`). So whatever the
candidate does to its own interpreter (ending it, patching builtins, walking frames, reading memory, printing guesses)
can change what its function returns and nothing else. The nonce exists in the judge alone.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import sys
from typing import Any

from . import wire

_CHUNK = 65536


class Channel:
    """Lines over a pair of pipes.

    Args:
        reading, writing: file descriptors.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing, self.rest = reading, writing, b""

    def read(self) -> str | None:
        """The next line, ``None`` at the end; ``ValueError`` if it is too long."""
        parts, length = [self.rest], len(self.rest)
        while b"\n" not in parts[-1]:
            if length > wire.LONGEST + _CHUNK:
                raise ValueError("a line that is too long")
            parts.append(os.read(self.reading, _CHUNK))
            length += len(parts[-1])
            if not parts[-1]:
                return None
        line, _, self.rest = b"".join(parts).partition(b"\n")
        return line.decode("ascii")

    def write(self, line: str) -> None:
        data = memoryview(line.encode("ascii") + b"\n")
        while data:
            data = data[os.write(self.writing, data) :]


def be_candidate(job: dict[str, Any], channel: Channel) -> None:
    """Runs the program, then answers calls of its function until the channel ends."""
    random.seed(0)
    names: dict[str, Any] = {"__name__": "candidate"}
    try:
        for source in (job["prompt"], job["program"]):
            exec(compile(source, "<candidate>", "exec", dont_inherit=True, optimize=0), names)
        function, failure = names[job["entry_point"]], None
    except BaseException as error:
        function, failure = None, _raised(error)
    while (line := channel.read()) is not None:
        if failure is None:
            arguments, named = wire.loads(line)
            try:
                answer = wire.dumps({"value": function(*arguments, **named)})
            except BaseException as error:
                answer = wire.dumps(_raised(error))
        else:
            answer = wire.dumps(failure)
        channel.write(answer)


def _raised(error: BaseException) -> dict[str, str]:
    # Not str(error): what a candidate's own exception says is code, which may do or raise anything.
    texts = [text for text in BaseException.args.__get__(error) if type(text) is str]
    return {"raised": type(error).__name__, "said": ", ".join(texts)[:200].encode("utf-8", "replace").decode()}


class CandidateFailure(Exception):
    """The candidate's process ended, or what it said is no answer."""


class Candidate:
    """The candidate's function, as the assertions see it: arguments go there as data, and so does the result come
    back. What the function does to its arguments it does to copies: were they the assertions' own, it could change
    what it is compared with."""

    def __init__(self, channel: Channel, name: str) -> None:
        self._channel = channel
        self.__name__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            self._channel.write(wire.dumps([arguments, named]))
            line = self._channel.read()
            answer = None if line is None else wire.loads(line)
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            raise CandidateFailure(f"no answer ({type(error).__name__})") from None
        if not isinstance(answer, dict):
            raise CandidateFailure("its process ended")
        if "raised" in answer:
            _raise(str(answer["raised"]), str(answer.get("said")))
        return answer.get("value")


def _raise(name: str, said: str) -> None:
    kind = getattr(builtins, name, None)
    known = isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError)
    raise kind(said) if known else CandidateFailure(f"{name}: {said}")


def be_judge(job: dict[str, Any], channel: Channel) -> dict[str, Any]:
    """Runs the assertions on the candidate; the nonce if all of them hold, else what failed."""
    random.seed(0)
    candidate = Candidate(channel, job["entry_point"])
    names: dict[str, Any] = {"__name__": "judge"}
    try:
        exec(compile(job["prompt"], "<prompt>", "exec", dont_inherit=True, optimize=0), names)
        names[job["entry_point"]] = candidate  # tests may call it by its name
        exec(compile(job["test"], "<test>", "exec", dont_inherit=True, optimize=0), names)
        names["check"](candidate)
    except Exception as error:  # whatever it is: an assertion failed, or the candidate raised
        return {"failed": f"{type(error).__name__}: {error}"[:300]}
    return {"nonce": job["nonce"]}


def silence() -> None:
    """Nothing that code prints, and nothing that it reads, is anybody's: the standard streams lead nowhere."""
    nowhere = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)


def say(descriptor: int, fact: dict[str, Any]) -> None:
    """One line of JSON for who started us."""
    os.write(descriptor, json.dumps(fact).encode("ascii") + b"\n")
