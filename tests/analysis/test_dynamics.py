"""News that travels, right answers in graphs, edges left out, and everything at once."""

from __future__ import annotations

import itertools
import math
import time

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from goa_torch.analysis import (
    analyse,
    assortativity,
    assortativity_and_right,
    centrality_and_right,
    edge_influence,
    modularity,
    path_lengths,
    random_peers_graph,
    ring_graph,
    rounds_of,
    rounds_to_networkx,
    rounds_to_pyg,
    temporal_reach,
    without_edge,
)
from goa_torch.analysis.influence import used_edges
from goa_torch.errors import UserError
from goa_torch.methods import build_method
from goa_torch.methods.replay import replay_without
from tests.worlds import echo_pool, questions


def test_on_a_static_graph_news_takes_the_diameter():
    for graph in (ring_graph(9), ring_graph(6, 1), nx.gnp_random_graph(20, 0.3, seed=1, directed=True)):
        found = temporal_reach(itertools.repeat(graph), max_rounds=50)
        assert found.everyone == path_lengths(graph).diameter.value
        assert found.share[0] == 0 and found.share[-1] == 1 and (np.diff(found.share) >= 0).all()


def test_the_order_of_rounds_matters():
    there = nx.DiGraph([(0, 1)])
    there.add_node(2)
    on = nx.DiGraph([(1, 2)])
    on.add_node(0)
    on = nx.to_scipy_sparse_array(on, [0, 1, 2]).T
    there = nx.to_scipy_sparse_array(there, [0, 1, 2]).T
    assert temporal_reach([there, on]).by_source[0] == 2
    assert temporal_reach([on, there]).by_source[0] == math.inf


def test_news_that_never_arrives_and_graphs_of_one_or_none():
    assert temporal_reach([np.zeros((3, 3))] * 4).everyone == math.inf
    assert temporal_reach([np.zeros((1, 1))]).everyone == 0
    assert temporal_reach([]).everyone == 0


def test_random_peers_need_about_as_many_rounds_as_the_theory_of_rumours_says():
    for n in (300, 4000):
        found = temporal_reach(random_peers_graph(n, 2, seed=3, round=t) for t in itertools.count(1))
        one, all_of_them = math.log(n, 3), math.log(n, 3) + math.log(n) / 2
        assert one + 1 <= found.mean.value <= one + 5, n
        assert len(found.sources) == (n if n == 300 else 32) and found.everyone <= all_of_them + 5
    small = temporal_reach(random_peers_graph(300, 2, round=t) for t in itertools.count(1))
    assert all_of_them - 3 <= small.everyone + math.log(4000 / 300, 3) + math.log(4000 / 300) / 2 <= all_of_them + 5


def test_assortativity_is_networkx_s():
    graph = nx.gnp_random_graph(30, 0.2, seed=4, directed=True)
    right = np.arange(30) % 3 == 0
    nx.set_node_attributes(graph, dict(enumerate(right.tolist())), "right")
    assert assortativity(graph, right) == pytest.approx(nx.attribute_assortativity_coefficient(graph, "right"))
    assert math.isnan(assortativity(graph, np.ones(30))) and math.isnan(assortativity(np.zeros((2, 2)), np.ones(2)))


def trace_of(edges: list, answers: list[str]) -> dict:
    replies = [{"node": i, "text": a, "answer": a} for i, a in enumerate(answers)]
    return {"agents": list("abcd"), "stages": [{"stage": "answer", "round": 0, "replies": replies},
                                               {"stage": "pass", "round": 1, "edges": edges, "replies": []}]}


