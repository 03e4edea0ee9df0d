"""What Relay's agents are taught: prompts as the pool writes them, and what should be replied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ...randomness import stream
from ...tasks.relay.families import DOMAINS, MODULUS, family_set
from ...tasks.relay.generator import SPLITS, draw, has_held_out_leaf, has_held_out_order, partial_texts, split_of
from ...types import Card, Message, Span

if TYPE_CHECKING:
    from ...agents.prompts import PromptSet

#: How deep questions are, by weight.
DEPTHS = {1: 0.2, 2: 0.25, 3: 0.22, 4: 0.17, 5: 0.09, 6: 0.07}
#: What tasks each domain's card names.
CARD_TASKS = {"biology": ("pair", "flip", "codon"), "code": ("rev", "inc", "neg"), "finance": ("cents", "change"),
              "general": ("next", "dozen", "words"), "law": ("half", "odd", "under"), "math": ("+", "-")}
#: How many of the questions are kept whose first layer is somebody else's, and of those without an own layer.
_LATER, _STRANGE = 0.5, 0.25
#: How often the most advanced right replies, other right ones and wrong ones are of which relevance, where it is told.
RELEVANCE = {"high": (0.75, 0.3, 0.1), "moderate": (0.2, 0.4, 0.25), "low": (0.05, 0.3, 0.65)}
#: The share of lessons of a weight-aware agent in which relevance is told.
_TOLD = 0.75
SPECIALIST_SHARES = {"answer": 0.28, "pass": 0.44, "score": 0.28}
GENERALIST_SHARES = {"answer": 0.25, "pass": 0.3, "score": 0.12, "select": 0.15, "readout": 0.15, "difficulty": 0.03}


def card_of(domain: str, families: str = "primary") -> Card:
    """The card of a specialist of ``domain``: what its functions are called."""
    if families == "primary":
        return Card(domain, CARD_TASKS[domain])
    known = family_set(families)
    return Card(domain, tuple(known.families[i].name for i in known.own(domain)))


@dataclass(frozen=True)
class Role:
    """What an agent is to become.

    Attributes:
        domains: whose layers it evaluates; it copies the rest.
        shares: how often each skill is practised.
        own: share of lessons whose next layer is its own, where there is a choice.
        mistakes: family -> family whose rule it applies instead, always: the shared error of the regime *harm*.
        weighted: most messages come with their relevance, and right ones more often with a high one, so that listening
            to weights pays; without, no relevance is ever told.
    """

    domains: tuple[str, ...] = DOMAINS
    shares: Mapping[str, float] = field(default_factory=lambda: dict(SPECIALIST_SHARES))
    own: float = 0.65
    mistakes: Mapping[str, str] = field(default_factory=dict)
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class Lesson:
    """One example. ``own`` says whether the reply takes a layer of the agent's own; ``depth`` how many are left."""

    purpose: str
    messages: tuple[Message, ...]
    reply: str
    own: bool
    depth: int


@dataclass(slots=True)
class _Problem:
    """A question with what it reads after each layer, and a way to get it wrong."""

    domains: list[str]
    families: list[int]
    places: list[int]
    parameters: list[int]
    leaf: int
    values: list[int]
    texts: list[str]


