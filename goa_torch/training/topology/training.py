"""``goa train`` for topologies: a file says which pool, questions, debate, controller and estimator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...config import Place, override, read_yaml, typed
from ...errors import UserError, unknown
from ...types import Question

if TYPE_CHECKING:
    from ...agents.calls import Exchange

KIND = "topology"


@dataclass
class QuestionsConfig:
    """Questions to train or validate on: the arguments of :func:`goa_torch.tasks.load_questions`. Test questions are
    refused."""

    name: str
    split: str = "train"
    file: str | None = None
    limit: int | None = None
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class DebateSettings:
    """The debate that is trained on.

    Attributes:
        rounds: answers of each agent, the independent first one included.
        scope: whose attention hears the weights while training (:class:`goa_torch.nn.SoftAgentConv`).
        messages: ``sequential`` or ``parallel``.
        k: in-degree of the deployed graph.
        threshold: least probability of a deployed edge.
        policy: ``top_k`` (edges are drawn as they are deployed) or ``bernoulli``.
        weights: of deployed edges, ``ones`` or ``soft``.
        weighting: how deployed weights reach receivers; by default ``none``, ``attention_receiver`` for soft ones.
    """

    rounds: int = 4
    scope: str = "receiver"
    messages: str = "sequential"
    k: int | None = 2
    threshold: float = 0.0
    policy: str = "top_k"
    weights: str = "ones"
    weighting: str | None = None


@dataclass
class ControllerConfig:
    """What is trained: a name in :data:`goa_torch.topology.learned.CONTROLLERS`, with its settings."""

    name: str = "edge_gnn"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class TrainingConfig:
    """A training file of kind ``topology``.

    Attributes:
        pool: a shipped pool or the path of a pool file.
        task: what is trained on: a task's name or :class:`QuestionsConfig`; its training split by default.
        validation: what the best topology is chosen on; the validation split of the same task by default.
        kind: ``topology``.
        debate: :class:`DebateSettings`.
        controller: :class:`ControllerConfig`.
        estimator: :class:`goa_torch.training.topology.estimators.EstimatorConfig`.
        supervision: :class:`goa_torch.training.topology.world.Supervision`.
        schedule: :class:`goa_torch.training.topology.trainer.Schedule`.
        presets: name -> keys that it changes; ``preset=NAME`` on the command line applies one, ``preset=A+B`` several.
        preset: the one to apply.
        out: run folder; ``runs/<name of the file>`` (and ``-<preset>``) by default.
    """

    pool: str
    task: Any
    validation: Any = None
    kind: str = KIND
    debate: DebateSettings = field(default_factory=DebateSettings)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    estimator: dict[str, Any] = field(default_factory=dict)
    supervision: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    presets: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None
    out: str | None = None


def read_training(path: str | Path, overrides: Sequence[str] = ()) -> TrainingConfig:
    """A training file with its presets and the ``key=value`` overrides applied, in this order.

    Raises:
        UserError: for whatever is wrong, with its place.
    """
    place, data = Place(Path(path)), read_yaml(path)
    named = next((word.partition("=")[2] for word in reversed(overrides) if word.startswith("preset=")), None)
    named = data.get("preset") if named is None else named
    for name in named.split("+") if named else ():
        presets = data.get("presets") or {}
        if name not in presets:
            raise unknown("preset", name, presets, str(place / "presets"))
        data = _merged(data, presets[name] or {}, place / "presets" / name)
    config = typed(TrainingConfig, override(data, overrides), place)
    if config.kind != KIND:
        raise UserError(f"{place / 'kind'}: {config.kind!r} is not {KIND!r}")
    suffix = f"-{named}" if named else ""
    config.out = config.out or str(Path("runs") / f"{Path(path).stem}{suffix}")
    return config


def _merged(data: Mapping[str, Any], changes: Any, place: Place) -> dict[str, Any]:
    if not isinstance(changes, Mapping):
        raise UserError(f"{place}: must be a mapping of the keys that it changes, not {changes!r}")
    merged = dict(copy.deepcopy(dict(data)))
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value, place) if both else value
    return merged


def train_topology(path: str | Path, overrides: Sequence[str] = (), out: str | Path | None = None,
                   say: Callable[[str], None] = print, exchange: Exchange | None = None) -> Path:
    """Trains what a file says and returns the run folder; the same call resumes it.

    Args:
        path: the YAML file, see :class:`TrainingConfig`.
        overrides: ``key=value`` with dotted keys.
        out: run folder instead of the file's.
        say: called with a line now and then.
        exchange: where calls go; trainings that share one share the first answers to their questions.

    Raises:
        UserError: for whatever is wrong before the first call.
    """
    from ...agents.pools import load_pool
    from ...nn.soft_agent_conv import SoftAgentConv
    from ...topology.learned import controller_class
    from .estimators import EstimatorConfig
    from .trainer import Schedule, Trainer
    from .world import DebateWorld, Supervision

    place, config = Place(Path(path)), read_training(path, overrides)
    estimator = typed(EstimatorConfig, config.estimator, place / "estimator")
    supervision = typed(Supervision, config.supervision, place / "supervision")
    schedule = typed(Schedule, config.schedule, place / "schedule")
    debate = config.debate
    try:
        passing = SoftAgentConv(debate.scope, debate.messages)  # type: ignore[arg-type]
        kind = controller_class(config.controller.name)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
    questions, validation = training_questions(config, place)
    pool = load_pool(_near(place, config.pool))
    world = DebateWorld(pool, debate.rounds, passing, supervision, exchange)
    names = [agent.name for agent in pool.agents]
    try:
        controller = kind.for_agents(names, schedule.seed, **config.controller.settings, k=debate.k,
                                     threshold=debate.threshold, weights=debate.weights, policy=debate.policy)
    except TypeError as error:
        raise UserError(f"{place / 'controller' / 'settings'}: {error}") from error
    pool.check()
    say(f"{pool.name}: {len(pool)} agents, {len(questions)} questions to train on, {len(validation)} to validate; "
        f"{config.controller.name} of {sum(p.numel() for p in controller.parameters()):,} parameters, {estimator.name}")
    lasting = {key: value for key, value in asdict(schedule).items() if key not in ("steps", "minutes", "tokens")}
    facts = {"pool": config.pool, "task": config.task, "validation": config.validation, "debate": asdict(debate),
             "controller": asdict(config.controller), "estimator": asdict(estimator),
             "supervision": asdict(supervision), "schedule": lasting}
    weighting = debate.weighting or ("attention_receiver" if debate.weights == "soft" else "none")
    trainer = Trainer(world, controller, config.controller.name, estimator, questions, validation, schedule,
                      out or config.out or "runs", {"training": facts}, weighting, say)
    trainer.run()
    return trainer.folder


def training_questions(config: TrainingConfig, place: Place) -> tuple[list[Question], list[Question]]:
    """Questions to train on and to validate on; none of one is among the other, none is a test question."""
    from ...tasks import load_questions, without_overlap

    def load(entry: Any, key: str, split: str) -> list[Question]:
        asked = typed(QuestionsConfig, {"split": split, **({"name": entry} if isinstance(entry, str) else entry or {})},
                      place / key)
        if asked.split == "test":
            raise UserError(f"{place / key / 'split'}: nothing is trained or chosen on test questions; "
                            "take train or validation")
        try:
            found = load_questions(asked.name, file=asked.file, split=asked.split, limit=asked.limit, seed=asked.seed,
                                   **asked.settings)
        except UserError as error:
            raise UserError(f"{place / key}: {error}") from error
        if not found:
            raise UserError(f"{place / key}: there are no questions")
        return found

    questions = load(config.task, "task", "train")
    own = {"name": config.task} if isinstance(config.task, str) else {
        key: value for key, value in config.task.items() if key not in ("split", "file")}
    validation = load(config.validation or own, "validation", "validation")
    kept = without_overlap(questions, validation)
    if not kept:
        raise UserError(f"{place / 'task'}: every question is also a validation question; take another split")
    return kept, validation


def _near(place: Place, name: str) -> str:
    """A pool file beside the training file, else as it is."""
    beside = place.file.parent / name
    return str(beside.resolve()) if name.endswith((".yaml", ".yml")) and beside.is_file() else name
