"""Graphs from anything that holds one, and their local structure, against NetworkX."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.data import Data

from goa_torch.analysis import (
    as_graph,
    clustering,
    communities,
    degrees,
    density,
    mean_graph,
    modularity,
    path_lengths,
    random_peers_graph,
    reciprocity,
    ring_graph,
    rounds_of,
    small_world_graph,
    small_worldness,
    torus_graph,
    transitivity,
)
from goa_torch.analysis.grouping import _agglomerate
from goa_torch.errors import UserError
from goa_torch.types import Topology

EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 2]])  # senders, receivers
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 3.0])
MATRIX = np.array([[0, 0, 0.5], [1, 0, 0], [3, 2, 0]])


@pytest.mark.parametrize("source", [
    Topology(EDGES, WEIGHTS), Data(edge_index=EDGES, edge_weight=WEIGHTS, num_nodes=3), (EDGES, WEIGHTS),
    MATRIX, torch.tensor(MATRIX), sparse.coo_matrix(MATRIX), as_graph(MATRIX).to_pyg(), as_graph(MATRIX).to_networkx(),
    as_graph(MATRIX).weights,
], ids=lambda source: type(source).__name__)
def test_every_form_is_the_same_graph(source):
    assert as_graph(source).weights.toarray() == pytest.approx(MATRIX)


def test_edges_add_up_zeros_are_none_and_isolated_agents_count():
    graph = as_graph((np.array([[0, 0, 1], [1, 1, 0]]), np.array([1.0, 2.0, 0.0])), num_nodes=4)
    assert graph.n == 4 and graph.num_edges == 1 and graph.weights[1, 0] == 3


@pytest.mark.parametrize(("source", "message"), [
    (-MATRIX, "not negative"), (np.full((2, 2), np.nan), "finite"), (np.ones((2, 3)), "square"),
    ((np.array([[0], [3]]), None), "node 3 in a graph of 2"), ((np.array([[0], [1]]), np.ones(2)), "2 entries for 1"),
    ((np.array([[0, 0], [1, 1]]), np.array([2.0, -1.0])), "not negative"),
])
def test_what_is_no_graph_is_said_in_a_line(source, message):
    with pytest.raises(UserError, match=message):
        as_graph(source, num_nodes=2)


def test_a_trace_is_one_graph_a_round():
    trace = {"agents": ["a", "b"], "stages": [
        {"stage": "answer", "round": 0, "replies": []},
        {"stage": "pass", "round": 1, "edges": [[0, 1, 0.5]], "replies": []},
        {"stage": "pass", "round": 2, "edges": [], "replies": []}]}
    first, second = rounds_of(trace)
    assert first.names == ("a", "b") and first.weights[1, 0] == 0.5 and second.num_edges == 0
    assert mean_graph([first, second]).weights[1, 0] == 0.25
    with pytest.raises(UserError, match="no graphs"):
        mean_graph([])


def random_graph(n: int, p: float, seed: int, directed: bool = True) -> nx.Graph:
    return nx.gnp_random_graph(n, p, seed=seed, directed=directed)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.floats(0, 0.5), st.integers(0, 10**6))
def test_local_structure_is_networkx_s(n, p, seed):
    graph = random_graph(n, p, seed)
    undirected = graph.to_undirected()
    assert clustering(graph) == pytest.approx([nx.clustering(undirected)[i] for i in range(n)])
    assert transitivity(graph) == pytest.approx(nx.transitivity(undirected))
    if n > 1:
        assert density(graph) == pytest.approx(nx.density(graph))
    if graph.number_of_edges():
        assert reciprocity(graph) == pytest.approx(nx.overall_reciprocity(graph))
    found = degrees(graph)
    assert found.hears.tolist() == [graph.in_degree(i) for i in range(n)]
    assert found.heard.tolist() == [graph.out_degree(i) for i in range(n)]


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 25), st.floats(0, 0.4), st.integers(0, 10**6))
def test_path_lengths_are_networkx_s(n, p, seed):
    graph = random_graph(n, p, seed)
    every = nx.all_pairs_shortest_path_length(graph)
    known = [d for source, lengths in every for target, d in lengths.items() if target != source]
    found = path_lengths(graph)
    assert found.reachable.value == pytest.approx(len(known) / (n * (n - 1)))
    assert found.efficiency.value == pytest.approx(sum(1 / d for d in known) / (n * (n - 1)))
    if known:
        assert found.average.value == pytest.approx(np.mean(known)) and found.diameter.value == max(known)
    else:
        assert np.isnan(found.average.value)


def test_sampled_path_lengths_hold_the_truth_in_their_intervals():
    graph = small_world_graph(600, 4, 0.1)
    exact, sampled = path_lengths(graph), path_lengths(graph, samples=40, exact=100)
    assert sampled.sources == 40 and exact.average.low == exact.average.value
    assert sampled.average.low < exact.average.value < sampled.average.high
    assert sampled.average.high - sampled.average.low < 0.1 * exact.average.value
    assert sampled.diameter.low <= exact.diameter.value <= sampled.diameter.high
    assert sampled.efficiency.low < exact.efficiency.value < sampled.efficiency.high


def test_a_star_has_no_triangles_and_costs_nothing():
    star = nx.star_graph(20_000)
    assert clustering(star).max() == 0


def test_modularity_is_networkx_s_and_communities_are_found():
    karate = nx.karate_club_graph()
    halves = [[n for n in karate if karate.nodes[n]["club"] == club] for club in ("Mr. Hi", "Officer")]
    labels = np.array([int(n in halves[1]) for n in karate])
    assert modularity(karate, labels) == pytest.approx(nx.community.modularity(karate, halves))
    directed = random_graph(20, 0.2, 3)
    parts = [set(range(10)), set(range(10, 20))]
    assert modularity(directed, np.arange(20) // 10) == pytest.approx(nx.community.modularity(directed, parts))
    louvain = communities(karate)
    assert louvain.method == "louvain" and louvain.modularity > 0.4
    merged = _agglomerate(as_graph(karate).undirected().weights)
    assert modularity(karate, merged) > 0.38
    cliques = nx.ring_of_cliques(8, 6)
    assert len(set(_agglomerate(as_graph(cliques).undirected().weights))) in range(4, 9)


def test_small_worlds_are_more_clustered_than_random_graphs_of_paths_as_short():
    assert small_worldness(small_world_graph(400, 6, 0.1)) > 3
    assert small_worldness(random_peers_graph(400, 4)) < 3
    assert np.isnan(small_worldness(nx.path_graph(2)))


def test_graphs_that_could_be_run_are_what_they_say():
    assert (degrees(random_peers_graph(50, 3, seed=1)).hears == 3).all()
    assert not (random_peers_graph(50, 3, seed=1).weights != random_peers_graph(50, 3, seed=1).weights).nnz
    assert (random_peers_graph(50, 3, round=1).weights != random_peers_graph(50, 3, round=2).weights).nnz
    assert ring_graph(8).symmetric and (degrees(ring_graph(8)).hears == 2).all()
    assert ring_graph(5, 1).weights[1, 0] == 1 and ring_graph(1).num_edges == 0
    assert nx.is_isomorphic(torus_graph(3, 4).to_networkx().to_undirected(), nx.grid_2d_graph(3, 4, periodic=True))
    assert all(ring_graph(n, k).num_edges == n * min(k, n - 1) for n in (2, 3, 5) for k in (1, 2, 4))
    assert all(random_peers_graph(n, k).num_edges == n * min(k, n - 1) for n in (1, 2, 3, 5) for k in (1, 2, 4))