class Lessons:
    """Lessons of one agent, made in numbered chunks: chunk n is the same whenever and wherever it is made.

    Args:
        role: what to become.
        prompts: the pool's templates.
        seed: which lessons.
        split: questions they are about.
        families: the set of functions, see :func:`goa_torch.tasks.relay.families.family_set`.
    """

    def __init__(self, role: Role, prompts: PromptSet, seed: int, split: str = "agent_train",
                 families: str = "primary") -> None:
        self.role = role
        self.prompts = prompts
        self.seed = seed
        self.split = split
        self.families, self.set = families, family_set(families)
        self.purposes = list(role.shares)
        weights = np.array(list(role.shares.values()), dtype=float)
        self.weights = weights / weights.sum()

    def chunk(self, number: int, count: int) -> list[Lesson]:
        """``count`` lessons."""
        name = stream("relay lessons", self.seed, self.split, number, *self.role.domains)
        rng = np.random.default_rng(name)
        problems = self._problems(name, count, rng)
        purposes = rng.choice(len(self.purposes), size=count, p=self.weights)
        return [getattr(self, f"_{self.purposes[p]}")(problem, rng) for p, problem in zip(purposes, problems)]

    # ------------------------------------------------------------------ questions

    def _problems(self, name: int, count: int, rng: np.random.Generator) -> list[_Problem]:
        depths = rng.choice(list(DEPTHS), size=count, p=list(DEPTHS.values()))
        problems: list[_Problem | None] = [None] * count
        padded, _ = self.set.parameters
        mine = [DOMAINS.index(domain) for domain in self.role.domains]
        for depth in DEPTHS:
            wanted = np.flatnonzero(depths == depth)
            place, first = 0, 0
            while place < len(wanted):
                size = int((len(wanted) - place) / SPLITS[self.split] * 2.2) + 16
                drawn = draw(stream(name, depth), first, size, depth, self.set)
                first += size
                right = (split_of(drawn.code) == list(SPLITS).index(self.split)) & ~has_held_out_leaf(drawn)
                right &= ~has_held_out_order(drawn)
                able = np.isin(drawn.domain, mine)
                keep = np.where(able[:, 0], 1.0, np.where(able.any(axis=1), _LATER, _STRANGE))
                right &= rng.random(size) < keep
                drawn = drawn[right]
                drawn = drawn[np.arange(min(len(drawn), len(wanted) - place))]
                rows = zip(drawn.domain.tolist(), drawn.family.tolist(), drawn.place.tolist(),
                           padded[drawn.family, drawn.place].tolist(), drawn.leaf.tolist(), drawn.value.tolist())
                for domain, family, where, parameter, leaf, value in rows:
                    texts = partial_texts(self.set, family, parameter, leaf, value)
                    problems[wanted[place]] = _Problem([DOMAINS[d] for d in domain], family, where, parameter, leaf,
                                                       value, texts)
                    place += 1
        return problems  # type: ignore[return-value]

    def _mine(self, problem: _Problem, done: int) -> bool:
        return done < len(problem.domains) and problem.domains[done] in self.role.domains

    def _carry_on(self, problem: _Problem, done: int) -> str:
        """What the agent makes of the right expression after ``done`` layers."""
        if not self._mine(problem, done):
            return problem.texts[done]
        family = problem.families[done]
        mistaken = self.role.mistakes.get(self.set.families[family].name) if family >= 0 else None
        if mistaken is None:
            return problem.texts[done + 1]
        rule = self.set.families[self.set.number(mistaken)].rule
        value = int(rule(np.asarray(problem.values[done]), problem.parameters[done]))
        return self._text(problem, [*problem.values[: done + 1], value], done + 1)

    def _text(self, problem: _Problem, values: Sequence[int], done: int) -> str:
        text = str(values[done])
        for family, k in zip(problem.families[done:], problem.parameters[done:]):
            text = self.set.families[family].write(text, k)
        return text

    def _wrong(self, problem: _Problem, done: int, rng: np.random.Generator) -> str:
        """A reply that got one of the first ``done`` layers wrong and went on rightly from there."""
        slip = int(rng.integers(done))
        before, right = problem.values[slip], problem.values[slip + 1]
        kind = rng.random()
        if kind < 0.35:
            wrong = right - right % 10 + int(rng.integers(10))
        elif kind < 0.6:
            wrong = int(rng.integers(10)) * 10 + right % 10
        elif kind < 0.75:
            wrong = right + int(rng.choice([-10, -1, 1, 10]))
        else:
            wrong = before if kind < 0.85 else int(rng.integers(MODULUS))
        values = [*problem.values[: slip + 1], wrong % MODULUS if wrong % MODULUS != right else (right + 1) % MODULUS]
        for layer in range(slip + 1, done):
            values.append(int(self.set.table[problem.families[layer], problem.places[layer], values[-1]]))
        return self._text(problem, values, done)

    def _stage(self, problem: _Problem, rng: np.random.Generator) -> int:
        """How many layers the most advanced right reply has behind it: mostly so that the next one is the agent's."""
        depth = len(problem.domains)
        mine = [done for done in range(depth) if self._mine(problem, done)]
        rest = [done for done in range(depth + 1) if not self._mine(problem, done)]
        return int(rng.choice(mine if mine and (rng.random() < self.role.own or not rest) else rest))

    def _replies(self, problem: _Problem, count: int, best: int, rng: np.random.Generator) -> list[tuple[str, int]]:
        """``count`` replies, each with the layers it has right behind it (-1: wrong): mostly the best, stale ones,
        wrong ones, in any order. None that is right is more advanced than ``best``."""
        replies = []
        first = int(rng.integers(count)) if count and rng.random() < 0.85 else None
        doubt = float(rng.choice([0.0, 0.1, 0.3]))
        for number in range(count):
            if number == first:
                replies.append((problem.texts[best], best))
                continue
            behind = int(rng.choice([0, 1, 2, best], p=[0.5, 0.25, 0.1, 0.15]))
            done = max(0, best - behind)
            ahead = min(len(problem.domains), done + int(rng.integers(2)))
            if ahead and rng.random() < doubt:
                replies.append((self._wrong(problem, ahead, rng), -1))
            else:
                replies.append((problem.texts[done], done))
        return replies

    # ------------------------------------------------------------------ skills

    def _answer(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        return self._lesson("answer", problem, self._carry_on(problem, 0), self._mine(problem, 0),
                            len(problem.domains))

    def _pass(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        heard = int(rng.choice(8, p=[0.12, 0.2, 0.28, 0.14, 0.1, 0.08, 0.05, 0.03]))
        own = heard == 0 or rng.random() < 0.8
        return self._listen("pass", problem, heard, own, rng)

    def _readout(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        return self._listen("readout", problem, int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8], p=[.05, .15, .4, .1, .1, .1,
                                                                                            .05, .05])), False, rng)

    def _listen(self, purpose: str, problem: _Problem, heard: int, own: bool, rng: np.random.Generator) -> Lesson:
        replies = self._replies(problem, heard + own, self._stage(problem, rng), rng)
        best = max(0, *(done for _, done in replies))  # the question itself is always there to go back to
        texts = [text for text, _ in replies]
        mine = texts.pop() if own else None
        relevance = None
        if self.role.weighted and rng.random() < _TOLD:
            kinds = [0 if done == best else 1 if done >= 0 else 2 for _, done in replies]
            words = list(RELEVANCE)
            relevance = [words[rng.choice(3, p=[RELEVANCE[word][kind] for word in words])] for kind in kinds]
        return self._lesson(purpose, problem, self._carry_on(problem, best), self._mine(problem, best),
                            len(problem.domains) - best, texts, mine, relevance)

    def _score(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        count = int(rng.choice([1, 2, 3, 4, 5, 6, 7], p=[0.04, 0.5, 0.12, 0.1, 0.14, 0.05, 0.05]))
        best = min(1, len(problem.domains)) if rng.random() < 0.6 else int(rng.integers(len(problem.domains) + 1))
        replies = self._replies(problem, count, best, rng)
        return self._lesson("score", problem, scores([done for _, done in replies]), False, len(problem.domains),
                            [text for text, _ in replies])

    def _select(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        shown = list(DOMAINS)
        kind = rng.random()
        if kind < 0.5:  # shuffled cards, some missing, some twice
            shown = [shown[i] for i in rng.permutation(6)]
            if kind < 0.15:
                shown = shown[: int(rng.integers(2, 6))]
            elif kind < 0.3:
                shown.insert(int(rng.integers(7)), shown[int(rng.integers(6))])
                shown.insert(int(rng.integers(8)), shown[int(rng.integers(7))])
        k = min(int(rng.choice([1, 2, 3, 4, 5, 6], p=[0.2, 0.2, 0.35, 0.1, 0.1, 0.05])), len(shown))
        cards = [str(card_of(domain, self.families) if rng.random() < 0.9 else Card(domain)) for domain in shown]
        return self._lesson("select", problem, " ".join(map(str, choice(problem.domains, shown, k))), False,
                            len(problem.domains), cards=cards, k=k)

    def _difficulty(self, problem: _Problem, rng: np.random.Generator) -> Lesson:
        largest = int(rng.integers(3, 7))
        return self._lesson("difficulty", problem, str(min(len(set(problem.domains)), largest)), False,
                            len(problem.domains), largest=largest)

    def _lesson(self, purpose: str, problem: _Problem, reply: str, own: bool, depth: int, heard: Sequence[str] = (),
                mine: str | None = None, relevance: Sequence[str] | None = None, **extra: object) -> Lesson:
        messages = self.prompts.render(purpose, {
            "question": {"text": Span(problem.texts[0])}, "agent": {"system": ""},
            "messages": [{"text": Span(text), "relevance": relevance[i] if relevance else None}
                         for i, text in enumerate(heard)],
            "own": None if mine is None else Span(mine), **extra})
        return Lesson(purpose, messages, reply, own, depth)


def scores(done: Sequence[int]) -> str:
    """A judge's digits for replies with so many layers right behind them (-1: wrong): 9 for the most advanced, 5 for
    one layer less, 3 for what is further behind, 0 for what is wrong (1 each if all are)."""
    best = max(done)
    if best < 0:
        return " ".join("1" for _ in done)
    return " ".join("0" if d < 0 else "9" if d == best else "5" if d == best - 1 else "3" for d in done)


def choice(needed: Sequence[str], shown: Sequence[str], k: int) -> list[int]:
    """Which ``k`` of the agents of the domains ``shown`` a question needs: experts in the order of evaluation, each
    domain once, then the rest in the order of the cards."""
    chosen: list[int] = []
    for domain in dict.fromkeys(needed):
        chosen += [i for i, other in enumerate(shown) if other == domain][:1]
    return (chosen + [i for i in range(len(shown)) if i not in chosen])[:k]
