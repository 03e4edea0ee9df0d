"""What theory says of routing rules, beside simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from goa_torch.analysis import theory
from goa_torch.analysis.hypothetical import random_peers_graph, ring_graph, small_world_peers_graph
from goa_torch.analysis.mixing import disagreement
from goa_torch.analysis.paths import path_lengths
from goa_torch.analysis.reach import complete
from goa_torch.analysis.reached import Outcomes, reach_correlation, reach_effect
from goa_torch.analysis.spectra import transition
from goa_torch.analysis.temporal import temporal_reach
from goa_torch.analysis.travel import chain_rounds, in_time
from goa_torch.errors import UserError


def anew(n, k=2, seed=0, graph=random_peers_graph):
    return (graph(n, k, seed, t) for t in itertools.count(1))


def chains(n, depth, count, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.permutation(n)[:depth] for _ in range(count)])


@pytest.mark.parametrize("n, k", [(8, 2), (9, 2), (16, 4), (21, 4)])
def test_reach_and_hops_of_a_ring_are_exact(n, k):
    ring = ring_graph(n, k)
    assert temporal_reach(itertools.repeat(ring), max_rounds=n).everyone == theory.ring_reach(n, k)
    assert path_lengths(ring).average.value == pytest.approx(theory.ring_hop(n, k))


@pytest.mark.parametrize("n", [64, 1024])
def test_reach_of_random_peers_and_small_worlds_is_within_two_rounds_of_theory(n):
    for graph, expected in ((random_peers_graph, theory.random_reach(n)),
                            (small_world_peers_graph, theory.small_world_reach(n))):
        found = np.mean([temporal_reach(anew(n, seed=seed, graph=graph)).everyone for seed in range(3)])
        assert abs(found - expected) < 2


@pytest.mark.parametrize("n, k", [(32, 2), (256, 2), (256, 4)])
def test_hops_over_random_peers_are_those_of_theory(n, k):
    found = np.mean([chain_rounds(anew(n, k, seed), chains(n, 2, 64, seed)).mean() for seed in range(6)])
    assert found == pytest.approx(theory.random_hop(n, k), abs=0.35)


def test_complete_graphs_are_the_limit_of_every_formula():
    assert theory.random_reach(8, 7) == 1 and theory.random_factor(8, 7) == 0
    assert theory.random_factor(2, 1) == 0
    assert theory.random_factor(10**6, 2) == pytest.approx(3**-0.5, abs=1e-5)


@pytest.mark.parametrize("n, k", [(6, 2), (8, 3), (50, 2)])
def test_disagreement_over_random_peers_shrinks_as_theory_says_whatever_the_opinions(n, k):
    opinions = np.random.default_rng(1).exponential(size=(n, 1))
    squares = [disagreement([random_peers_graph(n, k, seed)], opinions)[1] ** 2 for seed in range(1500)]
    error = np.std(squares) / math.sqrt(len(squares))
    assert abs(np.mean(squares) - theory.random_factor(n, k) ** 2) < 4 * error


@pytest.mark.parametrize("n, k", [(8, 2), (15, 2), (12, 4)])
def test_disagreement_on_a_ring_shrinks_by_its_second_eigenvalue(n, k):
    values = np.sort(np.abs(np.linalg.eigvals(transition(ring_graph(n, k), 1.0).toarray())))
    assert theory.ring_factor(n, k) == pytest.approx(values[-2])
    left = disagreement(itertools.repeat(ring_graph(n, k), 60), np.random.default_rng(0).normal(size=(n, 4)))
    assert (left[-1] / left[-11]) ** 0.1 == pytest.approx(theory.ring_factor(n, k), abs=1e-3)


def test_disagreement_in_a_small_world_and_over_peers_that_stay_shrinks_as_theory_says():
    x = np.random.default_rng(0).normal(size=(4096, 8))
    left = disagreement(itertools.islice(anew(4096, graph=small_world_peers_graph), 30), x)
    assert (left[-1] / left[-11]) ** 0.1 == pytest.approx(theory.small_world_factor(), abs=0.01)
    left = disagreement(itertools.repeat(random_peers_graph(4096), 40), x)
    assert (left[-1] / left[-11]) ** 0.1 == pytest.approx(theory.fixed_random_factor(), abs=0.04)


def test_who_agrees_already_stays_agreed_and_nobody_disagrees_with_nobody():
    assert disagreement([ring_graph(4)], np.ones((4, 1))).tolist() == [0, 0]
    assert disagreement([sparse.csr_array((0, 0))], np.zeros((0, 1))).tolist() == [0, 0]


def test_a_chain_on_a_static_graph_takes_the_sum_of_its_distances():
    experts = np.array([[0, 3, 1], [2, 3, 2], [0, 4, 0]])
    assert chain_rounds(itertools.repeat(ring_graph(8)), experts).tolist() == [3 + 2, 1 + 1, 4 + 4]


def test_a_chain_of_one_layer_needs_nobody_and_an_unheard_expert_is_waited_for_in_vain():
    assert chain_rounds([], np.array([[3]])).tolist() == [0]
    deaf = sparse.csr_array(np.array([[0, 1], [0, 0]]))  # 0 hears 1, nobody hears 0
    assert chain_rounds(itertools.repeat(deaf, 9), np.array([[0, 1], [1, 0]])).tolist() == [math.inf, 1]
    assert chain_rounds(itertools.repeat(complete(3).astype(float)), np.array([[0, 1, 2, 0]]), 2).tolist() == [math.inf]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(3, 9), k=st.integers(1, 2), depth=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_chains_do_not_depend_on_the_names_of_the_agents(n, k, depth, seed):
    graphs = [random_peers_graph(n, k, seed, t).weights for t in range(1, 9)]
    rng = np.random.default_rng(seed)
    steps = np.concatenate([rng.integers(0, n, (5, 1)), rng.integers(1, n, (5, depth - 1))], axis=1)
    experts = steps.cumsum(axis=1) % n  # neighbours differ
    order = rng.permutation(n)
    back = np.argsort(order)
    renamed = [graph[order][:, order] for graph in graphs]
    assert chain_rounds(graphs, experts).tolist() == chain_rounds(renamed, back[experts]).tolist()


def test_two_layers_of_one_agent_in_a_row_are_refused():
    with pytest.raises(UserError, match="neighbouring layers"):
        chain_rounds([ring_graph(4)], np.array([[1, 1]]))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(4, 40), k=st.integers(2, 4), seed=st.integers(0, 99))
def test_a_small_world_keeps_its_near_peers_and_draws_different_distant_ones(n, k, seed):
    near = (k + 1) // 2
    if n <= 2 * k - near:
        with pytest.raises(UserError, match="too few"):
            small_world_peers_graph(n, k, seed)
        return
    graph = small_world_peers_graph(n, k, seed).adjacency().toarray() > 0
    ring = ring_graph(n, k).adjacency().toarray() > 0
    kept = ring_graph(n, near).adjacency().toarray() > 0
    assert (graph.sum(axis=1) == k).all() and not graph.diagonal().any()
    assert (graph[kept]).all() and (graph & ring).sum() == n * near


def test_a_recorded_graph_says_whether_the_work_could_arrive():
    def stage(*edges):
        return {"stage": "pass", "edges": [[s, r, 1.0] for s, r in edges]}

    trace = {"agents": ["a", "b", "c"], "stages": [{"stage": "answer"}, stage((0, 2)), stage((2, 1))]}
    skills = {"a": ["sum"], "b": ["flip"], "c": ["word"]}
    assert in_time(trace, ["sum", "word"], skills).tolist() == [False, True, True]
    assert in_time(trace, ["sum", "flip"], skills).tolist() == [False, False, True]
    assert in_time(trace, ["word", "sum"], skills).tolist() == [False, False, False]
    assert in_time({"agents": ["a"], "stages": []}, ["sum"], {"a": ["sum", "flip"]}).tolist() == [True]


@pytest.mark.parametrize("call, said", [
    (lambda: theory.ring_reach(8, 3), "even k"), (lambda: theory.random_hop(1), "at least two agents"),
    (lambda: theory.random_factor(4, 4), "k from 1 to 3"), (lambda: theory.fixed_random_factor(0), "at least 1")])
def test_numbers_that_make_no_graph_are_refused(call, said):
    with pytest.raises(UserError, match=said):
        call()


def outcomes(reached_gain, seed=0, cells=6, questions=80, seeds=3):
    """Right with probability .1, and ``reached_gain`` more if reached; a cell reaches more the higher its number."""
    rng = np.random.default_rng(seed)
    cell, question, _ = (a.ravel() for a in np.meshgrid(*map(np.arange, (cells, questions, seeds)), indexing="ij"))
    reached = rng.random(cell.size) < cell / (cells - 1)
    right = rng.random(cell.size) < 0.1 + reached_gain * reached
    return Outcomes(cell, question % 2, question, right, reached)


def test_what_is_right_because_it_was_reached_is_told_from_what_is_not():
    for gain in (0.0, 0.4):
        effect = reach_effect(outcomes(gain), draws=500)
        assert effect.low < gain < effect.high and effect.high - effect.low < 0.2
    assert reach_correlation(outcomes(0.6), draws=500).low > 0.9
    none = reach_correlation(outcomes(0.0), draws=500)
    assert none.low < 0 < none.high


def test_cells_that_are_all_reached_or_not_at_all_say_nothing_about_the_effect():
    table = outcomes(0.4)
    assert math.isnan(reach_effect(table.only((table.cell == 0) | (table.cell == 5)), draws=50).value)
    assert math.isnan(reach_correlation(table.only(table.cell == 0), draws=50).value)
    with pytest.raises(ValueError, match="no outcomes"):
        reach_effect(table.only(table.cell < 0))


def test_numbers_of_questions_and_order_of_rows_change_nothing():
    table = outcomes(0.3)
    order = np.random.default_rng(5).permutation(len(table.cell))
    moved = Outcomes(*(getattr(table, name)[order] for name in ("cell", "stratum")), 7 + 3 * table.question[order],
                     table.right[order], table.reached[order])
    for measure in (reach_effect, reach_correlation):
        first, second = measure(table, draws=50), measure(moved, draws=50)
        assert (first.value, first.low) == pytest.approx((second.value, second.low))
