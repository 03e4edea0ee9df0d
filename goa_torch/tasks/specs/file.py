"""Questions of your own, from a file: columns ``question`` and ``gold_answer``, see :mod:`goa_torch.tasks.files`."""

from __future__ import annotations

from ..files import user_row
from ..task import Task

TASK = Task("file", "questions of your own (.jsonl, .json, .csv)", user_row, answers="",
            splits={"test": "", "validation": "", "train": ""})
