"""List the pools of agents that come with goa_torch, or the agents of one pool."""

from __future__ import annotations

import argparse
from typing import Any

from ..agents.pools import AgentConfig, pool_names, read_pool
from .console import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pool", nargs="?", help="show the agents of this pool (a name or a YAML file)")


def run(args: argparse.Namespace) -> None:
    if args.pool is None:
        print_table(["pool", "agents", "models", "what it is"], map(_pool_row, pool_names()))
        print("goa pools NAME shows the agents of one; any YAML file of the same form is a pool too.")
        return
    config = read_pool(args.pool)
    print_table(["agent", "model", "domain", "tasks", "size", "features"],
                map(_agent_row, config.agents), title=f"{config.name}: {config.about}")
    if config.size is not None:
        print(f"size: {config.size}; " + ("the first of these" if config.size <= len(config.agents) else
                                          "these and copies of them in turn"))
    meta = config.meta.name if isinstance(config.meta, AgentConfig) else config.meta or config.agents[0].name
    print(f"meta-LLM: {meta}; prompts: {config.prompts}; models: "
          + ", ".join(f"{label} = {_source(entry)}" for label, entry in config.models.items()))


def _pool_row(name: str) -> list[object]:
    config = read_pool(name)
    return [name, config.size or len(config.agents), "\n".join(map(_source, config.models.values())), config.about]


def _agent_row(agent: AgentConfig) -> list[object]:
    card = agent.card if isinstance(agent.card, dict) else {"domain": agent.card}
    return [agent.name, agent.model, card.get("domain", ""), ", ".join(card.get("tasks", [])), card.get("size", ""),
            card.get("features", "")]


def _source(entry: dict[str, Any]) -> str:
    return str(entry.get("source") or entry.get("model") or entry["backend"])
