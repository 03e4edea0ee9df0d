from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from goa_torch.nn.edges import from_dense, merge_duplicates, plain, to_dense
from goa_torch.topology.relevance import relevance_topology, share
from goa_torch.types import Topology


def edges(topology):
    return dict(zip(map(tuple, topology.edge_index.t().tolist()), topology.edge_weight.tolist()))


def test_down_is_the_strict_upper_triangle_in_rank_order_and_up_its_transpose():
    relevance, batch = torch.tensor([0.2, 0.9, 0.4]), torch.zeros(3, dtype=torch.long)
    kept, order = torch.ones(3, dtype=torch.bool), torch.arange(3)
    down = edges(relevance_topology(relevance, batch, kept, order, "down"))
    up = edges(relevance_topology(relevance, batch, kept, order, "up"))
    assert set(down) == {(1, 2), (1, 0), (2, 0)} and set(up) == {(b, a) for a, b in down}
    assert down[1, 2] == 1
    assert down[1, 0] == pytest.approx(2 * 0.9 / 1.3) and down[2, 0] == pytest.approx(2 * 0.4 / 1.3)
    assert up[0, 1] == pytest.approx(2 * 0.2 / 0.6) and up[2, 1] == pytest.approx(2 * 0.4 / 0.6)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), min_size=0, max_size=7), st.randoms(use_true_random=False))
def test_a_permutation_of_nodes_permutes_the_edges(values, random):
    n = len(values)
    relevance, batch = torch.tensor(values), torch.zeros(n, dtype=torch.long)
    kept = torch.tensor([random.random() < 0.8 for _ in values], dtype=torch.bool)
    order = torch.arange(n)
    permutation = list(range(n))
    random.shuffle(permutation)
    p = torch.tensor(permutation, dtype=torch.long)
    before = edges(relevance_topology(relevance, batch, kept, order, "down"))
    after = edges(relevance_topology(relevance[p], batch, kept[p], order[p], "down"))
    renamed = {(permutation[a], permutation[b]): w for (a, b), w in after.items()}
    assert renamed == pytest.approx(before)
    survivors = int(kept.sum())
    assert len(before) == survivors * (survivors - 1) // 2


@pytest.mark.parametrize("values, kept", [
    ([], []), ([0.5], [True]), ([0.5, 0.2], [False, False]), ([0.0, 0.0, 0.0], [True, True, True]),
    ([0.3, 0.0], [True, True]), ([0.3, 0.2, 0.1], [True, False, True]),
])
@pytest.mark.parametrize("direction", ["down", "up"])
def test_gradients_are_finite_whatever_is_pruned(values, kept, direction):
    relevance = torch.tensor(values, requires_grad=True)
    n = len(values)
    topology = relevance_topology(relevance, torch.zeros(n, dtype=torch.long), torch.tensor(kept, dtype=torch.bool),
                                  torch.arange(n), direction)
    assert torch.isfinite(topology.edge_weight).all()
    (topology.edge_weight.pow(2).sum() + relevance.sum() * 0).backward()
    assert torch.isfinite(relevance.grad).all()


def test_the_gradient_of_a_share_is_that_of_a_central_difference():
    weight = torch.tensor([0.3, 0.5, 0.9], dtype=torch.float64, requires_grad=True)
    receiver = torch.tensor([0, 0, 0])
    assert torch.autograd.gradcheck(lambda w: share(w, receiver, 1), (weight,))


def test_questions_never_hear_each_other():
    batch = torch.tensor([0, 0, 1, 1, 1, 3])
    topology = relevance_topology(torch.rand(6), batch, torch.ones(6, dtype=torch.bool), torch.arange(6))
    assert torch.equal(batch[topology.edge_index[0]], batch[topology.edge_index[1]])
    assert topology.num_edges == 1 + 3


def test_dense_matrices_are_receiver_by_sender_and_back():
    batch = torch.tensor([0, 0, 1, 1, 1])
    topology = Topology(torch.tensor([[0, 3, 4, 2], [1, 2, 2, 2]]), torch.tensor([0.5, 2.0, 3.0, 4.0]))
    dense = to_dense(topology, batch)
    assert dense.shape == (2, 3, 3)
    assert dense[0, 1, 0] == 0.5 and dense[1, 0, 1] == 2 and dense[1, 0, 2] == 3 and dense[1, 0, 0] == 4
    assert edges(from_dense(dense, batch)) == edges(topology)


def test_duplicate_edges_are_one_edge_of_the_summed_weight_and_keep_their_gradient():
    weight = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    merged = merge_duplicates(Topology(torch.tensor([[0, 0, 1], [1, 1, 0]]), weight), 2)
    assert edges(merged) == {(0, 1): 3.0, (1, 0): 3.0}
    merged.edge_weight.sum().backward()
    assert weight.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_of_next_to_nothing_have_finite_gradients(dtype):
    weight = torch.full((2,), torch.finfo(dtype).tiny / 8, dtype=dtype, requires_grad=True)
    part = share(weight, torch.tensor([0, 0]), 1)
    part[0].backward()
    assert part.tolist() == [0.5, 0.5] and torch.isfinite(weight.grad).all()


def test_dense_matrices_keep_graphs_without_nodes_at_the_end():
    topology, batch = plain(torch.tensor([[0], [1]])), torch.tensor([0, 0])
    assert to_dense(topology, batch).shape == (1, 2, 2) and to_dense(topology, batch, num_graphs=3).shape == (3, 2, 2)
