"""The shipped comparisons say what can be run."""

from __future__ import annotations

from pathlib import Path

import pytest

from goa_torch.bench.config import load_experiment
from goa_torch.methods import method_class

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize("name", ["rumad_compare", "rumad_transfer"])
def test_every_method_has_the_settings_that_the_file_gives_it(name):
    experiment = load_experiment(EXPERIMENTS / f"{name}.yaml")
    for entry in experiment.methods:
        known = method_class(entry["name"]).parameters_of()
        assert set(entry) - {"name", "label"} <= set(known), entry
    assert all(task.split == "test" and task.settings for task in experiment.tasks)
