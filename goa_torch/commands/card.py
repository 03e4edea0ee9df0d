"""Make a model card for a pool from a model's Hugging Face README.

The domain, tasks, size and features are read from the front matter and the text by fixed rules, which
goa_torch/agents/cards.py documents; --summarise lets an agent write the features instead. The card is printed as YAML,
ready for a pool file.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents.cards import card_from_file, card_from_readme, card_to_yaml, split_readme
from ..errors import UserError

if TYPE_CHECKING:
    from ..types import Card

_LONGEST = 6000  # characters of a README that a summarising agent reads


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a hub id, a model folder or a README")
    parser.add_argument("--file", type=Path, metavar="README.md", help="read this README instead of the model's own")
    parser.add_argument("--summarise", metavar="POOL:AGENT", help="let this agent write the features")


def run(args: argparse.Namespace) -> None:
    text, card = _read(args.model, args.file)
    if args.summarise:
        card = replace(card, features=_summary(args.summarise, text))
    print(card_to_yaml(card), end="")


def _read(model: str, file: Path | None) -> tuple[str, Card]:
    """The README's text and the card made from it."""
    path = file or Path(model)
    if file is not None or path.exists():
        card = card_from_file(path, "" if file is None else model)
        return (path / "README.md" if path.is_dir() else path).read_text(encoding="utf-8-sig"), card
    text, parameters = _from_hub(model)
    return text, card_from_readme(text, model, parameters)


def _from_hub(model: str) -> tuple[str, int | None]:
    """README and, where the hub answers, number of parameters of a model on the hub."""
    from ..agents import hub

    if not hub.is_hub_id(model):
        raise UserError(f"{model}: no such file or folder, and not a hub id")
    try:
        path = hub.fetch(model, file="README.md")
    except hub.Unreachable as error:
        raise UserError(f"{model}: {error}; name a README with --file") from error
    return path.read_text(encoding="utf-8-sig"), _parameters_on_hub(model)


def _parameters_on_hub(model: str) -> int | None:
    """How many parameters the hub counted in the model's safetensors, if it can be asked and knows."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HTTPError

    from ..agents import hub

    if constants.is_offline_mode() or hub.reachable(constants.ENDPOINT):
        return None
    try:
        counted = HfApi().model_info(model, timeout=hub.PROBE_SECONDS).safetensors
    except (HTTPError, OSError):  # the README is there: a card without the exact size is better than none
        return None
    return counted.total if counted else None


def _summary(who: str, text: str) -> str:
    """One sentence on what the model can do, written by an agent of a pool."""
    from ..agents.pools import load_pool
    from ..types import Chat, Message, Sampling

    name, colon, agent = who.rpartition(":")
    if not colon:
        raise UserError(f"--summarise {who}: write POOL:AGENT, for example smollm2:general")
    writer = load_pool(name)[agent]
    writer.model.check()
    prose = split_readme(text)[1][:_LONGEST]
    ask = (f"{prose}\n\nThe text above describes a language model. Say in one sentence what this model is good at. "
           "Write the sentence and nothing else.")
    reply = writer.model.generate([Chat((Message.of("user", ask),))], Sampling(temperature=0, max_new_tokens=80))[0]
    said = " ".join((reply.text or "").split())
    if not said:
        raise UserError(f"--summarise {who}: the agent said nothing{f' ({reply.error})' if reply.error else ''}")
    return said
