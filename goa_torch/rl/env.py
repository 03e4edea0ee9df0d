"""A debate as a Gymnasium environment: a controller weighs who hears whom, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch

from .. import randomness
from ..config import Place, typed
from ..errors import UserError
from ..types import Question
from .debates import Debates, Episode, Step
from .registration import register_envs
from .settings import DebateConfig

if TYPE_CHECKING:
    from pathlib import Path

    from ..agents.pool import Pool

    PoolLike = Pool | str | Path | Callable[[], Pool]

register_envs()


class DebateEnv(gymnasium.Env):
    r"""One debate of N agents about one question (RUMAD, arXiv 2602.23864).

    An episode begins with independent answers. Each step the action says how loud every message is; agents that are
    called answer again, synchronously; the majority at the end is the answer.

    - **observation**: ``Box(-1, 1, [N, P N + F])``: similarity and agreement of every two replies, then optional planes
      and features (:class:`goa_torch.topology.observation.ObservationConfig`).
    - **action**: ``Box(0, 1, [N, N])``: W[receiver, sender], self weights on the diagonal
      (:class:`goa_torch.topology.gating.GateConfig` says what they do).
    - **reward**: :class:`goa_torch.rl.rewards.RewardConfig`; ``info["terms"]`` holds its terms.
    - **terminated**: after the last round, or after one in which nobody was called. **truncated**: cut off from
      outside (``cutoff``, or ``max_episode_steps`` of ``gymnasium.make``), without the end reward.
    - **info**: ``question`` (id), ``round``, ``answers``, ``accuracy``, ``consensus``, ``right`` (is the majority), and
      after a step ``terms``, ``called``, ``tokens``, ``silent``.

    Which question an episode is about is drawn from the stream (seed of :meth:`reset`, number of the episode);
    ``reset(options={"question": 3})`` names one. Agents are in the order of their names.

    Args:
        pool: a pool, the name or path of one, or a function that gives one (Gymnasium copies the arguments of
            ``make`` when it makes an environment again from its ``spec``; names and functions stay what they are).
        questions: what is debated; by default those that ``task`` (its name, or a mapping of the arguments of
            :func:`goa_torch.tasks.load_questions`) gives: its training split unless the mapping says otherwise.
        task: see ``questions``.
        config: a :class:`DebateConfig` or a mapping of its keys.
        debates: an existing engine, to share its cache with other environments; then ``pool`` and ``config`` are its.

    Example:
        >>> env = gymnasium.make("goa_torch/Debate-v0", pool="relay", task="relay")  # doctest: +SKIP
    """

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, pool: PoolLike | None = None, questions: Sequence[Question] | None = None,
                 task: str | Mapping[str, Any] | None = None, config: DebateConfig | Mapping[str, Any] | None = None,
                 debates: Debates | None = None, render_mode: str | None = None) -> None:
        self.debates = debates or Debates(load(pool), settings(config))
        self.questions = load_task(questions, task)
        self.render_mode = render_mode
        self.observation_space, self.action_space = spaces(self.debates)
        self.episode: Episode | None = None
        self._draw = Draw(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._draw = Draw(seed)
        question, decoding = self._draw.next(self.questions, self.debates.config)
        if options and "question" in options:
            number = options["question"]
            if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < len(self.questions):
                raise UserError(f"DebateEnv: options['question'] must be a number from 0 to {len(self.questions) - 1}, "
                                f"not {number!r}")
            question = self.questions[number]
        [self.episode] = self.debates.begin([question], [decoding])
        return self._observation(), facts(self.episode)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self.episode is None or self.episode.over:
            raise RuntimeError("this debate has not begun, or is over: call reset() first")
        weights = torch.as_tensor(np.asarray(action, dtype=np.float32))[None]
        [step] = self.debates.step([self.episode], weights)
        return self._observation(), step.reward, step.terminated, step.truncated, facts(self.episode, step)

    def _observation(self) -> np.ndarray:
        return self.debates.observe([self.episode])[0].numpy()  # type: ignore[list-item]

    def render(self) -> str | None:
        """The question and the latest replies, as text."""
        if self.episode is None or self.render_mode != "ansi":
            return None
        lines = [f"round {self.episode.round}: {self.episode.question.text}"]
        return "\n".join(lines + [f"  {place}: {reply.text}" for place, reply in enumerate(self.episode.replies)])


class Draw:
    """Which questions the episodes of an environment are about, and how they are decoded."""

    def __init__(self, seed: int) -> None:
        self.name, self.episode = randomness.stream("debate env", seed), 0

    def next(self, questions: Sequence[Question], config: DebateConfig) -> tuple[Question, int]:
        """The next question and the seed of its decoding."""
        which, how = randomness.uniforms([self.name], np.array([2 * self.episode, 2 * self.episode + 1]))
        self.episode += 1
        return questions[int(which * len(questions))], config.seed + int(how * config.seeds)


def spaces(debates: Debates) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """The spaces of observations and actions."""
    n = debates.n
    return (gymnasium.spaces.Box(-1.0, 1.0, debates.shape, dtype=np.float32),
            gymnasium.spaces.Box(0.0, 1.0, (n, n), dtype=np.float32))


def facts(episode: Episode, step: Step | None = None) -> dict[str, Any]:
    """The ``info`` of an episode."""
    standing = episode.standing
    info: dict[str, Any] = {
        "question": episode.question.id, "round": episode.round, "accuracy": standing.accuracy,
        "consensus": standing.consensus, "right": standing.right, "answers": [r.answer for r in episode.replies]}
    if step is not None:
        info |= {"terms": dict(step.terms), "called": step.called, "tokens": step.tokens, "silent": step.silent}
    return info


def load(pool: PoolLike | None) -> Pool:
    """A pool as it is, the one that a function gives, or the one of that name."""
    from ..agents.pool import Pool
    from ..agents.pools import load_pool

    if pool is None:
        raise UserError("DebateEnv: name a pool (pool='relay') or give one")
    if isinstance(pool, Pool):
        return pool
    return pool() if callable(pool) else load_pool(pool)


def settings(config: DebateConfig | Mapping[str, Any] | None) -> DebateConfig:
    """A configuration from a mapping, with unknown keys rejected."""
    from pathlib import Path

    if config is None or isinstance(config, DebateConfig):
        return config or DebateConfig()
    return debate_config(dict(config), Place(Path("DebateEnv config")))


def debate_config(data: Mapping[str, Any], place: Place) -> DebateConfig:
    """The ``DebateConfig`` that a mapping says, checked key by key; errors name ``place``."""
    parts = {f.name: f.default_factory for f in fields(DebateConfig) if callable(f.default_factory)}
    nested = {name: typed(type(make()), data[name], place / name) for name, make in parts.items() if name in data}
    flat = {key: value for key, value in data.items() if key not in nested}
    plain = typed(DebateConfig, flat, place)
    return DebateConfig(**{f.name: nested.get(f.name, getattr(plain, f.name)) for f in fields(DebateConfig)})


def load_task(questions: Sequence[Question] | None, task: str | Mapping[str, Any] | None) -> list[Question]:
    """The questions of an environment."""
    from ..tasks import load_questions

    if questions is None and task is None:
        raise UserError("DebateEnv: give questions, or name a task (task='relay')")
    if questions is None:
        named = {"task": task} if isinstance(task, str) else dict(task)  # type: ignore[arg-type]
        questions = load_questions(**{"split": "train", **named})
    if not questions:
        raise UserError("DebateEnv: there are no questions to debate")
    return list(questions)
