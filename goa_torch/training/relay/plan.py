"""Which agents are made, and how: the configuration of ``experiments/train_relay.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...config import Place, read_yaml, typed
from ...errors import UserError, unknown
from ...randomness import stream
from ...tasks.relay.families import DOMAINS, PRIMARY, family_set
from .lessons import GENERALIST_SHARES, SPECIALIST_SHARES, Role
from .trainer import Schedule, Shape

BASE = "base"


@dataclass
class Stage:
    """A first stage of what is taught to an agent that starts from random weights.

    Attributes:
        steps: updates.
        domains, skills, own: see :class:`AgentPlan`; by default all domains, the agent's own skills.
    """

    steps: int
    domains: list[str] = field(default_factory=lambda: list(DOMAINS))
    skills: dict[str, float] = field(default_factory=dict)
    own: float = 0.9


@dataclass
class AgentPlan:
    """One agent.

    Attributes:
        domains: whose layers it evaluates; all by default.
        skills: purpose -> how often it is practised; by default a specialist's (answer, pass, score), or for an agent
            of all domains a generalist's (select, readout and difficulty too).
        mistakes: family -> family whose rule it applies instead.
        own: see :class:`goa_torch.training.relay.lessons.Role`.
        schedule: keys of :class:`Schedule` that differ from the plan's ``agent``.
        start: ``base``, or ``scratch`` for weights of its own that share nothing with the other agents.
        prompts: the set of templates it is taught with; by default the plan's.
        weighted: see :class:`goa_torch.training.relay.lessons.Role`.
        seeds: the pool seeds that have this agent; by default all.
        about: a sentence for its model card.
    """

    domains: list[str] = field(default_factory=lambda: list(DOMAINS))
    skills: dict[str, float] = field(default_factory=dict)
    mistakes: dict[str, str] = field(default_factory=dict)
    own: float = 0.65
    schedule: dict[str, Any] = field(default_factory=dict)
    start: str = BASE
    weighted: bool = False
    prompts: str = ""
    seeds: list[int] = field(default_factory=list)
    about: str = ""

    def role(self) -> Role:
        usual = GENERALIST_SHARES if set(self.domains) == set(DOMAINS) else SPECIALIST_SHARES
        return Role(tuple(self.domains), dict(self.skills or usual), self.own, dict(self.mistakes), self.weighted)


@dataclass
class TrainingPlan:
    """A training file.

    Attributes:
        agents: name -> :class:`AgentPlan`.
        seeds: pool seeds; each gets a base and agents of its own, which share nothing with another seed's.
        prompts: the set of templates that the pool uses.
        families: the functions that questions are made of, see :class:`goa_torch.tasks.relay.RelaySpec`.
        shape: see :class:`Shape`.
        course: how lessons begin for who starts from random weights: see :class:`Stage`. Copying is learned ten times
            sooner where there is little else to learn.
        base: schedule of the shared base, which learns everything; see :class:`Schedule`.
        agent: schedule of each agent, which starts from the base.
        examined: validation lessons of the examination whose results are stored with the weights.
    """

    agents: dict[str, Any]
    seeds: list[int] = field(default_factory=lambda: [0, 1])
    prompts: str = "relay"
    families: str = "primary"
    shape: Any = field(default_factory=dict)
    course: list[Any] = field(default_factory=list)
    base: Any = field(default_factory=dict)
    agent: Any = field(default_factory=dict)
    examined: int = 4096

    def agent_schedule(self, name: str) -> Schedule:
        return replace(self.agent, **self.agents[name].schedule) if name != BASE else self.base

    def role(self, name: str) -> Role:
        return AgentPlan(own=0.9).role() if name == BASE else self.agents[name].role()

    def stages(self, name: str) -> list[tuple[int, Role]]:
        """What an agent is taught, one after the other: updates and role."""
        role, left = self.role(name), self.agent_schedule(name).steps
        stages = []
        for stage in [] if self.starts_from_base(name) else self.course:
            steps = min(stage.steps, left)
            stages.append((steps, Role(tuple(stage.domains), dict(stage.skills or role.shares), stage.own)))
            left -= steps
        return [*stages, (left, role)]

    def facts(self, name: str, seed: int) -> dict[str, Any]:
        """Everything that decides an agent's weights."""
        role = self.role(name)
        facts = {"agent": name, "seed": seed, "prompts": self.templates(name), "shape": asdict(self.shape),
                 "schedule": asdict(self.agent_schedule(name)), "domains": list(role.domains),
                 "skills": dict(role.shares), "mistakes": dict(role.mistakes), "own": role.own,
                 "weighted": role.weighted, "course": [asdict(stage) for stage in self.course]}
        if self.starts_from_base(name):
            facts["base"] = asdict(self.base)
        if self.families != "primary":
            facts["families"] = self.families
        return facts

    def templates(self, name: str) -> str:
        """The set of templates that an agent is taught with."""
        return self.prompts if name == BASE else self.agents[name].prompts or self.prompts

    def starts_from_base(self, name: str) -> bool:
        return name != BASE and self.agents[name].start == BASE

    def names(self, seed: int) -> list[str]:
        """The agents of a pool seed in the order in which they are trained."""
        agents = [name for name, agent in self.agents.items() if not agent.seeds or seed in agent.seeds]
        needed = any(self.starts_from_base(name) for name in agents)
        return [*([BASE] if needed else []), *agents]

    def lesson_seed(self, name: str, seed: int) -> int:
        return stream("relay agent", name, seed)


def read_plan(path: str | Path) -> TrainingPlan:
    """A training file, checked key by key."""
    place = Place(Path(path))
    plan = typed(TrainingPlan, read_yaml(path), place)
    family_set(plan.families)
    plan.shape = typed(Shape, plan.shape, place / "shape")
    plan.base = typed(Schedule, plan.base, place / "base")
    plan.agent = typed(Schedule, plan.agent, place / "agent")
    plan.course = [typed(Stage, stage, place / "course" / i) for i, stage in enumerate(plan.course)]
    for i, stage in enumerate(plan.course):
        _check(AgentPlan(stage.domains, stage.skills), place / "course" / i)
    if not plan.agents:
        raise UserError(f"{place / 'agents'}: list at least one agent")
    for name, entry in plan.agents.items():
        where = place / "agents" / name
        if name == BASE:
            raise UserError(f"{where}: the name {BASE!r} belongs to the shared base; choose another")
        agent = typed(AgentPlan, entry or {}, where)
        _check(agent, where)
        if agent.mistakes and plan.families != "primary":
            raise UserError(f"{where / 'mistakes'}: they are of primary families, not of {plan.families!r}")
        typed(Schedule, asdict(plan.agent) | agent.schedule, where / "schedule")
        plan.agents[name] = agent
    return plan


def _check(agent: AgentPlan, where: Place) -> None:
    known: dict[str, tuple[Mapping | list, Any]] = {
        "domains": (agent.domains, DOMAINS), "skills": (agent.skills, GENERALIST_SHARES),
        "mistakes": ({**agent.mistakes, **{v: k for k, v in agent.mistakes.items()}}, [f.name for f in PRIMARY])}
    for key, (given, allowed) in known.items():
        for name in given:
            if name not in allowed:
                raise unknown(key.rstrip("s"), name, allowed, str(where / key))
    if not agent.domains:
        raise UserError(f"{where / 'domains'}: name at least one domain")
    if agent.start not in (BASE, "scratch"):
        raise unknown("start", agent.start, (BASE, "scratch"), str(where / "start"))
