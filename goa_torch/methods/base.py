"""The five slots, and the one loop that runs them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from ..agents.base import GENERATE, LOG_LIKELIHOOD
from ..agents.calls import Exchange, Recorder
from ..errors import UserError
from ..nn.agent_conv import AgentConv, first_answers
from ..topology.stopping import FixedRounds
from ..types import Question, Result
from .registry import name_of

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from ..agents.prompts import PromptSet
    from ..state import State
    from ..types import Topology


class Method(nn.Module):
    """A way to answer questions with a graph of agents: select, connect, pass, stop, read out.

    Args:
        pool: the agents.
        select: ``(questions, pool, recorder) -> State``: who takes part.
        readout: ``(state) -> replies``: what the answer is.
        connect: ``(state, round) -> Topology | None``: who hears whom; ``None`` ends the run. Without it nobody talks.
        passing: ``(state, topology) -> replies``: what an agent does with what it hears.
        stop: ``(state, round) -> [B] bool``: which questions are finished before that round.
        answer_prompts: other templates for the first answers than the pool's.

    A method is callable: ``results = method(questions, seed=0)``. It keeps nothing of a run.
    """

    #: What agents must be able to do.
    needs: tuple[str, ...] = (GENERATE,)
    #: Prompt templates that the method needs beyond those that its modules name (``needs_templates``).
    templates: tuple[str, ...] = ()
    #: The prompt template of first answers.
    first_template = "answer"
    #: The name under which the method is registered (its class's, if it is not) and its settings, defaults filled in.
    name: str
    config: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Method:
        method = super().__new__(cls)
        try:
            given = inspect.signature(cls.__init__).bind(method, *args, **kwargs).arguments
        except TypeError:  # copying, or wrong arguments, which __init__ complains about
            return method
        known = cls.parameters_of()
        config = {**known, **{name: _plain(value) for name, value in given.items() if name in known}}
        object.__setattr__(method, "name", name_of(cls))
        object.__setattr__(method, "config", config)
        return method

    def __init__(self, pool: Pool, select: nn.Module, readout: nn.Module, connect: nn.Module | None = None,
                 passing: nn.Module | None = None, stop: nn.Module | None = None,
                 answer_prompts: PromptSet | None = None) -> None:
        super().__init__()
        self.pool = pool
        self.select = select
        self.connect = connect
        self.passing = passing or AgentConv()
        self.stop = stop or FixedRounds(None if connect is not None else 0)
        self.readout = readout
        self.answer_prompts = answer_prompts
        for model in pool.models:
            for capability in self.needs:
                model.need(capability, type(self).__name__)
        for module in self.modules():
            for capability in getattr(module, "needs", ()) if module is not self else ():
                for model in pool.models:
                    model.need(capability, f"{type(self).__name__} with weighting = {module.weighting!r}")
        weighing = [module for module in self.modules() if getattr(module, "judging", "text") == "likelihood"]
        for model in pool.models if weighing else ():
            model.need(LOG_LIKELIHOOD, f"{type(self).__name__} with judging = 'likelihood'")
        for prompts, template in dict.fromkeys(self._prompts()):
            if not prompts.has(template):
                raise UserError(f"{type(self).__name__} needs the prompt template {template}.jinja, which "
                                f"{prompts.folder} lacks; add it, or choose another prompt set")
            prompts.check(template, pool.variables)

    def _prompts(self) -> Iterator[tuple[PromptSet, str]]:
        """Every template the method will ask for, with the set it lies in."""
        pool = self.pool.prompts
        yield self.answer_prompts or pool, self.first_template
        yield from ((pool, template) for template in self.templates)
        talks = self.connect is not None and getattr(self.stop, "rounds", None) != 0
        for module in (self.select, self.readout, *((self.connect, self.passing) if talks else ())):
            for part in module.modules():
                for template in getattr(part, "needs_templates", ()):
                    yield getattr(part, "prompts", None) or pool, template

    def forward(self, questions: Sequence[Question], seed: int = 0, exchange: Exchange | None = None) -> list[Result]:
        """Answers ``questions``.

        Args:
            questions: the batch; each becomes one graph.
            seed: names the random streams of decoding and ties.
            exchange: merges and shares calls with other runs.
        """
        questions = _checked(questions)
        if not questions:
            return []
        recorder = Recorder(questions, seed, self.pool.sampling, exchange)
        state = self.select(questions, self.pool, recorder)
        self.answer(state)
        state.history.append(list(state.replies))
        while self.connect is not None:
            state.round += 1
            state.done = state.done | self.stop(state, state.round)
            if bool(state.done.all()):
                break
            topology = self.connect(state, state.round)
            if topology is None:
                break
            self.talk(state, topology)
            state.history.append(list(state.replies))
        replies = self.readout(state)
        return [Result(question, reply.answer, reply, calls, trace)
                for question, reply, calls, trace in zip(questions, replies, recorder.calls, state.traces)]

    def answer(self, state: State) -> None:
        """Round 0: independent answers."""
        first_answers(state, self.answer_prompts, template=self.first_template)

    def talk(self, state: State, topology: Topology) -> None:
        """One round of message passing."""
        self.passing(state, topology)

    @classmethod
    def parameters_of(cls) -> dict[str, Any]:
        """Settings of the method and their defaults, in the order of the constructor."""
        signature = inspect.signature(cls.__init__)
        return {name: p.default for name, p in signature.parameters.items() if name not in ("self", "pool")}


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's own, so that settings can be written down."""
    return value.item() if isinstance(value, np.generic) else value


