"""What a method could at best get right on Relay: the method itself, run with agents that make no mistakes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..agents.base import EDGE_WEIGHTS, GENERATE, Agent, LanguageModel
from ..agents.pool import Pool
from ..agents.prompts import PromptSet
from ..analysis.reach import finished, layer_numbers, reach
from ..errors import UserError
from ..tasks.relay.expression import Expression, parse
from ..tasks.relay.families import DOMAINS
from ..types import Chat, Message, Purpose, Question, Reply, Sampling, Span
from .registry import build_method

if TYPE_CHECKING:
    from .base import Method

Skills = Mapping[str, Sequence[str]]


def structural_ceiling(graph: Method | np.ndarray, questions: Sequence[Question], skills: Skills | None = None,
                       rounds: int | None = None) -> list[bool]:
    """Which Relay questions a graph of perfect agents, judges and selection gets right.

    Perfect agents take the most advanced right reply among those they see and do one more layer if it is their
    business; a perfect judge gives more to a more advanced reply; perfect selection takes experts in the order in which
    the question needs them. What is left to fail is the topology.

    Args:
        graph: a method, which is run as it is with perfect agents in the place of its own; or topologies, [T, N, N]
            or [N, N] bool, ``[receiver, sender]`` (right is what *some* agent has worked out).
        questions: Relay questions.
        skills: domains each agent can do, by name (for topologies: in order). By default an agent can do its card's
            domain, and all domains if that is none of Relay's (a generalist); for topologies of six agents, one each.
        rounds: for one topology [N, N], rounds in all, the independent answers included.
    """
    if isinstance(graph, np.ndarray):
        if graph.ndim == 2:
            if rounds is None or rounds < 1:
                raise UserError("structural_ceiling: one topology needs rounds, at least 1 (the independent answers)")
            graph = np.repeat(graph[None], rounds - 1, axis=0)
        able = [[d] for d in DOMAINS] if skills is None else list(skills.values())
        if len(able) != graph.shape[-1]:
            raise UserError(f"structural_ceiling: topologies of {graph.shape[-1]} agents, but skills of {len(able)}")
        layers = layer_numbers([q.metadata["domains"] for q in questions], DOMAINS)
        mask = np.array([[d in mine for d in DOMAINS] for mine in able])
        return finished(reach(graph, mask, layers), layers)[:, -1].tolist()
    perfect = build_method(graph.name, perfect_pool(graph.pool, skills), **graph.config)
    return [result.correct for result in perfect(questions)]


def skills_of(agent: Agent) -> tuple[str, ...]:
    """The domain of the agent's card, or all of them for a generalist."""
    return (agent.card.domain,) if agent.card.domain in DOMAINS else DOMAINS


def perfect_pool(pool: Pool, skills: Skills | None = None) -> Pool:
    """``pool`` with every model replaced by a :class:`PerfectModel` of the agent's skills."""
    able = {agent.name: tuple((skills or {}).get(agent.name, skills_of(agent))) for agent in [*pool.agents, pool.meta]}
    models = {name: PerfectModel(mine) for name, mine in able.items()}

    def replaced(agent: Agent) -> Agent:
        return Agent(agent.name, models[agent.name], agent.card, agent.system)

    agents = [replaced(agent) for agent in pool.agents]
    meta = pool.meta.name if pool.meta in pool.agents else replaced(pool.meta)
    return Pool(agents, _Symbols(), meta, Sampling(temperature=0.0, max_new_tokens=64), f"perfect {pool.name}",
                {"skills": able})


class _Symbols(PromptSet):
    """Prompts as data: what a template would see, in JSON."""

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "PromptSet(symbols)"

    def has(self, template: str) -> bool:
        return True

    def check(self, template: str, pool: Mapping[str, Any] | None = None) -> None:
        pass

    def sibling(self, name: str) -> PromptSet:
        raise UserError(f"structural_ceiling: prompts {name!r} ask for JSON replies, which Relay does not have")

    def render(self, purpose: Purpose | str, variables: Mapping[str, Any]) -> tuple[Message, ...]:
        keep = {"own", "messages", "k", "largest"}
        facts = {key: _texts(value) for key, value in variables.items() if key in keep}
        facts |= {"purpose": purpose, "question": _texts(variables["question"]["text"]),
                  "skills": [variables["pool"]["skills"][name] for name in variables.get("names", ())]}
        return (Message.of("user", json.dumps(facts)),)


def _texts(value: Any) -> Any:
    if isinstance(value, Span):
        return value.text
    if isinstance(value, Mapping):
        return {key: _texts(item) for key, item in value.items()}
    return [_texts(item) for item in value] if isinstance(value, (list, tuple)) else value


#: The templates that perfect agents know an answer to.
_KNOWN = frozenset({"answer", "pass", "score", "select", "difficulty", "readout"})


class PerfectModel(LanguageModel):
    """Does layers of the domains ``skills``, judges and selects, all without error; reads :class:`_Symbols`.
    It hears every message there is, however quiet."""

    capabilities = frozenset({GENERATE, EDGE_WEIGHTS})

    def __init__(self, skills: Sequence[str]) -> None:
        self.skills = tuple(skills)
        self.name = self.fingerprint = f"perfect:{','.join(self.skills)}"

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        return [Reply(self._say(json.loads(chat.messages[0].text))) for chat in chats]

    def _say(self, facts: dict[str, Any]) -> str:
        question = parse(facts["question"])
        if question is None:
            raise UserError(f"structural_ceiling: {facts['question']!r} is no Relay question")
        if facts["purpose"] not in _KNOWN:
            raise UserError(f"structural_ceiling: perfect agents do not know what to say to {facts['purpose']!r}")
        done = {str(expression): n for n, expression in enumerate(question.partial_results())}
        if facts["purpose"] == "select":
            return ", ".join(map(str, self._select(question, facts["skills"], facts["k"])))
        if facts["purpose"] == "difficulty":
            return str(min(len(set(question.domains)), facts["largest"]))
        heard = [message["text"] for message in facts.get("messages") or []]
        if facts["purpose"] == "score":
            return ", ".join(str(done.get(text, -1) + 1) for text in heard) if len(heard) > 1 else "1"
        known = [facts["question"], *heard, *([facts["own"]] if facts.get("own") else [])]
        best = parse(max((text for text in known if text in done), key=done.__getitem__))
        return str(best.step() if best.depth and best.domains[0] in self.skills else best)

    @staticmethod
    def _select(question: Expression, skills: Sequence[Sequence[str]], k: int) -> list[int]:
        chosen: list[int] = []
        for domain in question.domains:
            if len(chosen) < k and not any(domain in skills[i] for i in chosen):
                able = [i for i, mine in enumerate(skills) if domain in mine]
                chosen += sorted(able, key=lambda i: len(skills[i]))[:1]  # a specialist before a generalist
        rest = [i for i in range(len(skills)) if i not in chosen]
        return (chosen + rest)[:k]
