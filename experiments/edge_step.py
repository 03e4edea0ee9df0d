"""What a step of training a topology costs on Relay: 64 questions, six agents, gradients into all edges.

    python experiments/edge_step.py

Prints processor and wall seconds of a step of `pathwise`, models one after the other and stacked as one
(goa_torch/agents/stacked.py), with first answers to be made or known already, for debates of two and of three answers.
Processor seconds hardly depend on what else the machine does; wall seconds do.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from goa_torch import load_pool, load_questions
from goa_torch.agents.calls import Exchange
from goa_torch.agents.stacked import stackable
from goa_torch.agents.stacked_decoding import StackedExchange
from goa_torch.nn import soft_agent_conv
from goa_torch.topology.learned import controller_class
from goa_torch.training.topology.estimators import EstimatorConfig, estimate
from goa_torch.training.topology.world import DebateWorld, MemoryCache


def main(arguments: Sequence[str] | None = None) -> list[dict]:
    """Measures, prints and returns a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", default="relay")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3, help="of each setting; the median counts")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file for the figures")
    asked = parser.parse_args(arguments)
    pool = load_pool(asked.pool)
    pool.check()
    questions = load_questions("relay", split="train", depth=[2, 3], limit=asked.batch * (asked.steps + 1))
    batches = [questions[i : i + asked.batch] for i in range(0, len(questions), asked.batch)]
    rows = []
    print(f"{asked.batch} questions, {len(pool)} agents       answers   first ones   CPU s   wall s    calls   tokens")
    for rounds in (2, 3):
        for stacked in (False, True):
            exchange = (StackedExchange if stacked else Exchange)(MemoryCache())
            world = DebateWorld(pool, rounds, exchange=exchange)
            controller = controller_class("edge_gnn").for_agents([agent.name for agent in pool.agents], k=2)
            for known in (False, True):
                found = []
                for step, batch in enumerate(batches):
                    before = time.process_time(), time.perf_counter()
                    with mock.patch.object(soft_agent_conv, "stackable", stackable if stacked else lambda models: []):
                        made = estimate(EstimatorConfig("pathwise"), world, controller, batch, 0, step)
                    found.append((time.process_time() - before[0], time.perf_counter() - before[1], made))
                found = sorted(found[1:], key=lambda item: item[0])  # the first one warms up
                cpu, wall, made = found[len(found) // 2]
                rows.append({"rounds": rounds, "stacked": stacked, "known": known, "cpu": cpu, "wall": wall,
                             "calls": made.usage.calls, "tokens": made.usage.tokens + made.backward})
                print(f"{'stacked' if stacked else 'one by one':28}{rounds:8}{'known' if known else 'made':>13}"
                      f"{cpu:8.2f}{wall:9.2f}{made.usage.calls:9,}{made.usage.tokens + made.backward:9,}", flush=True)
    if asked.out is not None:
        asked.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
