"""Who is called and what it reads, for given weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.topology.gating import GateConfig, gate


def everybody(b: int, n: int) -> torch.Tensor:
    return torch.ones(b, n, dtype=torch.bool)


def test_an_agent_is_called_if_others_weigh_at_least_as_much_as_itself():
    weights = torch.tensor([[[0.5, 0.4, 0.6], [0.9, 0.7, 0.4], [0.2, 0.2, 0.2]]])
    gated = gate(weights, everybody(1, 3), everybody(1, 3))
    assert gated.called.tolist() == [[True, False, True]]


def test_tiers_are_strict_thresholds():
    weights = torch.tensor([[[0.0, 0.40, 0.41], [0.25, 0.0, 0.26], [0.10, 0.11, 0.0]]])
    gated = gate(weights, everybody(1, 3), everybody(1, 3))
    assert gated.edges.tolist() == [[[0, 0.5, 1.0], [0.25, 0, 0.5], [0, 0.25, 0]]]
    assert gated.visible.tolist() == [5]
    assert gated.density.tolist() == pytest.approx([5 / 6])


def test_who_sees_nothing_is_not_called_and_reads_nothing():
    gated = gate(torch.full((1, 3, 3), 0.05), everybody(1, 3), everybody(1, 3))
    assert gated.silent.tolist() == [True] and not gated.edges.any()


def test_who_is_not_called_reads_nothing():
    weights = torch.full((1, 3, 3), 0.5)
    weights[0, 0, 0] = 0.9
    gated = gate(weights, everybody(1, 3), everybody(1, 3))
    assert not gated.edges[0, 0].any() and gated.edges[0, 1].count_nonzero() == 2


def test_without_activation_everybody_who_sees_a_message_is_called():
    weights = torch.eye(3)[None] * 0.9 + 0.05
    weights[0, 1, 0] = 0.3
    config = GateConfig(activation=False)
    assert gate(weights, everybody(1, 3), everybody(1, 3), config).called.tolist() == [[False, True, False]]


def test_an_agent_reads_the_loudest_messages_and_no_more_than_it_may():
    weights = torch.tensor([[[0.1, 0.5, 0.3, 0.6], [0.4, 0.1, 0.4, 0.4], [0.05, 0.2, 0.1, 0.05], [0.0, 0.0, 0.0, 0.0]]])
    plain, two = (gate(weights, everybody(1, 4), everybody(1, 4), GateConfig(weights="raw", most=m)) for m in (None, 2))
    assert two.edges[0].ne(0).tolist() == [[False, True, False, True], [True, False, True, False],
                                           [False, True, False, False], [False] * 4]
    assert torch.equal(two.called, plain.called) and torch.equal(two.visible, plain.visible)
    assert gate(weights, everybody(1, 4), everybody(1, 4), GateConfig(most=9)).edges.gt(0).equal(plain.edges.gt(0))
    mute = torch.tensor([[True, False, True, True]])
    heard = gate(weights, everybody(1, 4), mute, GateConfig(most=1)).edges[0]
    assert heard.ne(0).nonzero().tolist() == [[0, 3], [1, 0]]  # a place that says nothing takes nobody's


def test_nobody_hears_who_has_nothing_to_say():
    speaks = torch.tensor([[True, False]])
    gated = gate(torch.full((1, 2, 2), 0.5), everybody(1, 2), speaks)
    assert gated.called.tolist() == [[False, True]]


def test_a_lone_agent_and_an_empty_graph_are_silent():
    assert gate(torch.zeros(1, 1, 1), everybody(1, 1), everybody(1, 1)).silent.tolist() == [True]
    none = gate(torch.zeros(1, 0, 0), everybody(1, 0), everybody(1, 0))
    assert none.silent.tolist() == [True] and none.density.tolist() == [0]


@given(st.integers(1, 5), st.integers(0, 1000), st.sampled_from(["tiers", "raw", "ones"]))
def test_permuting_agents_permutes_what_the_gate_makes_of_them(n, seed, kind):
    draw = torch.Generator().manual_seed(seed)
    weights, order = torch.rand(1, n, n, generator=draw), torch.randperm(n, generator=draw)
    config, here = GateConfig(weights=kind), everybody(1, n)
    plain, turned = gate(weights, here, here, config), gate(weights[:, order][:, :, order], here, here, config)
    assert torch.equal(plain.edges[:, order][:, :, order], turned.edges)
    assert torch.equal(plain.called[:, order], turned.called)


def test_padding_changes_nothing():
    weights = torch.rand(1, 3, 3, generator=torch.Generator().manual_seed(0))
    padded = torch.ones(1, 5, 5)
    padded[:, :3, :3] = weights
    here = torch.tensor([[True, True, True, False, False]])
    plain, wide = gate(weights, everybody(1, 3), everybody(1, 3)), gate(padded, here, here)
    assert torch.equal(wide.edges[:, :3, :3], plain.edges) and not wide.edges[:, 3:].any()
    assert wide.called[:, :3].equal(plain.called) and not wide.called[:, 3:].any()


def test_the_topology_of_a_batch_keeps_graphs_apart():
    here = torch.tensor([[True, True], [True, False], [True, True]])
    gated = gate(torch.full((3, 2, 2), 0.5), here, here)
    topology = gated.topology(torch.tensor([0, 0, 1, 2, 2]))
    assert sorted(map(tuple, topology.edge_index.t().tolist())) == [(0, 1), (1, 0), (3, 4), (4, 3)]
    assert topology.active.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("settings", [{"background": 0.3}, {"critical": 1.0}, {"weights": "tier"}, {"most": 0}])
def test_thresholds_that_make_no_sense_are_refused(settings):
    with pytest.raises(UserError, match="gate"):
        GateConfig(**settings)
