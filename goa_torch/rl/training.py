"""``goa train`` for controllers: a file says which pool, questions, debate, policy and learner."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import Place, override, read_yaml, typed
from ..errors import UserError, unknown
from ..methods.rumad import find_controller
from ..topology.controller import load_controller
from ..topology.policies import PolicyConfig, WeightPolicy
from ..types import Question
from .debates import Debates
from .env import debate_config
from .ppo import PPO, PPOConfig
from .settings import DebateConfig
from .trainer import Schedule, Trainer

if TYPE_CHECKING:
    from ..agents.pool import Pool

KIND = "ppo"
AGENTS = ("models", "perfect")


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
class TrainingConfig:
    """A training file of kind ``ppo``.

    Attributes:
        pool: a shipped pool or the path of a pool file.
        agents: ``models``: the pool's; ``perfect``: agents in their places that make no mistakes and need no model
            (:func:`goa_torch.methods.ceiling.perfect_pool`, Relay only). A controller learns from them in minutes whom
            to ask when; real agents are for ``start`` then.
        start: folder of a controller whose weights are the first ones.
        task: what is trained on: a task's name or :class:`QuestionsConfig`; its training split by default.
        validation: what the best policy is chosen on; the validation split of the same task by default.
        kind: ``ppo``.
        debate: keys of :class:`goa_torch.rl.settings.DebateConfig`.
        policy: keys of :class:`goa_torch.topology.policies.PolicyConfig`.
        ppo: keys of :class:`goa_torch.rl.ppo.PPOConfig`; ``discount`` holds for the rewards of silence too, and the
            debate's ``gate.background`` for the budget.
        schedule: keys of :class:`goa_torch.rl.trainer.Schedule`.
        cache: folder of replies that trainings (and experiments) may share; by default they are kept in memory.
        presets: name -> keys that it changes; ``preset=NAME`` on the command line applies one, ``preset=NAME+OTHER``
            several, the last of which wins.
        preset: what to apply.
        out: run folder; ``runs/<name of the file>`` (and ``-<preset>``) by default.
    """

    pool: str
    task: Any
    validation: Any = None
    kind: str = KIND
    agents: str = "models"
    start: str | None = None
    debate: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    ppo: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    cache: str | None = None
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
    for name in str(named).split("+") if named else ():
        presets = data.get("presets") or {}
        if name not in presets:
            raise unknown("preset", name, presets, str(place / "presets"))
        data = _merged(data, presets[name] or {}, place / "presets" / name)
    config = typed(TrainingConfig, override(data, overrides), place)
    if config.agents not in AGENTS:
        raise unknown("agents", config.agents, AGENTS, str(place / "agents"))
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


@dataclass(frozen=True)
class TrainingPlan:
    """A training file whose every part has been checked."""

    config: TrainingConfig
    debate: DebateConfig
    policy: PolicyConfig
    ppo: PPOConfig
    schedule: Schedule

    def facts(self) -> dict[str, Any]:
        """What the trained weights depend on, JSON-able; a longer schedule is the same training."""
        schedule = {key: value for key, value in asdict(self.schedule).items() if key not in ("updates", "minutes")}
        return {"pool": self.config.pool, "agents": self.config.agents, "start": self.config.start,
                "task": self.config.task, "validation": self.config.validation,
                "debate": asdict(self.debate), "policy": asdict(self.policy), "ppo": asdict(self.ppo),
                "schedule": schedule}


def plan_training(path: str | Path, overrides: Sequence[str] = ()) -> TrainingPlan:
    """What a training file comes to; loads neither pool nor questions.

    Raises:
        UserError: for whatever is wrong with it.
    """
    place, config = Place(Path(path)), read_training(path, overrides)
    ppo = typed(PPOConfig, config.ppo, place / "ppo")
    debate = debate_config(config.debate, place / "debate")
    debate = replace(debate, reward=replace(debate.reward, discount=ppo.discount),
                     observation=replace(debate.observation, rounds=debate.rounds))
    return TrainingPlan(config, debate, typed(PolicyConfig, config.policy, place / "policy"),
                        replace(ppo, threshold=debate.gate.background),
                        typed(Schedule, config.schedule, place / "schedule"))


def train_controller(path: str | Path, overrides: Sequence[str] = (), out: str | Path | None = None,
                     say: Callable[[str], None] | None = None) -> Path:
    """Trains what a file says and returns the run folder; the same call resumes it.

    Args:
        path: the YAML file, see :class:`TrainingConfig`.
        overrides: ``key=value`` with dotted keys.
        out: run folder instead of the file's.
        say: called with a line now and then; prints it by default.

    Raises:
        UserError: for whatever is wrong before the first call.
    """
    from ..agents.calls import Exchange
    from ..agents.pools import load_pool
    from ..bench.cache import DiskCache

    say = say or _print
    place, plan = Place(Path(path)), plan_training(path, overrides)
    questions, validation = _questions(plan.config, place)
    pool = load_pool(_near(place, plan.config.pool))
    if plan.config.agents == "perfect":
        pool = _perfect(pool, plan.config, place)
    exchange = None if plan.config.cache is None else Exchange(DiskCache(plan.config.cache))
    debates = Debates(pool, plan.debate, exchange)
    policy = WeightPolicy(plan.policy, plan.debate.observation, debates.n, plan.schedule.seed)
    if plan.config.start is not None:
        _start_from(policy, plan.config.start, place)
    pool.check()
    say(f"{pool.name}: {debates.n} agents, {len(questions)} questions to train on, {len(validation)} to validate; "
        f"{sum(p.numel() for p in policy.parameters()):,} parameters")
    trainer = Trainer(debates, PPO(policy, plan.ppo, plan.schedule.seed), questions, validation, plan.schedule,
                      out or plan.config.out or "runs", plan.facts(), say)
    trainer.run()
    return trainer.folder


def _perfect(pool: Pool, config: TrainingConfig, place: Place) -> Pool:
    """The pool with agents that make no mistakes."""
    from ..methods.ceiling import perfect_pool

    name = config.task if isinstance(config.task, str) else config.task.get("name")
    if name != "relay":
        raise UserError(f"{place / 'agents'}: perfect agents exist for the task relay alone, not for {name!r}")
    return perfect_pool(pool)


def _start_from(policy: WeightPolicy, folder: str, place: Place) -> None:
    """Gives ``policy`` the weights of a controller."""
    found, _, _ = load_controller(find_controller(folder))
    same = (found.config, found.observation) == (policy.config, policy.observation)
    if not same or (policy.config.architecture == "mlp" and found.agents != policy.agents):
        raise UserError(f"{place / 'start'}: the controller in {folder} has another policy, observation or number of "
                        "agents; make them the same, or start from random weights")
    policy.load_state_dict(found.state_dict())


def _print(line: str) -> None:
    print(line, flush=True)  # seen at once, also in a file


def _questions(config: TrainingConfig, place: Place) -> tuple[list[Question], list[Question]]:
    from ..tasks import load_questions, without_overlap

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
