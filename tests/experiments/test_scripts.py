"""The scripts of experiments/ run at toy size."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def script(name):
    sys.path.insert(0, str(EXPERIMENTS))  # as when it is run as a script
    spec = importlib.util.spec_from_file_location(f"experiments_{name}", EXPERIMENTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXPERIMENTS))
    return module


def test_gpu_check_runs_every_stage_on_a_cpu_at_toy_size(tmp_path, capsys):
    out = tmp_path / "figures.json"
    script("gpu_check").main(["--size", "toy", "--models", "2", "--questions", "3", "--max-new-tokens", "8",
                              "--device", "cpu", "--out", str(out)])
    figures = json.loads(out.read_text())
    calls = {label: f["calls_per_question"] for label, f in figures.items() if isinstance(f, dict) and "calls" in f}
    assert calls == {"goa k=3": 11, "goa k=3 readout=mean": 12, "moa layers=3": 19}
    assert all(f["failed_calls"] == 0 for f in figures.values() if isinstance(f, dict) and "calls" in f)
    assert "new tokens/s" in capsys.readouterr().out


def test_gpu_check_refuses_a_pool_of_no_models():
    with pytest.raises(SystemExit):
        script("gpu_check").main(["--models", "0"])
