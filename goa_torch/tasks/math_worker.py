"""The process that compares expressions, one JSON line in, one out: run by :mod:`goa_torch.tasks.equality`.

A process of its own because an expression can be a bomb (``9^{9^{9^9}}``): it can be limited in memory and killed.
"""

from __future__ import annotations

import json
import logging
import os
import sys

SECONDS = 3  # for one step inside; the parent kills what alarms cannot stop
MEMORY = 2 * 1024**3


def equal(gold: str, text: str) -> bool:
    """Whether math-verify finds the two equal. Each is read as one LaTeX formula, whole: its other extractors would
    pick a number out of what they cannot parse."""
    from math_verify import LatexExtractionConfig, parse, verify
    from math_verify.errors import TimeoutException

    seconds = SECONDS if os.name == "posix" else None  # math-verify's alarms; elsewhere the parent's limit is alone
    formula = [LatexExtractionConfig()]
    try:
        a, b = (parse(f"${one}$", formula, parsing_timeout=seconds) for one in (gold, text))
        return bool(a and b) and verify(a, b, timeout_seconds=seconds)
    except (TimeoutException, MemoryError, RecursionError, OverflowError):
        return False


def main() -> None:
    logging.disable(logging.CRITICAL)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):
        pass  # no such limit on this system: the parent's clock remains
    channel, sys.stdout = sys.stdout, sys.stderr  # nothing else may write to the channel
    try:
        equal("\\frac{1}{2}", "0.5")  # loads and warms up everything
    except ImportError as error:
        print(json.dumps({"error": str(error)}), file=channel, flush=True)
        return
    print(json.dumps({"ready": True}), file=channel, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        print(json.dumps({"equal": equal(question["gold"], question["text"])}), file=channel, flush=True)


if __name__ == "__main__":
    main()
