"""Small models of one shape, run as one: the numbers and replies of each on its own."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.calls import Exchange
from goa_torch.agents.echo import EchoModel
from goa_torch.agents.edge_attention import EdgeBias, enable_edge_weights
from goa_torch.agents.hf import HFModel
from goa_torch.agents.stacked import LlamaStack, stackable
from goa_torch.agents.stacked_decoding import StackedExchange, generate_stacked
from goa_torch.nn.teacher_forcing import Lesson, teacher_forced, teacher_forced_together
from goa_torch.types import Chat, Heard, Message, Sampling, Span
from tests.agents.tiny import save_tiny

SAMPLING = Sampling(0.8, max_new_tokens=9)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    return [HFModel(save_tiny(folder / f"m{i}", seed=i), dtype="float32", name=f"m{i}") for i in range(3)]


def chat(text, weights=(), stream=0, **how):
    heard = [part for number, weight in enumerate(weights)
             for part in (Span("\nreply "), Span(f"the answer is {number}", sender=number, heard=Heard(weight, **how)))]
    return Chat((Message("user", (Span(text), *heard, Span("\nyour turn"))),), stream)


def texts(replies):
    return [[(r.text, r.finish_reason, round(r.log_prob, 3), r.usage.completion_tokens) for r in said]
            for said in replies]


@pytest.mark.parametrize("padded", [False, True])
def test_a_stack_gives_the_logits_of_each_model(models, padded):
    modules = [m.module for m in models]
    ids = torch.randint(3, 300, (6, 11), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    if padded:
        mask[::2, :4] = 0
    positions = (mask.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad():
        one = LlamaStack(modules)(ids, mask, positions, logits_to_keep=2).logits
        each = [m(input_ids=ids[2 * i : 2 * i + 2], attention_mask=mask[2 * i : 2 * i + 2],
                  position_ids=positions[2 * i : 2 * i + 2], logits_to_keep=2).logits for i, m in enumerate(modules)]
    assert torch.allclose(one, torch.cat(each), atol=1e-4)


def test_a_stack_hears_edges_as_each_model_does(models):
    modules = [enable_edge_weights(m.module) for m in models]
    ids = torch.randint(3, 300, (3, 12), generator=torch.Generator().manual_seed(1))
    mask, positions = torch.ones_like(ids), torch.arange(12).repeat(3, 1)
    weights = torch.zeros(3, 12)
    weights[:, 3:6], weights[:, 6:8] = -1.5, 0.7
    start = torch.tensor([8, 9, 8])
    with torch.no_grad():
        one = LlamaStack(modules)(ids, mask, positions, EdgeBias(weights, start)).logits
        each = [m(input_ids=ids[i : i + 1], edge_bias=EdgeBias(weights[i : i + 1], start[i : i + 1])).logits
                for i, m in enumerate(modules)]
    assert torch.allclose(one, torch.cat(each), atol=1e-4)


HOW = [{}, {"scope": "receiver"}, {"scope": "receiver", "parallel": True}]


@pytest.mark.parametrize("how", HOW)
def test_models_together_say_what_each_says_alone(models, how):
    chats = [[chat(f"question {i}" + " again" * (3 * i + m), (0.2, 1.0, 1.7)[: i % 4], i, **how)
              for i in range((5, 2, 7)[m])] for m in range(3)]
    samplings = [[SAMPLING] * len(mine) for mine in chats]
    alone = [model.generate(mine, SAMPLING) for model, mine in zip(models, chats)]
    assert texts(generate_stacked(models, chats, samplings)) == texts(alone)


def test_rows_stop_at_their_own_end(models):
    samplings = [[Sampling(0.8, max_new_tokens=n) for n in (1, 20, 5)], [Sampling(0.0, max_new_tokens=30)] * 3,
                 [Sampling(1.0, max_new_tokens=30, stop="e")] * 3]
    chats = [[chat(f"say {i}", stream=i) for i in range(3)]] * 3
    alone = [model.generate(mine, how) for model, mine, how in zip(models, chats, samplings)]
    assert texts(generate_stacked(models, chats, samplings)) == texts(alone)


def test_a_prompt_that_does_not_fit_fails_alone(models):
    chats = [[chat("x " * 600), chat("short")], [chat("other")]]
    said = generate_stacked(models[:2], chats, [[SAMPLING] * 2, [SAMPLING]])
    assert [r.failed for replies in said for r in replies] == [True, False, False]


@pytest.mark.parametrize("how", HOW[1:])
def test_likelihoods_together_have_the_gradients_of_each_alone(models, how):
    lessons = [[Lesson(chat("a question" + " more" * (2 * i + m), (1.0, 1.0), **how), "the answer is B",
                       {0: 2 * m, 1: 2 * m + 1}) for i in range(2 + m)] for m in range(3)]
    found = []
    for together in (True, False):
        weight = torch.linspace(-1, 1, 6).requires_grad_()
        table = torch.cat([weight, torch.zeros(1)])
        if together:
            values, read, written = teacher_forced_together(models, lessons, table)
        else:
            told = [teacher_forced(model, mine, table) for model, mine in zip(models, lessons)]
            values = [value for value, _, _ in told]
            read, written = (sum(t[i] for t in told) for i in (1, 2))
        torch.cat(values).sum().backward()
        found.append((torch.cat(values).detach(), weight.grad, read, written))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-3) and found[0][2:] == found[1][2:]
    assert torch.allclose(found[0][1], found[1][1], atol=1e-3) and bool(found[0][1].all())


def test_only_models_of_one_shape_are_stacked(models, tmp_path):
    wider = HFModel(save_tiny(tmp_path / "wide", hidden_size=64, num_attention_heads=4, head_dim=16), dtype="float32")
    other = HFModel(save_tiny(tmp_path / "qwen", kind="qwen2"), dtype="float32")
    groups = stackable([models[0], wider, other, models[1], EchoModel(lambda c: "x")])
    assert [[m.name for m in group] for group in groups] == [["m0", "m1"]]


def test_an_exchange_asks_those_that_cannot_be_stacked_as_ever(models):
    echo = EchoModel(lambda c: "I say x")
    items = [(model, chat(f"q{i}", stream=i), SAMPLING) for i, model in enumerate([*models, echo, models[0], echo])]
    one, other = StackedExchange().serve(items), Exchange().serve(items)
    assert [r.text for r, _ in one] == [r.text for r, _ in other]
