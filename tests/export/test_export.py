"""Runs as data sets: one line loads them, and they say what the run says."""

from __future__ import annotations

import json

import pytest
import torch
import yaml
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_mean_pool

from goa_torch.bench import run_experiment
from goa_torch.bench.store import RunFolder
from goa_torch.errors import UserError
from goa_torch.export import load_dataset, load_graphs
from goa_torch.export.pyg import NODE_FEATURES
from tests.bench import world


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    world.write_questions(folder / "questions.jsonl", [f"What is {i}?" for i in range(5)] + ["fail", "mumble"])
    experiment = folder / "letters.yaml"
    experiment.write_text(yaml.safe_dump({
        "methods": ["single", {"name": "goa", "k": 3}, {"name": "random_nodup", "n": None, "rounds": 3}],
        "pool": "tiny", "draws": 200, "seeds": [0, 1], "cache": "off",
        "tasks": [{"name": "letters", "file": "questions.jsonl"}]}))
    with world.in_world():
        return run_experiment(experiment, out=folder / "run", pools={"tiny": world.make_pool()}, quiet=True)


@pytest.fixture(scope="module")
def lines(run):
    return list(RunFolder(run).results.latest().values())


def test_a_run_is_a_hugging_face_data_set(run, lines, tmp_path):
    with world.in_world():
        rows = load_dataset(run)
    assert len(rows) == len(lines) == 42
    for row, line in zip(rows, lines):
        assert (row["method"], row["question"], row["seed"]) == (line["method"], line["question"], line["seed"])
        assert row["correct"] == line["correct"] and row["calls"] == line["usage"]["calls"]
        assert json.loads(row["trace"]) == line["trace"] and row["text"]
        if row["method"] == "random_nodup" and row["question"] == "q0":
            assert len(row["edges"]) == 2 * 4 * 2  # two rounds, four agents, two peers
            assert all(reply["correct"] == (reply["answer"] == "B") for reply in row["replies"])
    rows.save_to_disk(tmp_path / "saved")
    assert rows.filter(lambda row: row["correct"]).num_rows == sum(line["correct"] for line in lines)


def test_a_run_is_labelled_graphs(run, lines):
    with world.in_world():
        graphs = load_graphs(run)
    assert len(graphs) == len(lines) and graphs.methods == ["single", "goa", "random_nodup"]
    for graph, line in zip(graphs, lines):
        assert graph.validate() and graph.x.shape == (len(line["trace"]["agents"]), len(NODE_FEATURES))
        assert int(graph.y) == line["correct"] and graphs.methods[int(graph.method)] == line["method"]
        assert graph.cost[0].tolist()[:3] == [line["usage"]["calls"], line["usage"]["prompt_tokens"]
                                              + line["usage"]["completion_tokens"], line["depth"]]
        assert [graphs.agents[i] for i in graph.agent.tolist()] == line["trace"]["agents"]
        assert graph.question == line["question"] and torch.isfinite(graph.x).all()
    debate = next(graph for graph in graphs if graph.method == 2 and graph.question == "q0")
    assert debate.edge_index.size(1) == 16 and debate.edge_round.tolist() == [1] * 8 + [2] * 8
    assert set(debate.node_y.tolist()) <= {0, 1}


def test_questions_that_are_gone_leave_no_labels_of_nodes_but_those_of_graphs(run):
    graphs, rows = load_graphs(run), load_dataset(run)  # outside the world
    assert all((graph.node_y == -1).all() for graph in graphs) and {int(graph.y) for graph in graphs} == {0, 1}
    assert set(rows["text"]) == {None}


def test_a_graph_network_trains_on_them_in_batches(run):
    with world.in_world():
        graphs = load_graphs(run)
    torch.manual_seed(0)
    conv = GINConv(torch.nn.Linear(len(NODE_FEATURES), 16))
    head = torch.nn.Linear(16, 1)
    optimiser = torch.optim.Adam([*conv.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for _ in range(30):
        for batch in DataLoader(graphs, batch_size=len(graphs)):
            out = head(global_mean_pool(conv(batch.x, batch.edge_index).relu(), batch.batch))
            loss = torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], batch.y.float())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_what_is_no_run_is_said_in_a_line(tmp_path, run):
    with pytest.raises(UserError, match="not a run folder"):
        load_dataset(tmp_path)
    with pytest.raises(UserError, match="no results of validation"):
        load_graphs(run, part="validation")
