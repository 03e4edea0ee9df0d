"""Our questions as a task of the harness."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError
from ..types import Question


def write_task(questions: Sequence[Question], folder: str | Path, name: str | None = None) -> Path:
    """Writes ``questions`` as a ``generate_until`` task of lm-evaluation-harness and returns its YAML file.

    Give ``folder`` to the harness (``--include_path FOLDER --tasks NAME``, or ``TaskManager(include_path=...)``), and
    the model ``returns=answer`` with the reader of these questions: then the metric, ``exact_match`` of the answer that
    our reader finds with the gold answer, is ``goa bench``'s accuracy for answers of one spelling (choices, numbers,
    Relay).

    Args:
        questions: of one task.
        folder: made if it is not there.
        name: of the task; by default that of the questions, which also keeps their random streams.
    """
    names = sorted({question.task for question in questions})
    if not questions or (name is None and (len(names) != 1 or not names[0])):
        raise UserError(f"questions of one task are needed, not of {', '.join(names) or 'none'}; or give a name")
    name = name or names[0]
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{name}.jsonl"
    rows = [{"id": question.id, "question": question.text, "gold": question.gold} for question in questions]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    # every text is a JSON string, which is YAML, too
    path = folder / f"{name}.yaml"
    path.write_text(f"""task: {json.dumps(name)}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {json.dumps(str(data))}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{gold}}}}"
target_delimiter: ""
generation_kwargs:
  until: []
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: false
    ignore_punctuation: false
metadata:
  version: 1.0
""", encoding="utf-8")
    return path
