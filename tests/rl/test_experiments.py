"""The shipped comparisons say what can be run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import yaml

from goa_torch.bench.config import load_experiment
from goa_torch.methods import method_class
from goa_torch.rl.training import plan_training

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.mark.parametrize("name", ["rumad_compare", "rumad_transfer"])
def test_every_method_has_the_settings_that_the_file_gives_it(name):
    experiment = load_experiment(EXPERIMENTS / f"{name}.yaml")
    for entry in experiment.methods:
        known = method_class(entry["name"]).parameters_of()
        assert set(entry) - {"name", "label"} <= set(known), entry
    assert all(task.split == "test" and task.settings for task in experiment.tasks)


def test_every_ablation_is_a_preset_that_changes_what_is_trained():
    script = runpy.run_path(str(EXPERIMENTS / "rumad_ablations.py"))
    plans = [plan_training(EXPERIMENTS / "rumad.yaml", [f"preset=ablation+{name}"]) for name in script["VARIANTS"][1:]]
    plans.append(plan_training(EXPERIMENTS / "rumad.yaml", ["preset=ablation"]))
    assert all(plan.config.agents == "perfect" for plan in plans)
    assert len({str(plan.facts()) for plan in plans}) == len(plans) == len(script["VARIANTS"])


def test_ablations_are_compared_on_test_questions(tmp_path):
    script = runpy.run_path(str(EXPERIMENTS / "rumad_ablations.py"))
    path = tmp_path / "ablations.yaml"
    path.write_text(yaml.safe_dump(script["comparison"]({"ablation, 0": tmp_path / "a", "beta, 0": tmp_path / "b"}, 9)))
    experiment = load_experiment(path)
    assert experiment.config.baseline == "ablation, 0" and len(experiment.methods) == 2
    assert experiment.tasks[0].split == "test" and experiment.tasks[0].limit == 9
