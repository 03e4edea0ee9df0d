"""Many debates at once as a Gymnasium vector environment: one batched call for each model and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..types import Question
from .debates import Debates, Episode
from .env import Draw, facts, load, load_task, settings, spaces
from .registration import register_envs
from .settings import DebateConfig

if TYPE_CHECKING:
    from .env import PoolLike

register_envs()


class DebateVectorEnv(VectorEnv):
    """``num_envs`` independent :class:`goa_torch.rl.env.DebateEnv`, stepped together.

    Replies, rewards and observations are those of single environments with seeds ``seed, seed + 1, ...``; only calls
    are merged. A debate that is over begins anew in the next step, whose action it ignores (autoreset mode
    ``NEXT_STEP``); with ``autoreset="disabled"`` it stays over, gives reward 0, and waits for
    ``reset(options={"reset_mask": mask})``.

    Args:
        num_envs: how many.
        autoreset: ``next_step`` or ``disabled``.
        pool, questions, task, config, debates: as for the single form.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int = 8, pool: PoolLike | None = None,
                 questions: Sequence[Question] | None = None, task: str | Mapping[str, Any] | None = None,
                 config: DebateConfig | Mapping[str, Any] | None = None, debates: Debates | None = None,
                 autoreset: str = "next_step", render_mode: str | None = None) -> None:
        self.num_envs = num_envs
        self.debates = debates or Debates(load(pool), settings(config))
        self.questions = load_task(questions, task)
        self.render_mode = render_mode
        mode = AutoresetMode[autoreset.upper()]
        if mode is AutoresetMode.SAME_STEP:
            raise ValueError("DebateVectorEnv resets in the next step or not at all: choose next_step or disabled")
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self.single_observation_space, self.single_action_space = spaces(self.debates)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.episodes: list[Episode] = []
        self._draws = [Draw(number) for number in range(num_envs)]

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
              ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is not None:
            seeds = [seed + number for number in range(self.num_envs)] if isinstance(seed, int) else list(seed)
            for number, own in enumerate(seeds):
                if own is not None:
                    self._draws[number] = Draw(own)
        mask = (options or {}).get("reset_mask")
        rows = list(range(self.num_envs)) if mask is None or not self.episodes else np.flatnonzero(mask).tolist()
        self._begin(rows)
        infos: dict[str, Any] = {}
        for row in rows:
            infos = self._add_info(infos, facts(self.episodes[row]), row)
        return self.debates.observe(self.episodes).numpy(), infos

    def _begin(self, rows: Sequence[int]) -> None:
        drawn = [self._draws[row].next(self.questions, self.debates.config) for row in rows]
        self.episodes = self.episodes or [Episode(self.questions[0], 0, over=True)] * self.num_envs
        begun = self.debates.begin([question for question, _ in drawn], [how for _, how in drawn])
        for row, episode in zip(rows, begun):
            self.episodes[row] = episode

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if not self.episodes:
            raise RuntimeError("no debate has begun: call reset() first")
        weights = torch.as_tensor(np.asarray(actions, dtype=np.float32))
        going = [row for row, episode in enumerate(self.episodes) if not episode.over]
        ended = [row for row, episode in enumerate(self.episodes) if episode.over]
        rewards = np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, dtype=bool), np.zeros(self.num_envs, dtype=bool)
        infos: dict[str, Any] = {}
        steps = self.debates.step([self.episodes[row] for row in going], weights[going])
        for row, step in zip(going, steps):
            rewards[row], terminated[row], truncated[row] = step.reward, step.terminated, step.truncated
            infos = self._add_info(infos, facts(self.episodes[row], step), row)
        if ended and self.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP:
            self._begin(ended)
            for row in ended:
                infos = self._add_info(infos, facts(self.episodes[row]), row)
        return self.debates.observe(self.episodes).numpy(), rewards, terminated, truncated, infos
