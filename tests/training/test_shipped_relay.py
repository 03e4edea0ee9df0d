"""The Relay agents that are shipped: as able as their table says, through the pipeline that language agents use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from goa_torch import build_method, load_pool, load_questions
from goa_torch.agents.pools import pool_names, read_pool
from goa_torch.training.relay.competence import examine_pool

MODELS = Path(__file__).parents[2] / "models"
RELAY = [name for name in pool_names() if name.startswith("relay")]


@pytest.fixture(scope="module")
def pool():
    return load_pool("relay")


def mean(cells: dict) -> float:
    values = [value for by_depth in cells.values() for value in by_depth.values()]
    return sum(values) / len(values)


def chance(share: float, *sizes: int) -> float:
    """How far two shares of so many questions differ by chance: three standard errors, and a question."""
    return 3 * (share * (1 - share) * sum(1 / size for size in sizes)) ** 0.5 + 0.025


@pytest.mark.parametrize(("name", "table"), [("relay", "competence.json"), ("relay_1", "competence_1.json")])
def test_the_stored_competence_table_is_true(name, table):
    stored = json.loads((MODELS / "relay" / table).read_text())
    found = examine_pool(load_pool(name), per_depth=60, seed=1)
    assert stored["questions"] >= 600
    for agent in stored["evaluated"]:
        was = mean(stored["evaluated"][agent])
        assert mean(found.evaluated[agent]) == pytest.approx(was, abs=chance(was, 40, 100))
        for kind in ("right", "stale"):
            was = stored["refined"][agent][kind]["right"]
            assert found.refined[agent][kind]["right"] == pytest.approx(was, abs=0.1)
        assert found.judged[agent]["advanced"] == pytest.approx(stored["judged"][agent]["advanced"], abs=0.12)
    for agent, cells in stored["copied"].items():
        if cells:
            assert mean(found.copied[agent]) == pytest.approx(mean(cells), abs=0.05)
    for k, share in stored["selected"].items():
        assert found.selected[int(k)] == pytest.approx(share, abs=0.12)


def test_experts_evaluate_their_layers_and_leave_the_others(pool):
    stored = json.loads((MODELS / "relay" / "competence.json").read_text())
    for agent in pool.agents:
        assert mean(stored["evaluated"][agent.name]) > 0.75
        assert mean(stored["copied"][agent.name]) > 0.9


def transcripts(pool, batch):
    method = build_method("goa", pool, k=3, readout="mean")
    questions = load_questions("relay", limit=12, depth=(1, 2, 3))
    results = [r for i in range(0, 12, batch) for r in method(questions[i : i + batch], seed=3)]
    return [[[reply["text"] for reply in stage.get("replies", ())] or stage.get("text") for stage in r.trace["stages"]]
            + [r.answer] for r in results]


def test_the_same_seed_gives_the_same_transcript_in_any_batch(tmp_path):
    text = (MODELS / "relay.yaml").read_text().replace("./relay/", f"{MODELS}/relay/")
    (tmp_path / "exact.yaml").write_text(text.replace("backend: hf,", "backend: hf, dtype: float32,"))
    exact = load_pool(tmp_path / "exact.yaml")
    first = transcripts(exact, 12)
    assert first == transcripts(exact, 12) == transcripts(exact, 1)


@pytest.mark.parametrize("name", RELAY)
def test_every_pool_answers(name):
    pool = load_pool(name)
    [result] = build_method("vote", pool)(load_questions("relay", limit=1, depth=1))
    assert not result.reply.failed and result.usage.calls == len(pool)


def test_all_of_relay_is_small_and_says_how_it_was_made():
    folders = [path.parent for path in (MODELS / "relay").rglob("config.json")]
    assert folders
    for folder in folders:
        made = json.loads((folder / "training.json").read_text())
        assert made["commit"] and made["plan"]["agent"] == folder.name and made["validation"]
        assert (folder / "README.md").read_text().startswith("---\n")
        assert (folder / "model.safetensors").stat().st_size < 4_000_000  # 2 million parameters in bfloat16
    assert sum(path.stat().st_size for path in (MODELS / "relay").rglob("*") if path.is_file()) < 60_000_000


def test_pool_seeds_share_no_weights():
    from safetensors.torch import load_file

    first, second = (load_file(MODELS / "relay" / seed / "math" / "model.safetensors") for seed in ("seed0", "seed1"))
    assert first.keys() == second.keys()
    assert all(not (first[name] == second[name]).all() for name in first if first[name].dim() > 1)


def test_no_pool_names_an_agent_that_is_not_shipped():
    for name in RELAY:
        for model in read_pool(name).models.values():
            assert (MODELS / model["source"]).is_dir()
