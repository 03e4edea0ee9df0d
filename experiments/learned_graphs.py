"""Draws what learned_topology.py has learned: who hears whom, and whether that is what a question needs.

    python experiments/learned_graphs.py runs/learned_topology/chain runs/learned_topology/adversarial

For every finished run of a folder, and an untrained copy, deployed on validation questions: a matrix for each round of
talking, how often each receiver (row) hears each sender (column); and, in figures, how often the expert whose layer
comes next hears the one who has just finished the layer before, against 2 / (n - 1) for random peers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goa_torch import load_pool, load_questions
from goa_torch.agents.stacked_decoding import StackedExchange
from goa_torch.methods.debate import Debate
from goa_torch.nn.agent_conv import AgentConv
from goa_torch.topology.learned import controller_class
from goa_torch.topology.learned.checkpoint import load_topology, topology_facts
from goa_torch.topology.learned.turns import is_staged
from goa_torch.training.topology.world import MemoryCache
from goa_torch.types import Result


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Draws each folder's runs; returns the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=64, help="validation questions")
    asked = parser.parse_args(arguments)
    return [drawn(folder, asked.limit) for folder in asked.folders]


def drawn(folder: Path, limit: int) -> Path:
    """The picture and the figures (``graphs.json``) of one folder of runs."""
    found: dict[str, dict[str, Any]] = {}
    exchange, names = StackedExchange(MemoryCache()), []
    for summary in sorted(folder.glob("*/summary.json")):
        trained = topology_facts(summary.parent / "best")
        facts, kind = trained["trained"]["training"], trained["controller"]
        debate, task = facts["debate"], facts["validation"]
        pool = load_pool(facts["pool"])
        names = sorted(agent.name for agent in pool.agents)
        questions = load_questions(task["name"], split="validation", limit=limit, **task["settings"])
        copies = {summary.parent.name: load_topology(summary.parent / "best")}
        if f"{kind} untrained" not in found:
            copies = {f"{kind} untrained": controller_class(kind).for_agents(trained["agents"], 0,
                                                                             **trained["settings"], k=debate["k"],
                                                                             threshold=debate["threshold"]), **copies}
        for name, controller in copies.items():
            if is_staged(controller):
                continue
            method = Debate(pool, controller, n=None, rounds=debate["rounds"], passing=AgentConv("none"))
            found[name] = measured(method(questions, seed=0, exchange=exchange), names)
    (folder / "graphs.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    path = folder / "graphs.png"
    path.write_bytes(picture(found, names))
    for name, facts in found.items():
        needed = "unknown" if facts["needed"] is None else f"{facts['needed']:.1%}"
        print(f"{folder.name} {name:32} accuracy {facts['accuracy']:.1%}, needed edges {needed}")
    return path


def measured(results: Sequence[Result], names: Sequence[str]) -> dict[str, Any]:
    """How often each receiver heard each sender in each round, [rounds, receiver, sender], and the share of needed
    edges that were there in time: from the expert of layer t to that of layer t + 1, in round t of talking."""
    heard: list[np.ndarray] = []
    there = []
    for result in results:
        domains = result.question.metadata["domains"]
        stages = [stage for stage in result.trace["stages"] if stage["stage"] == "pass"]
        for number, stage in enumerate(stages):
            if number == len(heard):
                heard.append(np.zeros((len(names), len(names))))
            edges = {(sender, receiver) for sender, receiver, _ in stage["edges"]}
            for sender, receiver in edges:
                heard[number][receiver, sender] += 1 / len(results)
            if number + 1 < len(domains) and set(domains) <= set(names):
                there.append((names.index(domains[number]), names.index(domains[number + 1])) in edges)
    return {"accuracy": sum(result.correct for result in results) / len(results),
            "needed": float(np.mean(there)) if there else None, "heard": [m.tolist() for m in heard]}


def picture(found: dict[str, dict[str, Any]], names: Sequence[str]) -> bytes:
    """A PNG: a row for each run, a matrix for each round."""
    import io

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rounds = max(len(facts["heard"]) for facts in found.values())
    figure = Figure(figsize=(3.2 * rounds + 1, 2.9 * len(found)), layout="constrained")
    FigureCanvasAgg(figure)
    for row, (name, facts) in zip(figure.subplots(len(found), rounds, squeeze=False), found.items()):
        for number, (axes, matrix) in enumerate(zip(row, facts["heard"]), start=1):
            image = axes.imshow(matrix, vmin=0, vmax=1, cmap="Blues")
            axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
            axes.set_yticks(range(len(names)), names, fontsize=6)
            axes.set_title(f"{name}, round {number}", fontsize=7)
        row[0].set_ylabel("receiver", fontsize=7)
        figure.colorbar(image, ax=row[-1], shrink=0.7)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


if __name__ == "__main__":
    main()
