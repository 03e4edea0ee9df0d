"""A pool: the agents a method may choose from, the meta-LLM, their prompts and how they decode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..errors import UserError, unknown
from ..types import Purpose, Sampling
from .base import Agent, LanguageModel
from .prompts import PURPOSES, PromptSet

JUDGING = ("text", "likelihood")


@dataclass(slots=True, eq=False)
class Pool:
    """Agents to choose from.

    Attributes:
        agents: in the order they are listed; that order is their position where a topology has positions (a ring)
            and matters nowhere else.
        meta: the meta-LLM, which selects agents and writes syntheses; often one of the agents.
        prompts: templates by purpose.
        sampling: how replies are decoded, by purpose.
        name: for tables.
        variables: settings of the pool that templates may read.
        judging: how its judges score and its meta-LLM selects: ``text`` (they write numbers, as in the paper) or
            ``likelihood`` (the probability they give to each reply's or agent's number), for models too small to
            write numbers to order.
    """

    agents: list[Agent]
    meta: Agent
    prompts: PromptSet
    sampling: dict[Purpose, Sampling]
    name: str = "pool"
    variables: dict[str, object] = field(default_factory=dict)
    judging: str = "text"
    _searched: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def __init__(self, agents: Sequence[Agent], prompts: PromptSet, meta: Agent | str | None = None,
                 sampling: Sampling | Mapping[Purpose, Sampling] | None = None, name: str = "pool",
                 variables: Mapping[str, object] | None = None, judging: str = "text") -> None:
        self.agents = list(agents)
        if not self.agents:
            raise UserError(f"pool {name!r} has no agents; list at least one")
        names = [agent.name for agent in self.agents]
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise UserError(f"pool {name!r} lists agent {twice[0]!r} twice; names must be unique")
        if isinstance(meta, str) and meta not in names:
            raise unknown("agent", meta, names, f"pool {name!r}, meta")
        self.meta = self.agents[0] if meta is None else self[meta] if isinstance(meta, str) else meta
        if self.meta.name in names and self[self.meta.name] is not self.meta:
            raise UserError(f"pool {name!r}: the meta-LLM has the name of another agent, {self.meta.name!r}; "
                            "names must be unique, since they name random streams")
        self.prompts = prompts
        sampling = Sampling() if sampling is None else sampling
        same = sampling if isinstance(sampling, Sampling) else None
        given = {} if same else dict(sampling)  # type: ignore[call-overload]
        for purpose in given:
            if purpose not in PURPOSES:
                raise unknown("purpose", purpose, PURPOSES, f"pool {name!r}, sampling")
        missing = [purpose for purpose in PURPOSES if not same and purpose not in given]
        if missing:
            raise UserError(f"pool {name!r}: sampling says nothing about {', '.join(missing)}; "
                            "give one Sampling, or one for each purpose")
        self.sampling = {purpose: same or given[purpose] for purpose in PURPOSES}
        self.name = name
        self.variables = dict(variables or {})
        if judging not in JUDGING:
            raise unknown("way of judging", judging, JUDGING, f"pool {name!r}, judging")
        self.judging = judging
        self._searched = {}

    def __len__(self) -> int:
        return len(self.agents)

    def __getitem__(self, name: str) -> Agent:
        for agent in self.agents:
            if agent.name == name:
                return agent
        raise unknown("agent", name, [a.name for a in self.agents], f"pool {self.name!r}")

    @property
    def canonical(self) -> list[int]:
        """Positions of the agents sorted by name: the order in which cards are shown, whatever the listing."""
        return sorted(range(len(self.agents)), key=lambda i: self.agents[i].name)

    @property
    def models(self) -> list[LanguageModel]:
        """Every model once, the meta-LLM's included."""
        return list({id(a.model): a.model for a in [*self.agents, self.meta]}.values())

    def searched(self, by: str, cards: tuple[str, ...], read: Callable[[], Any]) -> Any:
        """What a search made of the texts of ``cards``: ``read()`` the first time, and kept from then on.

        Args:
            by: what the search compares by (a model's fingerprint, say).
        """
        if (by, cards) not in self._searched:
            self._searched[by, cards] = read()
        return self._searched[by, cards]

    def with_sampling(self, **changes: object) -> Pool:
        """The same pool, decoding changed for every purpose (``temperature=0``, say)."""
        known = [f.name for f in fields(Sampling)]
        for change in changes:
            if change not in known:
                raise unknown("setting", change, known, "sampling")
        changed = {purpose: replace(how, **changes) for purpose, how in self.sampling.items()}  # type: ignore[arg-type]
        pool = Pool(self.agents, self.prompts, self.meta, changed, self.name, self.variables, self.judging)
        pool._searched = self._searched
        return pool

    def check(self) -> None:
        """Loads or reaches every model, so that what is wrong shows before the first call."""
        for model in self.models:
            model.check()
