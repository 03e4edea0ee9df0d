"""The experiments of the rivals: files that can be planned, and scripts at toy size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from goa_torch.bench import run_experiment
from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from tests.experiments.test_scripts import EXPERIMENTS, script

AGENTS = [{"name": name, "model": name, "card": {"domain": name}} for name in ("ann", "bob", "cat", "dan")]


@pytest.mark.parametrize("name", ["baselines", "baselines_text", "random_routing", "robustness"])
def test_every_row_of_the_file_can_be_built(name):
    plan = make_plan(load_experiment(EXPERIMENTS / f"{name}.yaml", limit=2))
    assert len(plan.cells) >= 10 and all(len(questions) == 2 for questions in plan.tests.values())


def echoes(tmp_path: Path) -> Path:
    """A pool whose agents say different numbers on their own and one number together."""
    models = {name: {"backend": "echo", "rules": [{"when": "reply", "say": str(5 - number // 3)},
                                                  {"when": ".", "say": str(number)}]}
              for number, name in enumerate(("ann", "bob", "cat", "dan"))}
    path = tmp_path / "echoes.yaml"
    path.write_text(yaml.safe_dump({"prompts": "relay", "models": models, "agents": AGENTS}))
    return path


def test_random_routing_draws_horizons_and_says_what_is_equivalent(tmp_path, capsys):
    folder = run_experiment(
        EXPERIMENTS / "random_routing.yaml", [f"pool={echoes(tmp_path)}", "draws=200"], limit=3, seeds=[0, 1],
        out=tmp_path / "run", quiet=True)
    script("random_routing").main([str(folder)])
    said = capsys.readouterr().out
    assert "3 questions x 2 seeds" in said and "| uncertainty guided |" in said and "majority stable" in said
    assert (folder / "routing.md").read_text().strip() in said
    assert (folder / "horizons.png").stat().st_size > 10_000 and (folder / "stopping.png").stat().st_size > 10_000


def test_robustness_shows_the_drop_against_the_clean_pool(tmp_path, capsys):
    pool = str(echoes(tmp_path))
    path = tmp_path / "robustness.yaml"
    liars = {"name": pool, "label": "leaf", "models.dan.rules": [[{"when": ".", "say": "7"}]]}
    path.write_text(yaml.safe_dump({
        "pool": [{"name": pool, "label": "clean"}, liars | {"about": ["a", "b"]}], "draws": 200,
        "tasks": [{"name": "relay", "limit": 3, "settings": {"depth": 1}}], "baseline_pool": "clean",
        "methods": ["vote", {"name": "mad", "n": None, "history": False, "label": "full"}]}))
    folder = run_experiment(path, out=tmp_path / "run", quiet=True)
    text = (folder / "summary.json").read_text().replace("(about=", "(kind=")  # an echo has no kind of adversary
    (folder / "summary.json").write_text(text)
    script("robustness").main([str(folder)])
    said = capsys.readouterr().out
    rows = {row["method"]: row for row in json.loads(text)["tasks"]["relay"]["rows"]}
    assert f"| leaf: a | {100 * rows['vote @ leaf(kind=a)']['difference']:+.1f}" in said
    assert f"| none: accuracy, % | {100 * rows['vote @ clean']['accuracy']:.1f} [" in said and "| vote | full |" in said
    assert (folder / "drops.png").stat().st_size > 5_000 and (folder / "drops.md").read_text().strip() in said
