from __future__ import annotations

import pytest
import torch

from goa_torch.agents.calls import Recorder
from goa_torch.nn.agent_conv import AgentConv, first_answers
from goa_torch.nn.selection import Everyone
from goa_torch.types import Topology
from tests.worlds import echo_pool, questions


def make_state(n=3, n_questions=1, outputs=None, **settings):
    pool = echo_pool(outputs or (lambda chat: f"heard {len(chat.senders)}"), n=n, **settings)
    asked = questions(n_questions)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    first_answers(state)
    return state, pool.meta.model


def edges(*triples):
    ends = torch.tensor([[s for s, _, _ in triples], [r for _, r, _ in triples]], dtype=torch.long)
    return Topology(ends.reshape(2, -1), torch.tensor([float(w) for _, _, w in triples]))


def test_isolated_nodes_are_not_called_and_keep_their_reply():
    state, model = make_state()
    before = list(state.replies)
    replies = AgentConv()(state, edges((0, 1, 1)))
    assert model.batches == [3, 1]
    assert replies[0] is before[0] and replies[2] is before[2] and replies[1].text == "heard 2"


def test_an_empty_graph_calls_nobody():
    state, model = make_state()
    before = list(state.replies)
    assert AgentConv()(state, edges()) == before and model.batches == [3]


def test_an_edge_of_weight_zero_is_no_edge():
    state, model = make_state()
    AgentConv()(state, edges((0, 1, 0), (2, 1, 1)))
    assert model.chats[-1].senders == [2, 1]


def test_duplicate_edges_are_heard_once():
    state, model = make_state()
    AgentConv(own="none")(state, edges((0, 1, 1), (0, 1, 1)))
    assert model.chats[-1].senders == [0]


def test_a_self_loop_shows_the_own_reply_once():
    state, model = make_state()
    AgentConv()(state, edges((1, 1, 1), (0, 1, 1)))
    assert sorted(model.chats[-1].senders) == [0, 1]
    AgentConv()(state, edges((2, 2, 1)))
    assert model.chats[-1].senders == [2] and "Reply 1" not in model.chats[-1].text


def test_louder_neighbours_come_first():
    state, model = make_state(4)
    AgentConv(own="none")(state, edges((0, 3, 0.2), (1, 3, 2), (2, 3, 1)))
    assert model.chats[-1].senders == [1, 2, 0]


def test_the_order_of_edges_changes_nothing():
    triples = [(0, 3, 1), (1, 3, 1), (2, 3, 1), (3, 0, 0.5), (1, 0, 0.5)]
    texts = []
    for permuted in (triples, triples[::-1], triples[2:] + triples[:2]):
        state, model = make_state(4)
        AgentConv()(state, edges(*permuted))
        texts.append([chat.text for chat in model.chats])
    assert texts[0] == texts[1] == texts[2]


def test_a_round_is_synchronous():
    state, model = make_state(2, outputs=lambda chat: chat.text[-20:] + "!")
    first = [reply.text for reply in state.replies]
    AgentConv(own="none")(state, edges((0, 1, 1), (1, 0, 1)))
    heard = [next(s.text for m in chat.messages for s in m.spans if s.sender is not None) for chat in model.chats[2:]]
    assert heard == [first[1], first[0]]


def test_inactive_nodes_and_finished_questions_are_not_called():
    state, model = make_state(2, n_questions=2)
    state.done = torch.tensor([True, False])
    topology = edges((0, 1, 1), (2, 3, 1), (3, 2, 1))
    topology.active = torch.tensor([True, True, True, False])
    AgentConv()(state, topology)
    assert model.batches == [4, 1] and model.chats[-1].senders[0] == 3


def test_a_receiver_that_fails_keeps_its_reply_and_the_failure_is_recorded():
    said = iter(["a", "b", None])
    state, _ = make_state(2, outputs=said)
    replies = AgentConv()(state, edges((0, 1, 1)))
    assert replies[1].text == "b"
    assert state.recorder.calls[0][-1].error == "echo was told to fail"
    assert state.traces[0]["stages"][-1]["replies"][0]["error"]


def test_what_does_not_fit_is_cut_from_the_quietest_on_and_the_trace_says_so():
    long = "word " * 40
    state, model = make_state(4, outputs=lambda chat: long, context_length=240)
    AgentConv(own="latest")(state, edges((0, 3, 3), (1, 3, 2), (2, 3, 1)))
    assert model.chats[-1].senders == [0, 1, 3] or model.chats[-1].senders == [0, 3]
    stage = state.traces[0]["stages"][-1]
    assert [2, 3] in stage["cut"] and [2, 3, 1.0] not in stage["edges"]
    assert state.questions[0].text in model.chats[-1].text


@pytest.mark.parametrize("topology, words", [
    (Topology(torch.tensor([[0], [9]]), torch.ones(1)), "node 9"),
    (Topology(torch.tensor([[0], [1]]), torch.tensor([-1.0])), ">= 0"),
    (Topology(torch.tensor([[0], [1]]), torch.tensor([float("nan")])), ">= 0"),
    (Topology(torch.tensor([[0], [3]]), torch.ones(1)), "two questions"),
    (Topology(torch.tensor([[0], [1]]), torch.ones(2)), "one weight"),
    (Topology(torch.tensor([0, 1]), torch.ones(2)), "long [2, E]"),
])
def test_a_wrong_topology_says_what_is_wrong(topology, words):
    state, _ = make_state(3, n_questions=2)
    with pytest.raises(ValueError, match=words.replace("[", r"\[").replace("]", r"\]")):
        AgentConv()(state, topology)


def test_repr_names_the_settings():
    assert repr(AgentConv("numbers", "none")) == "AgentConv(weighting='numbers', own='none')"


def test_a_receiver_never_loses_its_own_message_to_the_context():
    state, model = make_state(outputs=lambda chat: "word " * 40, context_length=64 + 130)
    AgentConv()(state, edges(*[(s, r, 1) for s in range(3) for r in range(3)]))
    for node, chat in enumerate(model.chats[3:]):
        assert node in chat.senders and len(chat.senders) == 2


def test_an_agent_that_hears_only_itself_sees_its_reply_in_every_setting():
    for own in ("latest", "initial", "none"):
        state, model = make_state()
        AgentConv(own=own)(state, edges((1, 1, 1)))
        assert model.chats[-1].senders == [1]


def test_as_few_messages_as_possible_are_cut_with_few_renderings():
    state, model = make_state(n=6, outputs=lambda chat: "word " * 20, context_length=64 + 100)
    rendered = []
    render, state.pool.prompts.render = state.pool.prompts.render, lambda *args: rendered.append(1) or render(*args)
    AgentConv()(state, edges(*[(s, 0, 6 - s) for s in range(1, 6)]))
    heard = len(model.chats[-1].senders)
    counted = model.count_tokens(model.chats[-1])
    assert 1 < heard < 6 and counted <= 100 < counted + 24 and len(rendered) <= 5
    assert len(state.traces[0]["stages"][-1]["cut"]) == 6 - heard


@pytest.mark.parametrize("node, weight, words", [
    (-1, 1.0, "node -1"), (9, 1.0, "node 9"), (0, float("inf"), "finite"), (0, float("nan"), "finite"),
    (0, -1.0, "finite"),
])
def test_a_topology_of_another_batch_or_with_endless_weights_is_refused(node, weight, words):
    state, model = make_state()
    with pytest.raises(ValueError, match=words):
        AgentConv()(state, edges((node, 1, weight)))
