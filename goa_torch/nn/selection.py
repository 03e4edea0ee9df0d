"""Who takes part? Select-modules turn a batch of questions into a batch of graphs with nodes and no edges."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from torch import nn

from .. import randomness
from ..agents.calls import Recorder, Request, option_probabilities
from ..errors import UserError, unknown
from ..state import State
from ..types import Message, Purpose, Reply, Span
from .reading import read_indices
from .shortlist import SEARCHES, Shortlist

if TYPE_CHECKING:
    from ..agents.base import Agent
    from ..agents.pool import Pool
    from ..agents.prompts import PromptSet
    from ..types import Question


class Everyone(nn.Module):
    """All agents of the pool; no call.

    Args:
        agents: only these, by name.
        copies: instances of each.
    """

    def __init__(self, agents: Sequence[str] | None = None, copies: int = 1) -> None:
        super().__init__()
        self.agents = list(agents) if agents is not None else None
        self.copies = copies

    def forward(self, questions: Sequence[Question], pool: Pool, recorder: Recorder) -> State:
        members = pool.agents if self.agents is None else [pool[name] for name in self.agents]
        state = State.collate(questions, pool, recorder, [list(members) * self.copies] * len(questions))
        log_selection(state, "all" if self.agents is None else "one" if len(members) == 1 else "named")
        return state


class Copies(nn.Module):
    """``n`` instances of one agent (the meta-LLM by default), each with its own random stream; no call."""

    def __init__(self, agent: str | None = None, n: int = 1) -> None:
        super().__init__()
        self.agent = agent
        self.n = n

    def forward(self, questions: Sequence[Question], pool: Pool, recorder: Recorder) -> State:
        member = pool.meta if self.agent is None else pool[self.agent]
        state = State.collate(questions, pool, recorder, [[member] * self.n] * len(questions))
        log_selection(state, "one" if self.n == 1 else "copies")
        return state


class TopK(nn.Module):
    """The ``k`` agents that the meta-LLM finds most relevant after reading the question and all model cards.

    Cards are shown in the order of agent names. An agent named twice takes part twice. A reply that cannot be read is
    asked for again up to ``tries`` times; after that ``k`` different agents are drawn from the stream (seed,
    question), which the trace shows as ``fallback``.

    Args:
        k: how many; -1 lets the meta-LLM rate the question's difficulty 1..6 and takes that many (one more call).
        tries: calls at most (a likelihood is asked for once: it would be the same again).
        copies: instances of each chosen agent.
        prompts: other templates than the pool's.
        judging: ``text``: the meta-LLM writes its choice; ``likelihood``: the k agents to whose numbers it gives most
            probability when asked which is best (template ``route``).
        shortlist: which cards the meta-LLM reads, where the pool has too many; all by default.
    """

    #: What the meta-LLM is asked where likelihoods count.
    template = "route"

    def __init__(self, k: int = 3, tries: int = 1, copies: int = 1, prompts: PromptSet | None = None,
                 judging: str = "text", shortlist: Shortlist | None = None) -> None:
        super().__init__()
        self.k = k
        self.tries = tries
        self.copies = copies
        self.prompts = prompts
        self.judging = judging
        self.shortlist = shortlist

    @property
    def needs_templates(self) -> tuple[str, ...]:
        """What the meta-LLM answers."""
        chooses = self.template if self.judging == "likelihood" else "select"
        return (chooses, "difficulty") if self.k == -1 else (chooses,)

    def forward(self, questions: Sequence[Question], pool: Pool, recorder: Recorder) -> State:
        n = len(questions)
        shown = [[pool.agents[i] for i in pool.canonical]] * n
        if self.shortlist is not None:
            shown = self.shortlist(questions, pool, recorder)
        wanted = [self.k] * n
        rated: list[Reply | None] = [None] * n
        if self.k == -1:
            largest = min(6, len(pool), *map(len, shown))
            rated = self._ask(pool, recorder, range(n), [{"largest": largest}] * n, "difficulty", 0)
            wanted = [_difficulty(reply, largest) for reply in rated]
        chosen: list[list[Agent] | None] = [None] * n
        texts: list[str | None] = [None] * n
        unparsed = [0] * n
        weighed: dict[int, list[float]] = {}
        weighs = self.judging == "likelihood"
        waiting = list(range(n))
        for attempt in range(1 if weighs else self.tries):
            facts = [{"cards": [str(agent.card) for agent in shown[q]], "names": [agent.name for agent in shown[q]],
                      "k": wanted[q], "n": len(shown[q])} for q in waiting]
            options = [option_labels(len(shown[q]), first=0) for q in waiting] if weighs else None
            template = self.template if weighs else "select"
            for question, reply in zip(waiting, self._ask(pool, recorder, waiting, facts, template, attempt, options)):
                if weighs:
                    weighed[question] = option_probabilities(reply) or []
                    read = sorted(range(len(weighed[question])), key=lambda i: -weighed[question][i])
                    read = read[: wanted[question]] or None
                else:
                    texts[question] = reply.text
                    read = None if reply.failed else read_indices(reply.text, len(shown[question]), wanted[question])
                if read is None:
                    unparsed[question] += 1
                else:
                    chosen[question] = [shown[question][i] for i in read]
            waiting = [q for q in waiting if chosen[q] is None]
            if not waiting:
                break
        for question in waiting:
            asked = questions[question]
            listed = shown[question]
            lots = {a.name: randomness.stream(recorder.seed, asked.task, asked.id, "select", a.name) for a in listed}
            chosen[question] = sorted(listed, key=lambda agent: lots[agent.name])[: wanted[question]]
        state = State.collate(questions, pool, recorder, [members * self.copies for members in chosen])
        facts = {q: {"text": texts[q], "unparsed": unparsed[q], "fallback": q in set(waiting)} for q in range(n)}
        for question, probabilities in weighed.items():
            facts[question]["probabilities"] = {a.name: p for a, p in zip(shown[question], probabilities)}
        if self.shortlist is not None:
            for question, listed in enumerate(shown):
                facts[question]["shortlist"] = [agent.name for agent in listed]
        for question, reply in enumerate(rated):
            if reply is not None:
                facts[question] |= {"difficulty": wanted[question], "difficulty_text": reply.text}
        log_selection(state, "meta", facts)
        return state

    def _ask(self, pool: Pool, recorder: Recorder, asked: Sequence[int], facts: Sequence[dict[str, Any]],
             template: str, draw: int, options: Sequence[tuple[str, ...]] | None = None) -> list[Reply]:
        prompts = self.prompts or pool.prompts
        requests = []
        for place, (question, extra) in enumerate(zip(asked, facts)):
            messages: tuple[Message, ...] = prompts.render(template, {
                "agent": {"name": pool.meta.name, "card": str(pool.meta.card), "system": pool.meta.system,
                          "domain": pool.meta.card.domain},
                "question": {"text": Span(recorder.questions[question].text), "instruction": "", "choices": [],
                             "category": recorder.questions[question].category, "task": ""},
                "own": None, "messages": [], "pool": pool.variables, **extra,
            })
            purpose: Purpose = "select"
            requests.append(Request(pool.meta, messages, purpose, question, 0, 1 if template == "difficulty" else 0,
                                    draw, options[place] if options else None))
        return recorder.ask(requests)

    def extra_repr(self) -> str:
        return f"k={self.k}, tries={self.tries}"


def option_labels(n: int, first: int) -> tuple[str, ...]:
    """The numbers ``first`` .. as options whose likelihoods can be compared: none is the beginning of another, or "1"
    would be credited with all that goes on to say "11"."""
    numbers = range(first, first + n)
    end = "\n" if n and numbers[-1] > 9 else ""
    return tuple(f"{number}{end}" for number in numbers)


def _difficulty(reply: Reply, largest: int) -> int:
    """The difficulty a reply names, within 1..largest; 3 (the paper's default k) if it names none."""
    for k in range(1, largest + 1):
        read = None if reply.failed else read_indices(reply.text, largest + 1, 1)
        if read == [k]:
            return k
    return min(3, largest)


def log_selection(state: State, by: str, facts: dict[int, dict[str, Any]] | None = None) -> None:
    """Writes who takes part to each question's trace."""
    for question in range(state.num_graphs):
        nodes = [{"node": state.local(v), "agent": state.agent_of(v).name, "instance": int(state.instance[v])}
                 for v in state.nodes_of(question)]
        more = {"text": None, "unparsed": 0, "fallback": False} | ((facts or {}).get(question) or {})
        state.log(question, "select", by=by, nodes=nodes, **more)


def shortlist_of(method: str, pool: Pool, k: int, size: int | None, by: str) -> Shortlist | None:
    """The search that ``method`` asks for with its settings ``shortlist`` and ``shortlist_by``; ``None`` for none.

    Raises:
        UserError: for settings that do not go with the pool or with each other.
    """
    if by not in SEARCHES:
        raise unknown("search", by, SEARCHES, f"{method}: shortlist_by")
    if size is None:
        return None
    least = max(k, 1)
    if isinstance(size, bool) or not isinstance(size, Integral) or size < least:
        raise UserError(f"{method}: shortlist = {size!r} must be a whole number of at least {least}, the agents that "
                        "are chosen from it")
    search = Shortlist(int(size), by)
    search.check(pool, method)
    return search


def check_k(k: int, pool: Pool, method: str) -> None:
    """Raises :class:`UserError` unless ``k`` agents can be chosen from ``pool``."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise UserError(f"{method}: k must be a whole number, not {k!r}")
    if k != -1 and not 1 <= k <= len(pool):
        raise UserError(f"{method}: k = {k}, but pool {pool.name!r} has {len(pool)} agents; "
                        f"choose k between 1 and {len(pool)}")
