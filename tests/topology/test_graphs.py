"""Graphs by name: their shapes, counts and invariants."""

from __future__ import annotations

import networkx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.errors import UserError
from goa_torch.topology.graphs import (
    FixedGraph,
    generations,
    graph_edges,
    graph_names,
    layered,
    numbered_lots,
    random_regular,
    star,
    tree,
)
from tests.topology.test_random_peers import graphs


def pairs(edge_index):
    return set(map(tuple, edge_index.t().tolist()))


@given(st.integers(0, 12), st.sampled_from([name for name in graph_names() if name != "alone"]), st.integers(0, 99))
def test_undirected_graphs_go_both_ways_without_loops_or_duplicates(n, name, seed):
    k = 2 if n > 2 else max(n - 1, 0)
    edge_index = graph_edges(name, n, k=k or 1 if name == "tree" else k, draw=numbered_lots(seed))
    found = pairs(edge_index)
    assert len(found) == edge_index.size(1)
    assert all(a != b and (b, a) in found and 0 <= a < n for a, b in found)


@given(st.integers(1, 12), st.sampled_from(graph_names(directed=True)), st.integers(0, 99))
def test_directed_graphs_run_from_lower_to_higher_positions_and_reach_everybody(n, name, seed):
    edge_index = graph_edges(name, n, draw=numbered_lots(seed), directed=True)
    found = pairs(edge_index)
    assert len(found) == edge_index.size(1) and all(a < b for a, b in found)
    level = generations(edge_index, n)
    assert all(level[a] < level[b] for a, b in found)
    if name != "layered":
        assert {b for _, b in found} == set(range(1, n))


def test_shapes_are_those_of_their_names():
    assert pairs(graph_edges("chain", 4, directed=True)) == {(0, 1), (1, 2), (2, 3)}
    assert pairs(star(4)) == {(0, 1), (0, 2), (0, 3)}
    assert pairs(tree(6)) == {(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)}
    assert pairs(layered(5, 2)) == {(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)}
    assert pairs(graph_edges("ring", 5)) == {(i, (i + s) % 5) for i in range(5) for s in (1, 4)}
    assert len(pairs(graph_edges("mesh", 5, directed=True))) == 10
    assert len(pairs(graph_edges("complete", 5))) == 20
    assert pairs(graph_edges("alone", 3)) == {(0, 0), (1, 1), (2, 2)}


@pytest.mark.parametrize("density", [0, 0.2, 0.5, 1])
def test_erdos_renyi_has_exactly_the_edges_of_its_density(density):
    sizes = {graph_edges("erdos_renyi", 8, density=density, draw=numbered_lots(s)).size(1) for s in range(9)}
    assert sizes == {2 * round(density * 28)}


@given(st.integers(1, 14), st.integers(0, 13), st.integers(0, 999))
def test_random_regular_graphs_are_regular(n, k, seed):
    if k >= n or n * k % 2:
        with pytest.raises(UserError, match="random_regular"):
            random_regular(n, k, numbered_lots(seed))
        return
    edge_index = random_regular(n, k, numbered_lots(seed))
    assert len(pairs(edge_index)) == n * k
    assert torch.bincount(edge_index[1], minlength=n).tolist() == [k] * n


def test_random_regular_graphs_of_six_are_cycles_or_two_triangles_as_often_as_they_should():
    def connected(seed):
        edges = random_regular(6, 2, numbered_lots(seed)).t().tolist()
        return networkx.is_connected(networkx.Graph(edges))

    share = sum(connected(seed) for seed in range(600)) / 600
    assert share == pytest.approx(60 / 70, abs=0.06)  # 60 hexagons, 10 pairs of triangles


def test_generations_wait_for_the_latest_predecessor_and_refuse_cycles():
    assert generations(torch.tensor([[0, 0, 1], [1, 2, 2]]), 4).tolist() == [0, 1, 2, 0]
    with pytest.raises(ValueError, match="cycle"):
        generations(torch.tensor([[0, 1], [1, 0]]), 2)


def test_a_fixed_graph_is_drawn_once_for_each_question_and_seed():
    rule = FixedGraph("erdos_renyi")
    assert torch.equal(rule(graphs([8, 8]), 1).edge_index, rule(graphs([8, 8]), 9).edge_index)
    edge_index = rule(graphs([8, 8]), 1).edge_index
    assert pairs(edge_index[:, edge_index[0] >= 8] - 8) != pairs(edge_index[:, edge_index[0] < 8])
    assert pairs(rule(graphs([8]), 1).edge_index) != pairs(rule(graphs([8], seed=1), 1).edge_index)


@pytest.mark.parametrize("settings, words", [
    ({"graph": "rings"}, "Did you mean 'ring'"), ({"graph": "mesh"}, "unknown graph"),
    ({"graph": "erdos_renyi", "density": 1.5}, "density"),
])
def test_wrong_graphs_are_one_line(settings, words):
    with pytest.raises(UserError, match=words):
        FixedGraph(**settings)
    with pytest.raises(UserError, match="N x k even"):
        FixedGraph("random_regular", k=3).check(5)
