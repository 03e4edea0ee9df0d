"""What a debate is, as an environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import UserError
from ..topology.gating import GateConfig
from ..topology.observation import ObservationConfig
from .rewards import RewardConfig


@dataclass(frozen=True)
class DebateConfig:
    """Everything that makes an episode but the pool and the questions.

    Attributes:
        rounds: answers of each agent at most, the independent first one included (RUMAD: 6); an episode has at most
            ``rounds - 1`` steps. Reaching the last is the end of the debate: termination.
        cutoff: steps after which an episode is cut off from outside, with neither end nor end reward: truncation;
            ``None`` for never. ``gymnasium.make(..., max_episode_steps=...)`` does the same for the single form.
        n: copies of ``agent``; ``None`` for all agents of the pool.
        agent: whose copies; the meta-LLM by default.
        seed: of decoding: the stream of a call belongs to (seed, question, agent, round), so that the same messages
            in the same round get the same reply.
        seeds: episodes are decoded with ``seed .. seed + seeds - 1``, drawn.
        cache: transitions that are kept (one or two kilobytes each); 0 for none.
    """

    rounds: int = 6
    cutoff: int | None = None
    n: int | None = None
    agent: str | None = None
    seed: int = 0
    seeds: int = 1
    cache: int = 250_000
    observation: ObservationConfig = field(default_factory=ObservationConfig)
    gate: GateConfig = field(default_factory=GateConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)

    def __post_init__(self) -> None:
        for name, least in (("rounds", 2), ("seeds", 1), ("cache", 0)):
            if getattr(self, name) < least:
                raise UserError(f"debate: {name} must be at least {least}, not {getattr(self, name)}")
        if self.cutoff is not None and self.cutoff < 1:
            raise UserError(f"debate: cutoff must be at least 1, not {self.cutoff}")

    @property
    def steps(self) -> int:
        """Steps of an episode at most."""
        return self.rounds - 1 if self.cutoff is None else min(self.cutoff, self.rounds - 1)
