"""Graphs of language-model agents in PyTorch.

Agents are nodes, their relevance to each other is a PyG ``edge_index`` and ``edge_weight``, talking is a
``MessagePassing`` layer and deciding is a readout. Example::

    from goa_torch import build_method, load_pool, load_questions

    pool = load_pool("smollm2")
    method = build_method("goa", pool, k=3, readout="max")
    results = method(load_questions("mmlu", limit=8), seed=0)

Importing the package loads neither torch nor transformers; names are looked up when they are first used.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_HOME = {
    "Agent": ".agents.base",
    "Call": ".types",
    "Card": ".types",
    "Chat": ".types",
    "EchoModel": ".agents.echo",
    "Exchange": ".agents.calls",
    "HFModel": ".agents.hf",
    "LanguageModel": ".agents.base",
    "Message": ".types",
    "OpenAIModel": ".agents.openai",
    "Pool": ".agents.pool",
    "PromptSet": ".agents.prompts",
    "Question": ".types",
    "Reply": ".types",
    "Result": ".types",
    "Sampling": ".types",
    "Span": ".types",
    "Topology": ".types",
    "Usage": ".types",
    "UserError": ".errors",
    "build_method": ".methods",
    "load_pool": ".agents.pools",
    "load_questions": ".tasks",
    "method_names": ".methods",
    "pool_names": ".agents.pools",
    "run_experiment": ".bench",
    "task_names": ".tasks",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME))
