"""The scripts about gradients into edges run at toy size."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from goa_torch.errors import UserError
from tests.agents.tiny import save_tiny

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def script(monkeypatch):
    """Imports a script by its name."""
    monkeypatch.syspath_prepend(str(EXPERIMENTS))
    return importlib.import_module


@pytest.fixture
def pool(tmp_path):
    save_tiny(tmp_path / "model", extra=tuple(f" {letter}" for letter in "ABCDEFGHIJ"))  # each letter is a token
    path = tmp_path / "pool.yaml"
    path.write_text(json.dumps({
        "name": "toy", "about": "a random agent", "prompts": "relay",
        "models": {"m": {"backend": "hf", "source": "./model"}},
        "agents": [{"name": "ann", "model": "m", "card": {"domain": "ann"}}]}))
    return path


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps({"id": f"q{i}", "question": f"{i} + 1 = ?", "choices": ["1", "2", "3", "4"],
                                        "gold_answer": "ABCD"[i]}) + "\n" for i in range(4)))
    return path


@pytest.mark.parametrize("scope", ["receiver", "all"])
def test_soft_edges_plants_trains_and_measures_at_toy_size(script, pool, questions, tmp_path, scope, capsys):
    figures = script("soft_edges_smollm2").main([
        f"pool={pool}", f"questions.file={questions}", f"scope={scope}", f"out={tmp_path / 'out'}", "train.steps=2",
        "train.batch=2", "weights=[0, 1]", "max_tokens=1000"])
    assert figures["train_questions"] == figures["test_questions"] == 2
    assert figures["left_out"] == 0 and len(figures["training"]) == 3
    ways = figures["ways"]
    assert ways["plain"]["accuracy_minus_plain"] == [0.0, 0.0, 0.0] and set(ways["plain"]["weights"].values()) == {1.0}
    for dose in figures["dose_response"].values():  # weight 1 of one source is plain concatenation
        assert dose[1]["p_gold"][0] == pytest.approx(ways["plain"]["p_gold"][0], abs=1e-6)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", "soft_edges.png"}
    assert "minus plain" in capsys.readouterr().out


def test_soft_edges_gradients_are_slopes(script, pool, questions):
    """Of log p(gold), against a central difference."""
    import torch

    module = script("soft_edges_smollm2")
    source = module.load_pool(pool)
    listener = module.Listener(module.HFModel(source.meta.model.recipe.source, dtype="float32"), source, "receiver")
    question = module.load_questions("mmlu", file=questions)[0]
    case = listener.encode(*module.planted(question, 0, [0.9, 0.5, 0.1], 0))
    weight = torch.tensor([[1.0, 0.7, 1.3]], requires_grad=True)
    listener.log_p(case, weight)[0, 0].backward()
    for place in range(3):
        step = torch.zeros(1, 3)
        step[0, place] = 1e-2
        with torch.no_grad():
            up, down = (listener.log_p(case, weight + sign * step)[0, 0] for sign in (1, -1))
        assert weight.grad[0, place].item() == pytest.approx(float(up - down) / 2e-2, rel=0.03, abs=2e-4)


def test_soft_edges_refuses_settings_without_a_meaning(script, pool, questions):
    module = script("soft_edges_smollm2")
    with pytest.raises(UserError, match="scope is"):
        module.main([f"pool={pool}", f"questions.file={questions}", "scope=some"])
    with pytest.raises(UserError, match="some to train on and to test"):
        module.main([f"pool={pool}", f"questions.file={questions}", "max_tokens=3"])


def test_plantings_have_the_reliability_they_say(script, questions):
    module = script("soft_edges_smollm2")
    question = module.load_questions("mmlu", file=questions)[0]
    drawn = [module.planted(question, number, [0.9, 0.2], 0) for number in range(300)]
    share = [sum(case.right[s] for case, _ in drawn) / 300 for s in range(2)]
    assert abs(share[0] - 0.9) < 0.06 and abs(share[1] - 0.2) < 0.08
    for case, texts in drawn[:20]:
        for seat, source in enumerate(case.source):
            assert texts[seat].endswith(f"Answer: {question.gold}") == case.right[source]


def test_edge_speed_measures_every_way_at_toy_size(script, pool, capsys):
    figures = script("edge_speed").main(["--pool", str(pool), "--batch", "2", "--tokens", "300", "--repeats", "1"])
    assert set(figures["cpu_seconds"]) == {"forward", "plain", "plain, frozen", "edges, scope all",
                                           "edges, scope receiver"}
    assert 200 < figures["tokens"] <= 300
    assert "x plain" in capsys.readouterr().out
