"""DebUnc: agents are told how sure the others are, in words or by how loudly they are heard."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.agents.base import Agent
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.topology.confident import Confident, confidence_levels
from goa_torch.types import Card, Reply, Sampling, Usage
from tests.agents.tiny import save_tiny
from tests.worlds import PROMPTS, echo_pool, questions


def test_levels_are_those_of_the_published_code():
    assert confidence_levels([0.2, 0.4, 0.8]) == [8, 4, 2]  # 14 * (4/7, 2/7, 1/7) + 1/3
    assert confidence_levels([1.0, 1.0, 1.0]) == [5, 5, 5]
    assert confidence_levels([0.0, 1.0, 1.0]) == [10, 1, 1]
    assert confidence_levels([float("inf")] * 4) == [5] * 4 and confidence_levels([]) == []
    assert confidence_levels([0.5, float("inf")])[1] == 1


@given(st.lists(st.floats(0, 20) | st.just(float("inf")), min_size=1, max_size=9))
def test_surer_agents_are_never_said_to_be_less_sure(unsure):
    levels = confidence_levels(unsure)
    assert all(1 <= level <= 10 for level in levels)
    assert all(a >= b for u, a in zip(unsure, levels) for v, b in zip(unsure, levels) if u <= v)


def test_prompts_say_how_sure_each_peer_is():
    seen, given_away = [], iter([-0.8, -1.6, -3.2] * 3)

    def outputs(chat):
        seen.append(chat.text)
        return Reply("I say x", log_prob=next(given_away), usage=Usage(1, 5, 4))

    [result] = build_method("debunc", echo_pool(outputs))(questions(1))
    assert len(seen) == 9 and result.usage.calls == 9
    told = [[int(n) for n in re.findall(r"confidence: (\d+)", text)] for text in seen]
    assert told[:3] == [[]] * 3 and told[3:6] == [[4, 2], [8, 2], [8, 4]]
    assert [len(numbers) for numbers in told[6:]] == [4, 4, 4]  # the chat holds the last round, too


def test_without_a_history_the_latest_replies_alone_are_in_the_prompt():
    seen, given_away = [], iter([-0.8, -1.6, -3.2] * 3)

    def outputs(chat):
        seen.append(chat.text)
        return Reply("I say x", log_prob=next(given_away), usage=Usage(1, 5, 4))

    build_method("debunc", echo_pool(outputs), history=False)(questions(1))
    told = [[float(n) for n in re.findall(r"relevance: ([\d.]+)", text)] for text in seen]
    assert told[3:] == [[4, 2], [8, 2], [8, 4]] * 2


def test_weights_of_what_is_heard_are_one_in_the_mean():
    from goa_torch.agents.calls import Recorder
    from goa_torch.nn import first_answers
    from goa_torch.nn.selection import Everyone

    drawn = iter([-0.4, -0.8, -1.6, -2.0])
    pool = echo_pool(lambda chat: Reply("x", log_prob=next(drawn), usage=Usage(1, 5, 4)), n=4)
    asked = questions(1)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    topology = Confident("tokens", "mean")(state, 1)
    for receiver in range(4):
        weight = topology.edge_weight[topology.edge_index[1] == receiver]
        assert weight.mean() == pytest.approx(1) and bool((weight.diff() < 0).all())  # surer peers come first here
    silent = Confident("stated", "mean")(state, 1)
    assert torch.equal(silent.edge_weight, torch.ones(12))


@pytest.mark.parametrize("history", [True, False])
def test_loudness_reaches_the_attention_of_agents_that_have_one(tmp_path, history):
    model = HFModel(save_tiny(tmp_path / "m", seed=1), dtype="float32", name="m")
    agents = [Agent("ann", model, Card("ann"))]
    pool = Pool(agents, PromptSet(PROMPTS / "default"), sampling=Sampling(0.7, max_new_tokens=8))
    [result] = build_method("debunc", pool, tell="attention", history=history)(questions(1))
    edges = [edge for stage in result.trace["stages"] if stage["stage"] == "pass" for edge in stage["edges"]]
    assert len(edges) == 12 and any(abs(weight - 1) > 1e-3 for _, _, weight in edges)
    with pytest.raises(UserError, match="edge"):
        build_method("debunc", echo_pool(), tell="attention")


@pytest.mark.parametrize("settings, words",
                         [({"tell": "x"}, "tell"), ({"source": "x"}, "source"), ({"n": 0}, "n must")])
def test_wrong_settings_are_one_line(settings, words):
    with pytest.raises(UserError, match=words):
        build_method("debunc", echo_pool(), **settings)
