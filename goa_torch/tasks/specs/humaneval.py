"""HumanEval (Chen et al. 2021, arXiv 2107.03374): Python functions to write, graded by running their tests.

Files have the benchmark's own columns: ``task_id``, ``prompt``, ``entry_point``, ``test`` (and ``canonical_solution``).
Chat models may write the whole function, others continue the prompt. Generated code runs in
:mod:`goa_torch.sandbox` alone. Deviation from the published harness: the function runs in another process than the
assertions, so arguments and results must be plain data, and what the function does to its arguments stays with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..task import Row, Task


def read(row: Mapping[str, Any]) -> Row:
    metadata = {"prompt": row["prompt"], "entry_point": row["entry_point"]}
    if not str(metadata["entry_point"]).isidentifier():
        raise ValueError(f"'entry_point' {metadata['entry_point']!r} is no name of a function")
    return Row(row["prompt"], row["test"], id=str(row["task_id"]), metadata=metadata)


TASK = Task("humaneval", "Python functions to write, graded by their tests", read, answers="code",
            hub="openai/openai_humaneval", config="openai_humaneval", splits={"test": "test"})