def _checked(questions: Iterable[Question]) -> list[Question]:
    """The batch as a list, after everything about it that must be right before the first call."""
    if isinstance(questions, Question | str) or not isinstance(questions, Iterable):
        raise UserError(f"a method answers a list of questions, not {type(questions).__name__}; give [question]")
    questions = list(questions)
    seen: set[tuple[str, str]] = set()
    for question in questions:
        if not isinstance(question, Question):
            raise UserError(f"a method answers questions (goa_torch.types.Question), not {type(question).__name__}")
        if not question.text.strip():
            raise UserError(f"question {question.id!r} is empty; give it a text")
        if (question.task, question.id) in seen:
            raise UserError(f"question {question.id!r} of task {question.task!r} is in the batch twice; ids must be "
                            "unique, since they name random streams")
        seen.add((question.task, question.id))
    return questions


def check_agents(method: str, pool: Pool, agents: Any, distinct: bool = False) -> None:
    """Raises :class:`UserError` unless a setting is ``None`` or a list of names of the pool's agents."""
    if agents is None:
        return
    check_names(method, "agents", agents)
    for name in agents:
        pool[name]
    if distinct and len(set(agents)) < len(agents):
        raise UserError(f"{method}: agents = {agents!r} names an agent twice")


def check_names(method: str, name: str, value: Any) -> None:
    """Raises :class:`UserError` unless a setting is a list of at least one name."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not value or not all(isinstance(item, str) for item in value):
        raise UserError(f"{method}: {name} = {value!r} must be a list of at least one name")


def check_choice(method: str, name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raises :class:`UserError` unless a setting has one of the values it may have."""
    if not any(value is known or (type(value) is type(known) and value == known) for known in allowed):
        raise UserError(f"{method}: {name} = {value!r}; choose one of {', '.join(map(repr, allowed))}")


def check_count(method: str, name: str, value: Any, least: int = 1) -> None:
    """Raises :class:`UserError` unless a setting is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UserError(f"{method}: {name} must be a whole number of at least {least}, not {value!r}")


def check_number(method: str, name: str, value: Any, least: float, most: float) -> None:
    """Raises :class:`UserError` unless a setting is a number between ``least`` and ``most``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= value <= most:
        raise UserError(f"{method}: {name} must be a number between {least:g} and {most:g}, not {value!r}")
