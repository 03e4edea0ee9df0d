"""Pools from YAML files: the shipped ones by name, anybody's by path."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..config import Place, first_line, override, read_yaml, typed
from ..errors import UserError, unknown
from ..paths import models_folder
from ..types import Card, Chat, Sampling
from .base import Agent, LanguageModel
from .many import grown
from .pool import Pool
from .pool_values import check_arguments, check_containers, check_name
from .prompts import PURPOSES, PromptSet

T = TypeVar("T")

#: Where each backend's constructor lies; loaded when a pool first uses it.
BACKENDS = {
    "hf": "goa_torch.agents.hf:HFModel",
    "openai": "goa_torch.agents.openai:OpenAIModel",
    "echo": "goa_torch.agents.pools:echo_model",
    "adversary": "goa_torch.agents.adversary:AdversaryModel",
    "noisy": "goa_torch.agents.noise:NoisyModel",
    "relay_judge": "goa_torch.analysis.planted_judge:PlantedJudge",
}


@dataclass
class AgentConfig:
    """An agent in a pool file.

    Attributes:
        name: unique within the pool.
        model: label of an entry of ``models``.
        system: its role, which templates show.
        card: a mapping with the fields of :class:`goa_torch.types.Card`, or a path (relative to the pool file) to a
            YAML file of them or to a Hugging Face README.
    """

    name: str
    model: str
    card: Any
    system: str = ""


@dataclass
class SamplingConfig:
    """How replies are decoded; ``by_purpose`` (select, answer, score, pass, readout) overrides the rest."""

    temperature: float = 0.7
    top_p: float = 1.0
    max_new_tokens: int = 800
    stop: list[str] = field(default_factory=list)
    by_purpose: dict[str, Any] = field(default_factory=dict)


@dataclass
class PoolConfig:
    """A pool file.

    Attributes:
        agents: in order, at least one; see :class:`AgentConfig`.
        models: label -> ``backend`` (one of :data:`BACKENDS`) and the arguments of its constructor. A model is built
            once and shared by all agents that name it. Paths that begin with ``./`` or ``../`` are relative to the
            pool file.
        name: for tables; the file's name by default.
        about: one line for ``goa pools``.
        prompts: a shipped set of templates (default or chat) or a folder relative to the pool file.
        meta: the meta-LLM: the name of an agent (the first by default), or an :class:`AgentConfig` of its own.
        sampling: see :class:`SamplingConfig`.
        variables: settings that templates may read as ``pool``.
        judging: ``text`` or ``likelihood``; see :class:`goa_torch.agents.pool.Pool`.
        size: how many agents: the first of those listed, or all and copies of them in turn
            (:func:`goa_torch.agents.many.grown`); as listed by default.
    """

    agents: list[Any]
    models: dict[str, Any]
    name: str = ""
    about: str = ""
    prompts: str = "default"
    meta: Any = None
    sampling: Any = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    judging: str = "text"
    size: int | None = None


def pool_names() -> list[str]:
    """Names of the shipped pools."""
    return sorted(path.stem for path in models_folder().glob("*.yaml"))


def pool_path(name_or_path: str | Path) -> Path:
    """The file of a shipped pool or of a user's.

    Raises:
        UserError: if there is none.
    """
    given = str(name_or_path)
    instead = f"name a YAML file or one of {', '.join(pool_names())}"
    if not given.strip():
        raise UserError(f"pool: the name is empty; {instead}")
    path = Path(given)
    if path.suffix.lower() in (".yaml", ".yml") or given in (".", "..") or re.search(r"[/\\]", given):
        if path.is_dir():
            raise UserError(f"pool: {given} is a folder; {instead}")
        if not path.is_file():
            raise UserError(f"pool: no file {given}; {instead}")
        return path
    shipped = models_folder() / f"{path}.yaml"
    if not shipped.is_file():
        raise unknown("pool", str(path), pool_names())
    return shipped


def read_pool(name_or_path: str | Path, changes: Sequence[str] = ()) -> PoolConfig:
    """The configuration of a pool, checked key by key; builds and loads nothing. ``changes`` are ``key=value`` words
    with dotted keys, ``models.math.kind=silent``."""
    path = pool_path(name_or_path)
    place = Place(path)
    written = read_yaml(path)
    listed = list(written.get("models") or {}) if isinstance(written, dict) else []
    config = _typed(PoolConfig, override(written, changes), place)
    config.name = config.name or path.stem
    check_name(config.name, place / "name")
    if not config.agents:
        raise UserError(f"{place / 'agents'}: list at least one agent")
    config.agents = [_typed(AgentConfig, entry, place / "agents" / i) for i, entry in enumerate(config.agents)]
    if isinstance(config.meta, dict):
        config.meta = _typed(AgentConfig, config.meta, place / "meta")
    for agent, where in [(agent, place / "agents" / i) for i, agent in enumerate(config.agents)] + (
            [(config.meta, place / "meta")] if isinstance(config.meta, AgentConfig) else []):
        check_name(agent.name, where / "name")
        if agent.model not in config.models:
            raise unknown("model", agent.model, config.models, str(where / "model"))
    speaking = {agent.model for agent in [*config.agents, config.meta] if isinstance(agent, AgentConfig)}
    for label in config.models:
        if label not in listed and label not in speaking:  # a slip of the pen would change nothing, silently
            raise unknown("model", label, listed, f"changes of {place}")
    for label, entry in config.models.items():
        check_name(label, place / "models")
        if not isinstance(entry, dict) or "backend" not in entry:
            raise UserError(f"{place / 'models' / label}: must be a mapping with 'backend' ({', '.join(BACKENDS)}) "
                            "and its arguments")
        if not isinstance(entry["backend"], str) or entry["backend"] not in BACKENDS:
            raise unknown("backend", entry["backend"], BACKENDS, str(place / "models" / label / "backend"))
    return config


def load_pool(name_or_path: str | Path, changes: Sequence[str] = (),
              built: dict[str, LanguageModel] | None = None) -> Pool:
    """A pool by the name of a shipped one (see :func:`pool_names`) or the path of a YAML file (:class:`PoolConfig`).

    Models are built, not loaded: weights come with :meth:`goa_torch.agents.pool.Pool.check` or the first call.

    Args:
        changes: to the file, as ``key=value`` words with dotted keys.
        built: models that other pools have built; those of the same name and arguments are taken from there, others
            added.

    Raises:
        UserError: for anything wrong in the file, with its place.
    """
    path = pool_path(name_or_path)
    config = read_pool(path, changes)
    place = Place(path)
    built = {} if built is None else built
    models = {label: _model(label, entry, place / "models" / label, built) for label, entry in config.models.items()}
    agents = [_agent(entry, models, place / "agents" / number) for number, entry in enumerate(config.agents)]
    if config.size is not None:
        agents = grown(agents, config.size, str(place / "size"))
    meta = config.meta
    if isinstance(meta, AgentConfig):
        meta = _agent(meta, models, place / "meta")
    elif meta is not None and meta not in [agent.name for agent in agents]:
        raise unknown("agent", meta, [agent.name for agent in agents], str(place / "meta"))
    try:
        return Pool(agents, PromptSet(_prompts(config.prompts, place / "prompts")), meta,
                    _sampling(config.sampling, place / "sampling"), config.name, config.variables,
                    config.judging)
    except UserError as error:
        raise error if str(path) in str(error) else UserError(f"{place}: {error}") from error


def _typed(cls: type[T], data: Any, place: Place) -> T:
    check_containers(cls, data, place)
    return typed(cls, data, place)


def _model(label: str, entry: dict[str, Any], place: Place, built: dict[str, LanguageModel]) -> LanguageModel:
    arguments = dict(entry)
    backend = arguments.pop("backend")
    module, _, attribute = BACKENDS[backend].partition(":")
    build: Callable[..., LanguageModel] = getattr(importlib.import_module(module), attribute)
    accepted = inspect.signature(build).parameters
    for key, value in arguments.items():
        if key not in accepted:
            raise unknown(f"argument of backend {backend!r}", key, accepted, str(place / key))
        if isinstance(value, str) and value.startswith(("./", "../")):
            arguments[key] = os.path.normpath(place.file.parent / value)
    arguments.setdefault("name", label)
    try:
        inspect.signature(build).bind(**arguments)
    except TypeError as error:
        raise UserError(f"{place}: {error} (backend {backend!r})") from error
    check_arguments(build, arguments, place)
    key = json.dumps([backend, arguments], sort_keys=True, default=str)
    try:
        return built.setdefault(key, built.get(key) or build(**arguments))
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}: {first_line(error)}") from error


def _agent(config: AgentConfig, models: dict[str, LanguageModel], place: Place) -> Agent:
    return Agent(config.name, models[config.model], _card(config.card, place / "card"), config.system.strip())


@dataclass
class _CardConfig:
    domain: str
    tasks: list[str] = field(default_factory=list)
    size: str = ""
    features: str = ""


def _card(entry: Any, place: Place) -> Card:
    if isinstance(entry, str):
        path = place.file.parent / entry
        if not path.is_file():
            raise UserError(f"{place}: no file {entry!r} beside the pool file; a card is a mapping with a domain, or a "
                            "YAML file of one, or a README.md")
        if path.suffix.lower() == ".md":
            from .cards import card_from_file

            return card_from_file(path)
        place, entry = Place(path), read_yaml(path)
    config = _typed(_CardConfig, entry, place)
    if not config.domain.strip():
        raise UserError(f"{place / 'domain'}: must not be empty; say what the agent is good at (general, say)")
    return Card(config.domain, tuple(config.tasks), config.size, config.features)


def _sampling(entry: Any, place: Place) -> dict[Any, Sampling]:
    shared = _typed(SamplingConfig, entry or {}, place)
    for purpose in shared.by_purpose:
        if purpose not in PURPOSES:
            raise unknown("purpose", purpose, PURPOSES, str(place / "by_purpose" / purpose))
    values = {key: value for key, value in vars(shared).items() if key != "by_purpose"}
    decoding = {}
    for purpose in PURPOSES:
        own = shared.by_purpose.get(purpose) or {}
        where = place / "by_purpose" / purpose if own else place
        if not isinstance(own, dict) or "by_purpose" in own:
            raise UserError(f"{where}: must be a mapping with some of {', '.join(values)}")
        merged = _typed(SamplingConfig, values | own, where)
        try:
            decoding[purpose] = Sampling(merged.temperature, merged.top_p, merged.max_new_tokens, tuple(merged.stop))
        except ValueError as error:
            raise UserError(f"{where}: {error}") from error
    return decoding


def _prompts(name: str, place: Place) -> Path:
    shipped = models_folder() / "prompts"
    folder = next((f for f in (shipped / name, place.file.parent / name) if name.strip() and f.is_dir()), None)
    if folder is None:
        names = [folder.name for folder in shipped.iterdir() if (folder / "select.jinja").is_file()]
        raise unknown("set of prompts (nor is it a folder beside the pool file)", name, names, str(place))
    missing = [purpose for purpose in PURPOSES if not (folder / f"{purpose}.jinja").is_file()]
    if missing:
        raise UserError(f"{place}: {folder} lacks {', '.join(f'{purpose}.jinja' for purpose in missing)}")
    return folder


def echo_model(rules: list[dict[str, Any]] | None = None, name: str = "echo",
               context_length: int | None = None) -> LanguageModel:
    r"""An :class:`~goa_torch.agents.echo.EchoModel` that follows ``rules``, as pool files write them.

    Args:
        rules: mappings of ``when``, a regular expression that must occur in the prompt, and ``say``, the reply, in
            which ``\1`` is what the first group matched. The first rule that fits decides; if none does, the call
            fails. Without rules the model repeats the last line of the prompt.
        name: see EchoModel.
        context_length: see EchoModel.
    """
    from .echo import EchoModel

    if context_length is not None and context_length < 1:
        raise UserError(f"context_length must be at least 1, not {context_length!r}")
    if rules is None:
        return EchoModel(name=name, context_length=context_length)
    compiled = []
    for number, rule in enumerate(rules):
        if not isinstance(rule, dict) or set(rule) != {"when", "say"}:
            raise UserError(f"rules[{number}] must be a mapping with 'when' and 'say', not {rule!r}")
        for key, value in rule.items():
            if isinstance(value, bool) or not isinstance(value, (str, int, float)):
                raise UserError(f"rules[{number}].{key} must be text, not {value!r}; put it in quotes")
        try:
            pattern, say = re.compile(str(rule["when"])), str(rule["say"])
        except re.error as error:
            raise UserError(f"rules[{number}].when is not a regular expression: {error}") from error
        try:
            pattern.sub(say, "")  # reads the template, whether or not anything matches
        except (re.error, IndexError) as error:
            raise UserError(f"rules[{number}].say names no group of its 'when': {error} in {say!r}; write \\\\ for a "
                            "backslash") from error
        compiled.append((pattern, say))

    def follow(chat: Chat) -> str | None:
        text = chat.text
        for pattern, say in compiled:
            found = pattern.search(text)
            if found:
                return found.expand(say)
        return None

    model = EchoModel(follow, name, context_length)
    digest = hashlib.blake2b(repr([(p.pattern, say) for p, say in compiled]).encode(), digest_size=8).hexdigest()
    model.fingerprint = f"echo:{digest}"
    return model