def test_centrality_goes_with_being_right_where_the_right_are_heard():
    asked = questions(12)
    heard = [(trace_of([[0, r, 1.0] for r in (1, 2, 3)], [q.gold, "x", "x", "x"]), q) for q in asked]
    found = centrality_and_right(heard, "heard")
    assert found.r == pytest.approx(1) and found.questions == 12 and found.low == pytest.approx(1)
    unheard = [(trace_of([[0, r, 1.0] for r in (1, 2, 3)], ["x", q.gold, q.gold, q.gold]), q) for q in asked]
    assert centrality_and_right(unheard, "heard").r == pytest.approx(-1)
    mixed = centrality_and_right([*heard, *unheard[:6]], "heard")
    assert mixed.low < mixed.r < mixed.high
    even = [(trace_of([[a, b, 1.0] for a in range(4) for b in range(4) if a != b], [q.gold, "x", "x", "x"]), q)
            for q in asked]
    assert math.isnan(centrality_and_right(even).r) and math.isnan(centrality_and_right([]).r)


def world():
    """'code' knows; 'general' repeats whoever of those it hears knows; the answer is general's."""

    def say(chat):
        knows = "You are code" in chat.text or "I know 0" in chat.text
        return "I know 0" if knows else "I say x"

    pool = echo_pool(say, n=3)
    return build_method("ring_mad", pool, n=None, rounds=2), questions(1)


def test_an_edge_left_out_is_not_heard_and_everything_else_stays():
    method, asked = world()
    before = method(asked)[0]
    assert ("code", "general") in used_edges(before.trace)
    with without_edge(method, "code", "general"):
        during = method(asked)[0]
    assert used_edges(before.trace) - used_edges(during.trace) == {("code", "general")}
    assert used_edges(method(asked)[0].trace) == used_edges(before.trace)


def test_influence_of_edges_is_what_answers_lose_without_them():
    method, asked = world()
    found = {item.edge: item for item in edge_influence(method, asked)}
    assert method(asked)[0].correct
    assert found["code", "general"].difference >= found["general", "math"].difference == 0
    assert all(item.used == 1 and item.low <= item.difference <= item.high for item in found.values())
    with pytest.raises(UserError, match="no edges"):
        edge_influence(build_method("single", echo_pool()), asked)


def test_a_recorded_run_becomes_graphs():
    method, asked = world()
    graphs = rounds_of(method(asked)[0].trace)
    assert len(graphs) == 1 and graphs[0].n == 3 and graphs[0].num_edges == 6


@pytest.mark.parametrize("graph", [np.zeros((0, 0)), np.zeros((1, 1)), np.zeros((3, 3)), nx.path_graph(2),
                                   ring_graph(8), nx.DiGraph([(0, 1), (1, 2)]), random_peers_graph(3000, 2)],
                         ids=["empty", "single", "no edges", "pair", "ring", "chain", "large"])
def test_everything_about_any_graph_is_a_number(graph):
    numbers = analyse(graph)
    assert numbers["agents"] >= 0
    assert all(isinstance(x, (int, float, list, str, bool, type(None), np.bool_)) for x in numbers.values())


def test_a_hundred_thousand_agents_take_seconds():
    started = time.process_time()
    numbers = analyse(random_peers_graph(100_000, 2))
    assert time.process_time() - started < 20  # about 8 on an idle core; 20 leaves room for a busy machine
    low, high = numbers["path_length_interval"][1:]
    assert low < numbers["path_length"] < high and numbers["spectral_gap"] == pytest.approx(0.29, abs=0.01)


def test_the_right_hear_the_right_or_the_wrong_over_a_run():
    asked = questions(10)
    among = [[0, 1, 1.0], [1, 0, 1.0], [2, 3, 1.0], [3, 2, 1.0]]
    across = [[0, 2, 1.0], [2, 0, 1.0], [1, 3, 1.0], [3, 1, 1.0]]
    equals = [(trace_of(among, [q.gold, q.gold, "x", "y"]), q) for q in asked]
    others = [(trace_of(across, [q.gold, q.gold, "x", "y"]), q) for q in asked]
    silent = [(trace_of(among, ["x"] * 4), q) for q in asked]  # nobody is right: nothing to say
    found = assortativity_and_right([*equals, *silent])
    assert (found.r, found.low, found.high, found.questions) == pytest.approx((1, 1, 1, 10))
    assert assortativity_and_right(others).r == pytest.approx(-1)
    mixed = assortativity_and_right([*equals, *others[:5]])
    assert mixed.r == pytest.approx(1 / 3) and mixed.low < mixed.r < mixed.high
    assert math.isnan(assortativity_and_right(silent).r) and assortativity_and_right([]).questions == 0


