from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from . import world


@pytest.fixture(autouse=True)
def small_world():
    with world.in_world():
        yield


@pytest.fixture
def write(tmp_path):
    """Writes an experiment file about 'letters', with whatever differs, and returns its path."""

    def write(name: str = "experiment.yaml", questions: int = 6, texts: list[str] | None = None, **more) -> Path:
        world.write_questions(tmp_path / "questions.jsonl", texts or [f"What is {i}?" for i in range(questions)])
        world.write_questions(tmp_path / "validation.jsonl", [f"Where is {i}?" for i in range(8)])
        data = {"methods": ["single", "vote"], "pool": "tiny", "draws": 200,
                "tasks": [{"name": "letters", "file": "questions.jsonl"}]}
        path = tmp_path / name
        path.write_text(yaml.safe_dump({k: v for k, v in (data | more).items() if v is not None}, sort_keys=False))
        return path

    return write
