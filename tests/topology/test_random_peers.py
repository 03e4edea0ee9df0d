"""Peers drawn anew: in-degree, distinctness, uniformity, named randomness, and speed."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.state import State
from goa_torch.topology.graphs import FixedGraph
from goa_torch.topology.positions import Positions
from goa_torch.topology.random_peers import RandomPeers, SmallWorld, ring_offsets, without_replacement
from goa_torch.topology.switching import RandomSwitching, StageSwitching
from goa_torch.topology.uncertainty import UncertaintyGuided
from goa_torch.types import Question, Reply
from tests.worlds import LastWord


class Seeded:
    def __init__(self, seed):
        self.seed = seed


def graphs(sizes, seed=0, replies=None, first=0):
    """Graphs of copies of one agent, without replies of their own."""
    asked = [Question(f"q{i + first}", "?", "x", LastWord(), task="t") for i in range(len(sizes))]
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long))
    instance = torch.cat([torch.arange(n) for n in sizes]) if sizes else torch.empty(0, dtype=torch.long)
    said = replies or [Reply("x", answer="x")] * batch.numel()
    return State(asked, None, Seeded(seed), batch, torch.zeros_like(batch), instance, said, list(said),
                 torch.ones(batch.numel(), dtype=torch.bool), torch.zeros(len(sizes), dtype=torch.bool))


def senders(topology, node):
    return topology.edge_index[0][topology.edge_index[1] == node].tolist()


RULES = [lambda k: RandomPeers(k), lambda k: SmallWorld(k), lambda k: FixedGraph("ring", k),
         lambda k: UncertaintyGuided(k), lambda k: RandomPeers(k, redraw=False),
         lambda k: StageSwitching(RandomPeers(k), FixedGraph("ring", k), 1),
         lambda k: RandomSwitching([RandomPeers(k), SmallWorld(k), FixedGraph("ring", k)])]


@pytest.mark.parametrize("make", RULES)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 3), st.integers(0, 5))
def test_in_degree_is_constant_and_peers_are_different_others_of_the_same_graph(make, sizes, k, round, seed):
    state = graphs(sizes, seed)
    topology = make(k)(state, round)
    assert torch.equal(topology.edge_weight, torch.ones(topology.num_edges))
    for node in range(state.num_nodes):
        heard = senders(topology, node)
        assert len(heard) == len(set(heard)) == min(k, sizes[int(state.batch[node])] - 1)
        assert node not in heard and all(state.batch[v] == state.batch[node] for v in heard)


@pytest.mark.parametrize("make", RULES)
def test_a_question_draws_the_same_peers_alone_and_in_a_batch(make):
    together = make(2)(graphs([8, 3, 8]), 2)
    alone = make(2)(graphs([8], first=2), 2)
    last = together.edge_index[:, together.edge_index[1] >= 11] - 11
    assert sorted(map(tuple, last.t().tolist())) == sorted(map(tuple, alone.edge_index.t().tolist()))


@pytest.mark.parametrize("rule", [RandomPeers(2), SmallWorld(2), UncertaintyGuided(2)])
def test_draws_differ_between_rounds_seeds_and_questions_and_repeat_otherwise(rule):
    def drawn(seed, round, sizes=(8,)):
        return rule(graphs(list(sizes), seed), round).edge_index.tolist()

    assert drawn(0, 1) == drawn(0, 1)
    assert len({str(drawn(s, r)) for s in range(3) for r in range(1, 4)}) == 9
    two = rule(graphs([8, 8]), 1).edge_index
    assert (two[:, two[1] >= 8] - 8).tolist() != two[:, two[1] < 8].tolist()


def test_a_draw_without_redraw_serves_all_rounds():
    for rule in (RandomPeers(2, redraw=False), SmallWorld(2, redraw=False)):
        assert torch.equal(rule(graphs([8]), 1).edge_index, rule(graphs([8]), 7).edge_index)


def test_every_pair_of_peers_is_equally_likely():
    counts = Counter()
    rule = RandomPeers(2)
    for round in range(40):
        topology = rule(graphs([5] * 25), round)
        for node in range(0, 125, 5):
            counts[tuple(sorted(v - node for v in senders(topology, node)))] += 1
    assert len(counts) == 6
    expected = 1000 / 6
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < 20.5  # chi-square, 5 df, p = .001


def test_small_worlds_keep_the_predecessor_and_draw_from_outside_the_ring_neighbours():
    rule = SmallWorld(2)
    for round in range(1, 20):
        topology = rule(graphs([8]), round)
        for node in range(8):
            near, far = sorted(senders(topology, node), key=lambda v: (node - v) % 8 != 1)
            assert near == (node - 1) % 8 and far not in (node, near, (node + 1) % 8)


def test_positions_follow_the_listing_of_the_agents():
    batch = torch.tensor([0, 0, 0, 1, 1])
    places = Positions.of(batch, torch.tensor([2, 0, 1, 1, 0]), torch.zeros(5, dtype=torch.long))
    assert places.position.tolist() == [2, 0, 1, 1, 0] and places.node_at.tolist() == [1, 2, 0, 4, 3]


def test_stage_switching_changes_its_rule_once():
    rule = StageSwitching(FixedGraph("star"), FixedGraph("ring"), until=2)
    counts = [rule(graphs([6]), round).num_edges for round in (1, 2, 3, 4)]
    assert counts == [10, 10, 12, 12]


def test_random_switching_draws_a_rule_for_each_question_and_round():
    rule = RandomSwitching([FixedGraph("chain"), FixedGraph("ring")])
    drawn = torch.stack([rule.drawn(graphs([4] * 30), round) for round in range(1, 11)])
    assert 0.35 < drawn.float().mean() < 0.65 and (drawn != drawn[:1]).any()
    topology = rule(graphs([4] * 30), 1)
    for question in range(30):
        edges = int((topology.edge_index[1] // 4 == question).sum())
        assert edges == (8 if drawn[0, question] else 6)


def test_unsure_peers_are_heard_less_and_a_small_temperature_hears_only_the_surest():
    said = [Reply(a, answer=a) for a in ("x", "x", "x", "x", "x", "y", "z", "w")]
    heard = Counter()
    for round in range(200):
        heard.update((UncertaintyGuided(2)(graphs([8], replies=said), round).edge_index[0]).tolist())
    assert min(heard[v] for v in range(5)) > 1.5 * max(heard[v] for v in range(5, 8)) > 0
    surest = UncertaintyGuided(2, temperature=1e-4)(graphs([8], replies=said), 1)
    assert set(surest.edge_index[0].tolist()) <= set(range(5))


@pytest.mark.parametrize("temperature", [1e-4, 0.3, 5.0])
def test_large_graphs_are_drawn_without_all_pairs_in_the_same_way(temperature, monkeypatch):
    said = [Reply("x", answer=a) for a in "aaaabbc"]
    few = UncertaintyGuided(2, temperature=temperature)

    def shares():
        heard = Counter()
        for round in range(400):
            topology = few(graphs([7, 1, 2], replies=said + said[:3]), round)
            assert torch.bincount(topology.edge_index[1], minlength=10).tolist() == [2] * 7 + [0, 1, 1]
            assert all(s != r and (s < 7) == (r < 7) for s, r in topology.edge_index.t().tolist())
            heard.update(topology.edge_index[0][topology.edge_index[1] == 6].tolist())
        return [heard[v] / 800 for v in range(6)]

    dense = shares()
    monkeypatch.setattr("goa_torch.topology.uncertainty._DENSE", 0)
    assert shares() == pytest.approx(dense, abs=0.07)


@given(st.integers(1, 12), st.data())
def test_drawing_all_is_a_permutation(n, data):
    lots = torch.tensor(data.draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=n, max_size=n)))[None]
    assert sorted(without_replacement(lots, torch.tensor([n]))[0].tolist()) == list(range(n))


@pytest.mark.parametrize("rule, limit", [(RandomPeers(2), 0.05), (SmallWorld(2), 0.05), (FixedGraph("ring", 2), 0.05),
                                         (UncertaintyGuided(2, source="tokens"), 0.1)])
def test_a_hundred_thousand_agents_take_milliseconds(rule, limit):
    state = graphs([100_000])
    seconds = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # processor time of one thread: on a busy machine, threads wait for each other
    try:
        for round in range(1, 11):
            start = time.thread_time()
            topology = rule(state, round)
            seconds.append(time.thread_time() - start)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.bincount(topology.edge_index[1]), torch.full((100_000,), 2))
    assert min(seconds) < limit


@pytest.mark.parametrize("n, k", [(4, 3), (5, 3), (5, 4), (6, 4), (6, 5), (7, 5), (9, 6), (3, 2)])
def test_small_worlds_draw_from_whoever_is_outside_the_ring_neighbours(n, k):
    outside = n - 1 - k
    far = k - (k + 1) // 2
    for round in range(1, 12):
        topology = SmallWorld(k)(graphs([n]), round)
        for node in range(n):
            heard = senders(topology, node)
            assert len(set(heard)) == len(heard) == k and node not in heard
            ring = {(node + offset) % n for offset in ring_offsets(k).tolist()}
            assert len(set(heard) - ring) == min(far, outside)