def test_influence_is_what_replays_of_the_recorded_run_say():
    def say(chat):
        heard = [line for line in chat.text.splitlines() if "so " in line]
        return f"so {(len(heard) * 3 + chat.stream + sum(map(ord, chat.text))) % 4}"

    method, asked = build_method("random_nodup", echo_pool(say, n=4), n=None, rounds=3), questions(6)
    recorded = method(asked, seed=5)
    found = {item.edge: item for item in edge_influence(method, asked, seeds=[5])}
    names = recorded[0].trace["agents"]
    changed = set()
    for (sender, receiver), item in found.items():
        replayed = replay_without(method, recorded, [(names.index(sender), names.index(receiver))], seed=5)
        assert item.difference == pytest.approx(sum(a.correct - b.correct for a, b in zip(recorded, replayed)) / 6)
        assert item.changed == pytest.approx(sum(a.answer != b.answer for a, b in zip(recorded, replayed)) / 6)
        changed.add(item.changed)
    assert max(changed) > 0


def test_rounds_go_to_pyg_and_networkx_and_back():
    rounds = [random_peers_graph(6, 2, round=t) for t in (1, 2, 3)]
    data, multi = rounds_to_pyg(rounds), rounds_to_networkx(rounds)
    assert data.validate() and data.num_nodes == 6 and data.edge_round.tolist() == [1] * 12 + [2] * 12 + [3] * 12
    for number, graph in enumerate(rounds, 1):
        index, weight = graph.edges()
        here = data.edge_round == number
        assert (data.edge_index[:, here].numpy() == index).all() and (data.edge_weight[here].numpy() == weight).all()
        kept = [(s, r) for s, r, key in multi.edges(keys=True) if key == number]
        assert sorted(kept) == sorted(zip(*index.tolist()))
    assert rounds_to_pyg([]).num_nodes == 0 and rounds_to_networkx([]).number_of_nodes() == 0
    assert rounds_to_pyg([np.zeros((3, 3))]).edge_index.shape == (2, 0)
    with pytest.raises(UserError, match=r"\[3, 4\] agents"):
        rounds_to_pyg([ring_graph(3), ring_graph(4)])


@pytest.mark.parametrize("way", ["heard by one", "hears one", "pairs"])
def test_hubs_and_crowds_of_small_groups_take_no_longer(way):
    n = 20_000
    one, rest = np.zeros(n - 1, int), np.arange(1, n)
    ends = {"heard by one": (one, rest), "hears one": (rest, one),
            "pairs": (np.arange(n), np.arange(n) ^ 1)}[way]
    started = time.process_time()
    numbers = analyse(sparse.csr_array((np.ones(len(ends[0])), ends), shape=(n, n)))
    assert time.process_time() - started < 15
    assert numbers["communities"] == (n / 2 if way == "pairs" else 1)
    assert numbers["transitivity"] == numbers["clustering"] == 0


def test_what_does_not_fit_together_is_said_in_a_line():
    for wrong, said in ((lambda: assortativity(ring_graph(4), [1, 2]), "2 labels for 4 agents"),
                        (lambda: modularity(ring_graph(4), [1, 2]), "2 labels for 4 agents"),
                        (lambda: rounds_of({"stages": []}), "no trace"), (lambda: ring_graph(-1), "-1 agents")):
        with pytest.raises(UserError, match=said):
            wrong()


def test_rounds_of_different_agents_or_a_single_graph_are_refused_in_one_line():
    with pytest.raises(UserError, match="round 2 has 4 agents, those before 6"):
        temporal_reach([ring_graph(6), ring_graph(4)])
    with pytest.raises(UserError, match="itertools.repeat"):
        temporal_reach(ring_graph(4))
