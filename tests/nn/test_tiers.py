"""Hearing in tiers: the words for a message go by its weight, whatever else is heard."""

from __future__ import annotations

import pytest
import torch

from goa_torch.agents.calls import Recorder
from goa_torch.nn.selection import Everyone
from goa_torch.nn.tiers import TierConv
from goa_torch.types import Reply, Topology
from tests.worlds import echo_pool, questions


def talk(edges: list[tuple[int, int, float]], names: list[str] | None = None) -> tuple[list[str], dict[str, str]]:
    """The prompts of a round, and the replies by agent."""
    pool = echo_pool(lambda chat: f"heard {len(chat.senders)} {sorted(w for w in chat.text.split() if '-' in w)}",
                     n=4, names=names)
    asked = questions(1)
    state = Everyone()(asked, pool, Recorder(asked, 0, pool.sampling))
    state.replies = [Reply(f"from-{state.agent_of(node).name}") for node in range(4)]
    edge_index = torch.tensor([[a, b] for a, b, _ in edges], dtype=torch.long).reshape(-1, 2).t()
    TierConv("words")(state, Topology(edge_index, torch.tensor([w for *_, w in edges])))
    return ([chat.text for chat in pool.agents[0].model.chats],
            {state.agent_of(node).name: reply.text for node, reply in enumerate(state.replies)})


@pytest.mark.parametrize(("weight", "word"), [(1.0, "high"), (0.5, "moderate"), (0.25, "low")])
def test_a_lone_message_is_called_what_it_is(weight, word):
    [prompt], _ = talk([(0, 1, weight)])
    assert f"relevance: {word}" in prompt


def test_messages_stand_in_the_order_of_their_tiers():
    [prompt], _ = talk([(0, 3, 0.25), (1, 3, 1.0), (2, 3, 0.5)])
    assert [word for word in ("high", "moderate", "low") if word in prompt] == ["high", "moderate", "low"]
    assert prompt.index("high") < prompt.index("moderate") < prompt.index("low")


def test_the_listing_of_the_agents_does_not_matter():
    edges = [(0, 1, 1.0), (2, 1, 0.25), (3, 2, 0.5)]
    plain, turned = talk(edges), talk(edges, ["math", "general", "code", "biomedical"])
    assert sorted(plain[0]) == sorted(turned[0]) and plain[1] == turned[1]


def test_without_edges_nobody_is_called():
    prompts, replies = talk([])
    assert prompts == [] and all(text.startswith("from-") for text in replies.values())
