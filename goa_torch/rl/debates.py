"""Debates as episodes: many at once, one batched call for each model and round."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..agents.calls import Exchange, Recorder
from ..errors import UserError
from ..methods.debate import participants
from ..nn.agent_conv import first_answers
from ..nn.tiers import TierConv
from ..state import State
from ..topology.gating import gate, present, speaking
from ..topology.observation import observe
from ..types import Call, Question, Reply, Topology, Usage
from .cache import PromptCache, TransitionCache, first_key, pass_key
from .rewards import Standing, final_terms, round_terms, silent_rest, standings
from .settings import DebateConfig

if TYPE_CHECKING:
    from ..agents.pool import Pool

_NOWHERE = Standing(0.0, 0.0, False)


@dataclass(slots=True)
class Episode:
    """One debate. ``calls`` holds every call; those that the cache answered are ``shared``."""

    question: Question
    seed: int
    replies: list[Reply] = field(default_factory=list)
    initial: list[Reply] = field(default_factory=list)
    before: list[Reply] = field(default_factory=list)  # replies of the round before
    round: int = 0  # rounds of talking so far
    over: bool = False
    first: Standing = _NOWHERE
    standing: Standing = _NOWHERE
    calls: list[Call] = field(default_factory=list)
    asked: int = 0  # calls after round 0

    @property
    def usage(self) -> Usage:
        """What the debate costs alone, the cache left out of account."""
        return sum((call.usage for call in self.calls), Usage())

    @property
    def paid(self) -> Usage:
        """What was really paid: calls that the cache answered left out."""
        return sum((call.usage for call in self.calls if not call.shared), Usage())


@dataclass(slots=True)
class Step:
    """What a step gave one episode: ``terms`` sum to ``reward``."""

    reward: float
    terms: dict[str, float]
    terminated: bool
    truncated: bool
    called: int
    silent: bool
    tokens: int


class Debates:
    """Begins debates and steps them under weight matrices: what the environments and the trainer are made of.

    Replies that were given before under the same circumstances, or to the same prompt, come from caches
    and cost nothing (:mod:`goa_torch.rl.cache`); calls of episodes in different rounds go out together.

    Args:
        pool: the agents.
        config: what an episode is.
        exchange: merges and shares calls with others; by default a private one that keeps replies.
    """

    def __init__(self, pool: Pool, config: DebateConfig | None = None, exchange: Exchange | None = None) -> None:
        self.pool, self.config = pool, config or DebateConfig()
        self.select = participants("debate", pool, self.config.n, self.config.agent)
        self.passing = TierConv("words")
        self.exchange = exchange or Exchange(PromptCache(self.config.cache))
        self.cache = TransitionCache(self.config.cache)
        self.n = len(pool) if self.config.n is None else self.config.n
        self.config.observation.check(pool)
        for template in ("answer", *self.passing.needs_templates):
            if not pool.prompts.has(template):
                raise UserError(f"debate needs the prompt template {template}.jinja, which the pool's prompts lack")
            pool.prompts.check(template, pool.variables)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of an observation."""
        return self.n, self.config.observation.width(self.n)

    def begin(self, questions: Sequence[Question], seeds: Sequence[int] | None = None) -> list[Episode]:
        """Episodes after their independent first answers.

        Args:
            questions: what is debated; a question may occur more than once.
            seeds: of the decoding of each; the configuration's by default.
        """
        seeds = [self.config.seed] * len(questions) if seeds is None else seeds
        episodes = [Episode(question, seed) for question, seed in zip(questions, seeds, strict=True)]
        self._grouped(episodes, lambda group: self._first(group))
        return episodes

    def step(self, episodes: Sequence[Episode], weights: Tensor) -> list[Step]:
        """Talks one round in each episode.

        Args:
            episodes: debates that are not over.
            weights: [B, N, N] in [0, 1], ``[receiver, sender]``.
        """
        if weights.shape != (len(episodes), self.n, self.n):
            raise ValueError(f"weights {list(weights.shape)} do not fit {len(episodes)} debates of {self.n} agents: "
                             f"give [{len(episodes)}, {self.n}, {self.n}], [receiver, sender]")
        if not bool(((weights >= 0) & (weights <= 1)).all()):
            raise ValueError("weights must lie in [0, 1]")
        if any(episode.over for episode in episodes):
            raise ValueError("a debate that is over cannot go on; begin another one")
        place = {id(episode): row for row, episode in enumerate(episodes)}
        steps: dict[int, Step] = {}

        def talk(group: list[Episode]) -> None:
            rows = [place[id(episode)] for episode in group]
            steps.update(zip(rows, self._talk(group, weights[rows])))

        self._grouped(episodes, talk)
        return [steps[row] for row in range(len(episodes))]

    def observe(self, episodes: Sequence[Episode]) -> Tensor:
        """[B, N, P N + F] what a controller sees of each episode, those that are over included."""
        rows = torch.zeros(len(episodes), *self.shape)
        for group in _groups(episodes).values():
            state = self._state([episodes[row] for row in group])
            rows[group] = observe(state, self.config.observation)[0]
        return rows

    # ------------------------------------------------------------------ one group: same seed, same round

    def _grouped(self, episodes: Sequence[Episode], work: Callable[[list[Episode]], None]) -> None:
        """Works on groups of equal seed and round side by side, their calls merged."""
        groups = [[episodes[row] for row in rows] for rows in _groups(episodes).values()]
        if len(groups) == 1:
            work(groups[0])
        elif groups:
            self.exchange.together([lambda group=group: work(group) for group in groups])

    def _state(self, group: Sequence[Episode], recorder: Recorder | None = None) -> State:
        questions = [episode.question for episode in group]
        recorder = recorder or Recorder(questions, group[0].seed, self.pool.sampling, self.exchange)
        state = self.select(questions, self.pool, recorder)
        if group[0].replies:
            state.replies = [reply for episode in group for reply in episode.replies]
            state.initial = [reply for episode in group for reply in episode.initial]
            state.history = [[reply for episode in group for reply in episode.before], list(state.replies)]
        state.round = group[0].round + 1
        return state

    def _first(self, group: list[Episode]) -> None:
        state = self._state(group)
        state.round = 0
        known = {node: self.cache.get(first_key(state, node)) for node in range(state.num_nodes)}
        fresh = [node for node, reply in known.items() if reply is None]
        first_answers(state, nodes=fresh)
        for node in fresh:
            self.cache.put(first_key(state, node), state.replies[node])
        self._reuse(state, known, "answer")
        state.initial = list(state.replies)
        for number, (episode, standing) in enumerate(zip(group, standings(state))):
            nodes = state.nodes_of(number)
            episode.replies = [state.replies[node] for node in nodes]
            episode.initial, episode.before = list(episode.replies), list(episode.replies)
            episode.first = episode.standing = standing
            episode.calls = list(state.recorder.calls[number])

    def _talk(self, group: list[Episode], weights: Tensor) -> list[Step]:
        state = self._state(group)
        here = present(state.batch, len(group), self.n)
        gated = gate(weights, here, speaking(state, self.n), self.config.gate)
        topology = gated.topology(state.batch)
        old, old_state_replies = [list(episode.replies) for episode in group], list(state.replies)
        inbox = self.passing.inbox(topology, state.order)
        keys: dict[int, Hashable] = {node: pass_key(state, node, inbox) for node in range(state.num_nodes)
                                     if bool(topology.active[node]) and inbox[node]}
        known = {node: self.cache.get(key) for node, key in keys.items()}
        fresh = topology.active.clone()
        fresh[[node for node, reply in known.items() if reply is not None]] = False
        if bool(fresh.any()):
            self.passing(state, Topology(topology.edge_index, topology.edge_weight, fresh))
        for node, key in keys.items():
            if known[node] is None and state.replies[node] is not old_state_replies[node]:
                self.cache.put(key, state.replies[node])
        self._reuse(state, known, "pass")
        steps = []
        for number, (episode, standing) in enumerate(zip(group, standings(state))):
            nodes = state.nodes_of(number)
            episode.before, episode.replies = old[number], [state.replies[node] for node in nodes]
            depth = max((call.depth for call in episode.calls), default=0)
            calls = [replace(call, depth=depth + 1) for call in state.recorder.calls[number]]
            episode.calls += calls
            episode.asked += len(calls)
            episode.round += 1
            steps.append(self._score(episode, standing, calls, int(gated.called[number].sum()),
                                     float(gated.density[number]), bool(gated.silent[number])))
        return steps

    def _reuse(self, state: State, known: dict[int, Reply | None], purpose: str) -> None:
        """Puts replies of the cache in their places and records what they would have cost."""
        state.replies = list(state.replies)
        for node, reply in known.items():
            if reply is not None:
                state.replies[node] = reply
                question = int(state.batch[node])
                state.recorder.calls[question].append(
                    Call(purpose, state.agent_of(node).name, state.questions[question].id,  # type: ignore[arg-type]
                         state.round, 1, replace(reply.usage, calls=1), True, reply.finish_reason))

    def _score(self, episode: Episode, standing: Standing, calls: Sequence[Call], called: int, density: float,
               silent: bool) -> Step:
        config, tokens = self.config.reward, sum(call.usage.tokens for call in calls)
        terms = round_terms(config, episode.standing, standing, called / self.n, density, tokens)
        episode.standing = standing
        terminated = silent or episode.round >= self.config.rounds - 1
        truncated = not terminated and self.config.cutoff is not None and episode.round >= self.config.cutoff
        if terminated:
            left = self.config.rounds - 1 - episode.round if config.absorb else 0
            share = episode.asked / (self.n * (self.config.rounds - 1))
            terms["rest"] = silent_rest(config, standing, left)
            ending = final_terms(config, episode.first, standing, share)
            terms |= {name: config.discount**left * value for name, value in ending.items()}
        episode.over = terminated or truncated
        return Step(sum(terms.values()), terms, terminated, truncated, called, silent, tokens)


def _groups(episodes: Sequence[Episode]) -> dict[tuple[int, int], list[int]]:
    """Rows of equal seed and round: one state has one of each."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row, episode in enumerate(episodes):
        groups.setdefault((episode.seed, episode.round), []).append(row)
    return groups
