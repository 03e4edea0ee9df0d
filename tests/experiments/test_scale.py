"""What experiments/scale.py measures and draws."""

from __future__ import annotations

import json

import pytest

from goa_torch.agents.pools import load_pool
from goa_torch.bench.config import load_experiment
from goa_torch.bench.plan import make_plan
from tests.experiments.test_scripts import EXPERIMENTS, script


@pytest.fixture(scope="module")
def scale():
    return script("scale")


def test_selection_is_measured_against_lists_by_lot(scale, tmp_path, capsys):
    scale.main(["--sizes", "30", "--lists", "2", "6", "--questions", "12", "--out", str(tmp_path)])
    rows = {row["search"]: row for row in json.loads((tmp_path / "selection.json").read_text())}
    assert set(rows) == {"by lot", "words", "embedding", "words, no variety", "embedding, no variety"}
    assert rows["words"]["recall"]["6"] == 1.0 > rows["words, no variety"]["recall"]["6"]
    assert rows["words"]["recall"]["2"] > rows["by lot"]["recall"]["2"]
    assert rows["words"]["search_ms"] < rows["words"]["select_ms"]
    assert "selection, ms" in capsys.readouterr().out


def test_curves_are_drawn_from_a_run(scale, tmp_path):
    def row(method, accuracy, tokens):
        return {"method": method, "accuracy": accuracy, "low": accuracy - 0.05, "high": accuracy + 0.05,
                "calls": 12, "tokens": tokens, "seconds": 0.02, "unparsed_choices": 0}

    rows = [row("all cards @ relay", 0.6, 500), row("six cards, by words @ relay(size=1000)", 0.6, 500),
            row("six cards, by words @ relay_many(size=100)", 0.5, 500)]
    points = scale.curve({"macro": {"rows": rows}})
    assert [(p["label"], p["kind"], p["agents"]) for p in points] == [
        ("all cards", "6 cards", 6), ("six cards, by words", "6 cards", 1000), ("six cards, by words", "22 cards", 100)]
    scale.draw(points, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_that_is_none_is_said_at_once(scale, tmp_path):
    with pytest.raises(SystemExit):
        scale.main(["--run", str(tmp_path)])


def test_the_experiments_of_scale_are_as_their_text_says():
    pool = load_pool(EXPERIMENTS / "pools" / "relay_many.yaml")
    assert len(pool) == 1000 and len({str(agent.card) for agent in pool.agents}) == 22 and len(pool.models) == 7
    plan = make_plan(load_experiment(EXPERIMENTS / "scale.yaml", limit=2))
    assert sorted(len(pool) for pool in plan.pools.values()) == [6, 10, 100, 100, 1000, 1000]
    plan = make_plan(load_experiment(EXPERIMENTS / "scale_pairs.yaml", limit=2))
    assert [cell.settings.get("pairs") for cell in plan.cells] == [None, 6, 3, 2, None]
