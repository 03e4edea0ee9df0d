"""Eigenvalues, resistance, consensus and centrality: closed forms, dense algebra, and graphs at the edge."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from goa_torch.analysis import (
    algebraic_connectivity,
    as_graph,
    centrality,
    communities,
    consensus,
    effective_resistance,
    eigenvector_centrality,
    katz_centrality,
    laplacian,
    pagerank,
    random_peers_graph,
    ring_graph,
    small_world_graph,
    spectral_gap,
    torus_graph,
    transition,
)
from goa_torch.analysis.linear import fills_little, smallest_eigenvalue
from goa_torch.analysis.ranking import _power_iteration
from goa_torch.analysis.spectra import closed_classes, periods
from goa_torch.errors import UserError

SOLVERS = ("dense", "direct", "iterative")


def close(value, expected):
    """Within the 1% that is promised."""
    return pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("n", [12, 101, 5000, 100_000])
def test_rings_match_the_closed_form(n):
    ring = ring_graph(n)
    found = algebraic_connectivity(ring)
    assert found.value == pytest.approx(2 - 2 * np.cos(2 * np.pi / n), rel=0.01)
    assert found.residual < 0.01 * found.value
    assert effective_resistance(ring).mean.value == pytest.approx((n + 1) / 6, rel=0.01)
    lazy = spectral_gap(ring, self_weight=1.0)
    assert lazy.value == pytest.approx(1 - (1 + 2 * np.cos(2 * np.pi / n)) / 3, rel=0.01)


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (30, 41), (90, 100)])
def test_tori_match_the_closed_form(rows, columns):
    torus = torus_graph(rows, columns)
    slow = 2 - 2 * np.cos(2 * np.pi / max(rows, columns))
    assert algebraic_connectivity(torus).value == pytest.approx(slow, rel=0.01)
    a, b = np.meshgrid(2 - 2 * np.cos(2 * np.pi * np.arange(rows) / rows),
                       2 - 2 * np.cos(2 * np.pi * np.arange(columns) / columns))
    trace = (1 / (a + b).ravel()[1:]).sum()
    assert effective_resistance(torus).mean.value == pytest.approx(2 * trace / (rows * columns - 1), rel=0.01)
    assert spectral_gap(torus, self_weight=1.0).value == pytest.approx(slow / 5, rel=0.01)


@pytest.mark.parametrize("n", [9, 101, 20_001])
def test_odd_rings_mix_as_slowly_as_their_negative_eigenvalue_says(n):
    assert spectral_gap(ring_graph(n)).value == pytest.approx(1 - np.cos(np.pi / n), rel=0.01)


@pytest.mark.parametrize("n", [10, 1000, 50_000])
def test_directed_cycles_that_listen_to_themselves_match_the_closed_form(n):
    assert spectral_gap(ring_graph(n, 1), self_weight=1.0).value == pytest.approx(1 - np.cos(np.pi / n), rel=0.01)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("make", [lambda: small_world_graph(500, 4, 0.2), lambda: random_peers_graph(500, 3)],
                         ids=["small world", "random peers"])
def test_every_solver_is_dense_algebra_at_500(make, solver):
    graph = make()
    values, vectors = np.linalg.eigh(laplacian(graph).toarray())
    found = algebraic_connectivity(graph, solver)
    assert found.solver == solver and found.value == pytest.approx(values[1], rel=0.01)
    exact = 2 * (1 / values[1:]).sum() / 499
    resistance = effective_resistance(graph, samples=120, solver=solver)
    assert resistance.mean.value == pytest.approx(exact, rel=0.02)
    assert resistance.mean.low <= exact <= resistance.mean.high or solver == "dense"
    walk = np.linalg.eigvals(transition(graph, 0.5).toarray())
    second = np.sort(np.abs(walk))[-2]
    assert spectral_gap(graph, 0.5, solver).value == pytest.approx(1 - second, rel=0.01)


def test_the_solver_goes_by_structure():
    assert fills_little(laplacian(ring_graph(5000))) and fills_little(laplacian(torus_graph(80, 80)))
    assert not fills_little(laplacian(random_peers_graph(5000, 3)))
    assert algebraic_connectivity(torus_graph(80, 80)).solver == "direct"
    assert algebraic_connectivity(random_peers_graph(5000, 3)).solver == "iterative"


def test_what_did_not_converge_is_nan_and_says_how_far_it_got():
    path = laplacian(nx.path_graph(3000))
    found = smallest_eigenvalue(path, np.full(3000, 3000**-0.5), "iterative")
    assert np.isnan(found.value) and found.residual > 0
    assert np.isnan(_power_iteration(as_graph(nx.path_graph(3000)).weights)).all()


def test_graphs_at_the_edge_have_defined_results():
    empty, single, apart = np.zeros((0, 0)), np.zeros((1, 1)), np.zeros((3, 3))
    for graph in (empty, single):
        assert np.isnan(algebraic_connectivity(graph).value)
        assert np.isnan(effective_resistance(graph).mean.value)
    assert algebraic_connectivity(apart).value == 0 and effective_resistance(apart).mean.value == np.inf
    assert np.isnan(spectral_gap(empty).value) and spectral_gap(single).value == 1 and spectral_gap(apart).value == 0
    assert pagerank(empty).size == 0 and pagerank(single) == pytest.approx([1])
    assert pagerank(apart) == pytest.approx([1 / 3] * 3)
    assert np.isnan(eigenvector_centrality(apart)).all() and katz_centrality(apart) == pytest.approx([3**-0.5] * 3)
    assert consensus(empty).weights.size == 0
    assert consensus(single).agrees and consensus(single).weights == pytest.approx([1])
    disconnected = consensus(apart)
    assert not disconnected.agrees and disconnected.converges and disconnected.weights == pytest.approx([1 / 3] * 3)
    assert disconnected.rate == 1 and disconnected.rounds == np.inf


def test_a_periodic_graph_never_settles_without_self_weights():
    even = consensus(ring_graph(8), self_weight=0.0)
    assert not even.converges and even.rate == 1 and even.weights == pytest.approx([1 / 8] * 8)
    assert spectral_gap(ring_graph(8)).value == 0
    cycle = consensus(ring_graph(7, 1), self_weight=0.0)
    assert not cycle.converges and cycle.weights == pytest.approx([1 / 7] * 7)
    assert consensus(ring_graph(7), self_weight=0.0).converges


def test_consensus_weights_are_the_limit_of_averaging():
    for graph in (nx.gnp_random_graph(30, 0.15, seed=2, directed=True), nx.star_graph(6), nx.path_graph(9),
                  nx.DiGraph([(0, 1), (0, 2), (3, 2), (2, 4)])):
        matrix = transition(graph, 1.0).toarray()
        limit = np.linalg.matrix_power(matrix, 1 << 20).mean(axis=0)
        found = consensus(graph)
        assert found.weights == pytest.approx(limit, abs=1e-6) and found.residual < 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_consensus_of_directed_graphs_is_the_same_with_every_solver(solver):
    graph = random_peers_graph(120, 3)
    assert consensus(graph, solver=solver).weights == pytest.approx(consensus(graph, solver="dense").weights, rel=1e-5)


def test_pagerank_is_networkx_s_on_reversed_edges():
    graph = nx.gnp_random_graph(40, 0.1, seed=5, directed=True)
    expected = nx.pagerank(graph.reverse(), tol=1e-12)
    assert pagerank(graph) == pytest.approx([expected[i] for i in range(40)], abs=1e-8)


def test_eigenvector_and_katz_centrality_are_networkx_s_on_reversed_edges():
    graph = nx.gnp_random_graph(40, 0.2, seed=5, directed=True)
    expected = nx.eigenvector_centrality_numpy(graph.reverse())
    assert eigenvector_centrality(graph) == pytest.approx([expected[i] for i in range(40)], abs=1e-6)
    matrix = as_graph(graph).weights.T
    assert _power_iteration(matrix.tocsr()) == pytest.approx([expected[i] for i in range(40)], abs=1e-3)
    katz = nx.katz_centrality_numpy(graph.reverse(), alpha=0.05)
    assert katz_centrality(graph, 0.05) == pytest.approx([katz[i] for i in range(40)], abs=1e-8)
    assert np.isnan(katz_centrality(graph, 5.0)).all()


def test_centralities_do_not_depend_on_the_order_of_agents():
    graph = as_graph(nx.gnp_random_graph(25, 0.2, seed=8, directed=True))
    order = np.random.default_rng(0).permutation(25)
    permuted = graph.weights[order][:, order]
    for name in ("heard", "hears", "pagerank", "eigenvector", "katz", "consensus"):
        assert centrality(permuted, name) == pytest.approx(centrality(graph, name)[order], abs=1e-8), name
    with pytest.raises(UserError, match="unknown centrality"):
        centrality(graph, "fame")


def test_dense_graphs_whose_eigenvalues_are_small_are_dense_algebra_too():
    graph = np.random.default_rng(0).random((500, 500))
    moduli = np.sort(np.abs(np.linalg.eigvals(transition(graph).toarray())))
    assert spectral_gap(graph).value == pytest.approx(1 - moduli[-2], rel=0.01)
    assert consensus(graph).rate < 0.1


def test_each_closed_class_has_its_own_period():
    cycles = [nx.cycle_graph(n, create_using=nx.DiGraph) for n in (2, 3, 5, 6)]
    joined = nx.disjoint_union_all([*cycles, nx.DiGraph([(0, 1), (1, 2), (2, 0), (1, 0)])])
    matrix = transition(nx.to_scipy_sparse_array(joined).T)
    classes = closed_classes(matrix)
    assert sorted(zip(map(len, classes), periods(matrix, classes).tolist())) == [(2, 2), (3, 1), (3, 3), (5, 5), (6, 6)]


def test_weights_of_any_size_leave_modularity_as_it_is():
    karate = nx.to_numpy_array(nx.karate_club_graph())
    for scale in (2.0**-900, 2.0**900):
        assert communities(scale * karate).modularity == pytest.approx(communities(karate).modularity)


@pytest.mark.parametrize("source", ["abc", None, 5, [[1, 2], [3]], np.ones(3), {"a": 1}])
def test_what_is_no_graph_is_said_in_a_line(source):
    with pytest.raises(UserError, match="no graph can be read from"):
        as_graph(source)
