from __future__ import annotations

from unittest import mock

import pytest
import torch

from goa_torch.agents.base import Agent
from goa_torch.agents.calls import Recorder
from goa_torch.agents.hf import HFModel
from goa_torch.agents.pool import Pool
from goa_torch.agents.prompts import PromptSet
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.nn import AgentConv, SoftAgentConv, first_answers
from goa_torch.nn.attention import message_bias, parallel_positions
from goa_torch.nn.edges import complete_edges
from goa_torch.nn.selection import Everyone
from goa_torch.types import Card, Chat, Sampling, Topology
from tests.agents.tiny import save_tiny
from tests.worlds import PROMPTS, echo_pool, questions

SCOPES = [("all", "sequential"), ("receiver", "sequential"), ("receiver", "parallel")]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soft")
    models = [HFModel(save_tiny(folder / f"m{i}", seed=i), dtype="float32", name=f"m{i}") for i in range(2)]
    names = ("ann", "bob", "cat")
    agents = [Agent(name, models[i % 2], Card(name), f"You are {name}.") for i, name in enumerate(names)]
    return Pool(agents, PromptSet(PROMPTS / "default"), sampling=Sampling(0.7, max_new_tokens=8))


def make_state(pool, n=2):
    asked = questions(n)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    return state


def complete(state, weight=None):
    edge_index = complete_edges(state.batch)
    weight = torch.ones(edge_index.size(1)) if weight is None else weight
    return Topology(edge_index, weight)


@pytest.mark.parametrize("scope, messages", SCOPES[:2])
def test_weight_one_says_what_plain_concatenation_says(pool, scope, messages):
    soft, plain = make_state(pool), make_state(pool)
    SoftAgentConv(scope, messages)(soft, complete(soft))
    AgentConv("none")(plain, complete(plain))
    assert [r.text for r in soft.replies] == [r.text for r in plain.replies]


@pytest.mark.parametrize("scope, messages", SCOPES)
def test_weights_change_what_is_said(pool, scope, messages):
    one, other = make_state(pool), make_state(pool)
    SoftAgentConv(scope, messages)(one, complete(one))
    SoftAgentConv(scope, messages)(other, complete(other, torch.linspace(0.0, 4.0, 12)))
    assert [r.text for r in one.replies] != [r.text for r in other.replies]


@pytest.mark.parametrize("scope, messages", SCOPES)
def test_the_likelihood_of_a_target_has_the_gradient_of_every_edge(pool, scope, messages):
    state, layer = make_state(pool), SoftAgentConv(scope, messages)
    weight = torch.linspace(0.0, 2.0, 12).requires_grad_()
    told = layer.log_likelihood(state, complete(state, weight), ["four"] * 6)
    assert told.nodes != [] and sorted(told.nodes) == list(range(6)) and told.usage.calls == 6
    gradient, = torch.autograd.grad(told.value.sum(), weight)
    assert gradient.isfinite().all() and gradient.abs().min() > 0
    for edge in (3, 8):
        step = torch.zeros(12)
        step[edge] = 1e-2
        with torch.no_grad():
            up, down = (layer.log_likelihood(state, complete(state, weight + sign * step), ["four"] * 6).value.sum()
                        for sign in (1, -1))
        assert float(gradient[edge]) == pytest.approx(float(up.double() - down.double()) / 2e-2, rel=0.05, abs=2e-3)


@pytest.mark.parametrize("scope, messages", SCOPES)
def test_the_likelihood_is_that_of_one_forward_pass_over_the_same_prompt(pool, scope, messages):
    state, layer = make_state(pool, 1), SoftAgentConv(scope, messages)
    topology = complete(state, torch.tensor([0.3, 2.0, 1.0, 0.5, 1.0, 3.0]))
    told = layer.log_likelihood(state, topology, ["four"] * 3)
    chats = []
    ask = Recorder.ask
    with mock.patch.object(Recorder, "ask", lambda self, requests: (chats.extend(requests), ask(self, requests))[1]):
        layer(state, topology)
    for request in chats:
        model = request.agent.model
        prompt = model.encode(Chat(request.messages))
        tail = [*model.chats.text_ids("four"), model.tokenizer.eos_token_id]
        ids = torch.tensor([prompt.ids + tail])
        message = torch.tensor([prompt.messages + [-1] * len(tail)])
        start = 1 + max(i for i, owner in enumerate(prompt.messages) if owner >= 0)
        parallel = messages == "parallel"
        positions = parallel_positions(message) if parallel else torch.arange(ids.shape[1])[None]
        weights = torch.tensor([heard.weight for _, heard in prompt.heard])
        bias = message_bias(weights, message, torch.tensor([start]) if scope == "receiver" else None, parallel=parallel)
        with torch.no_grad():
            scores = model.module(ids, position_ids=positions, edge_bias=bias).logits[0, -len(tail) - 1 : -1]
        wanted = scores.log_softmax(-1).gather(1, torch.tensor(tail)[:, None]).sum()
        node = next(v for v in range(3) if state.agent_of(v) is request.agent)
        assert float(told.value[told.nodes.index(node)]) == pytest.approx(float(wanted), abs=1e-4)


def test_it_does_not_depend_on_the_batch_nor_on_the_order_of_edges(pool):
    layer, small, large = SoftAgentConv(), make_state(pool, 1), make_state(pool, 3)
    weight = torch.linspace(0.1, 2.0, 6)
    alone = layer.log_likelihood(small, complete(small, weight), ["four"] * 3)
    topology = complete(large, weight.repeat(3))
    turned = torch.randperm(18, generator=torch.Generator().manual_seed(0))
    together = layer.log_likelihood(large, Topology(topology.edge_index[:, turned], topology.edge_weight[turned]),
                                    ["four"] * 9)
    values = dict(zip(together.nodes, together.value.tolist()))
    for node, value in zip(alone.nodes, alone.value.tolist()):
        assert values[node] == pytest.approx(value, abs=1e-4)


def test_an_empty_graph_and_nodes_without_target_are_left_out(pool):
    state, layer = make_state(pool, 1), SoftAgentConv()
    none = Topology(torch.empty(2, 0, dtype=torch.long), torch.empty(0))
    assert layer.log_likelihood(state, none, ["x"] * 3).value.numel() == 0
    assert layer.log_likelihood(state, complete(state), ["x", None, None]).nodes == [0]


def test_a_lone_neighbour_normalised_to_the_mean_weighs_one(pool):
    state = make_state(pool, 1)
    edge = torch.tensor([[0], [1]])
    layer = SoftAgentConv(normalise="mean")
    values = [layer.log_likelihood(state, Topology(edge, torch.tensor([w])), [None, "x", None]).value
              for w in (0.2, 5.0)]
    assert torch.allclose(*values, atol=1e-5)


@pytest.mark.parametrize("settings", [{"scope": "most"}, {"messages": "parallel"}, {"normalise": "sum"}])
def test_settings_that_do_not_go_together_are_one_line(settings):
    with pytest.raises(UserError, match="SoftAgentConv"):
        SoftAgentConv(**settings)


def test_any_method_can_weigh_inside_attention(pool):
    for weighting in ("attention", "attention_receiver", "attention_parallel"):
        [result] = build_method("goa", pool, weighting=weighting, judging="likelihood")(questions(1))
        assert result.calls
    with pytest.raises(UserError, match="edge_weights"):
        build_method("goa", echo_pool(), weighting="attention")


def test_it_says_how_it_weighs():
    assert repr(SoftAgentConv("receiver", "parallel")) == (
        "SoftAgentConv(scope='receiver', messages='parallel', own='latest')")
