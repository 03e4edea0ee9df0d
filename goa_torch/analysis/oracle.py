"""Oracle graphs: the best that any topology could do, given who can do what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb

import numpy as np

Edge = tuple[int, int]
#: So many graphs are tried one by one: some seconds.
FEW = 6_000_000
_BLOCK = 1 << 15
#: Partial ways of a question that are followed: more take longer than they are worth.
MOST = 4000


@dataclass(frozen=True, slots=True)
class StaticOracle:
    """The best graph that is the same for all questions and rounds.

    Attributes:
        hears: [N, N] bool, ``hears[receiver, sender]``.
        solved: [B] bool, which questions some agent finishes over it.
        exact: whether the search was completed; if not, ``bound`` says what could at most be missing.
        bound: largest share of questions that any such graph can solve.
    """

    hears: np.ndarray
    solved: np.ndarray
    exact: bool
    bound: float


def oracle_per_question(skills: np.ndarray, layers: np.ndarray, rounds: int) -> np.ndarray:
    """[B] Whether *some* sequence of graphs, chosen for each question, finishes it by round ``rounds`` (1: independent
    answers only). One neighbour a receiver suffices: the holder of the most advanced reply. So a question can be
    finished if and only if somebody can do each layer and there are at most ``rounds`` layers.

    Args:
        skills: [N, D] bool.
        layers: [B, d], padded with -1.
    """
    wanted = layers >= 0
    possible = np.where(wanted, skills.any(axis=0)[np.maximum(layers, 0)], True).all(axis=1)
    return possible & (wanted.sum(axis=1) <= rounds)


def oracle_accuracy(competence: np.ndarray, layers: np.ndarray, rounds: int) -> np.ndarray:
    r"""[B] Probability that the best chain of agents answers right, :math:`\prod_l \max_i q_{i, dom(l)}`, one layer a
    round, copying without error; 0 if ``rounds`` are too few.

    Args:
        competence: [N, D] probability that an agent does a layer of a domain right.
        layers: [B, d], padded with -1.
    """
    wanted = layers >= 0
    best = np.where(wanted, competence.max(axis=0)[np.maximum(layers, 0)], 1.0).prod(axis=1)
    return best * (wanted.sum(axis=1) <= rounds)


def oracle_static(skills: np.ndarray, layers: np.ndarray, rounds: int, k: int | None = None,
                  seconds: float = 60.0) -> StaticOracle:
    """The best static graph in which every receiver hears at most ``k`` others, for at most eight agents.

    A question is finished by round ``rounds`` if and only if the graph holds one of the sets of edges over which its
    work can travel in time. Where there are at most :data:`FEW` graphs (six agents with k = 2, eight with k = 1), all
    of them are tried; else choosing the edges is an integer linear program, which HiGHS solves
    (:func:`scipy.optimize.milp`): exactly too, if the time suffices (it does for questions of two or three layers).
    Where there are too many ways for the work to travel (many rounds), longer ones are left out: the graph found is a
    good one, not certainly the best, and the answer says so.

    Args:
        skills: [N, D] bool.
        layers: [B, d], padded with -1.
        rounds: rounds in all, the independent answers being the first.
        k: largest in-degree; without it the complete graph is the best, as nothing that perfect agents hear can hurt.
        seconds: time limit; the answer says whether it was exact.
    """
    from .reach import complete, finished, reach

    n = skills.shape[0]
    if n > 8:
        raise ValueError(f"oracle_static is made for at most 8 agents, not {n}")
    if k is None or k >= n - 1:
        hears = complete(n)
        solved = finished(reach(np.repeat(hears[None], rounds - 1, 0), skills, layers), layers)[:, -1]
        return StaticOracle(hears, solved, True, float(solved.mean()))
    counts = Counter(tuple(int(x) for x in row if x >= 0) for row in layers)
    most = _possible(skills, counts, rounds)
    search = _try_all if comb(n - 1, k) ** n <= FEW else partial(_solve, seconds=seconds)
    # a graph that needs no more rounds than there are layers is found fast, and often leaves nothing to be desired
    deepest = max((len(question) for question in counts if len(question) <= rounds), default=rounds)
    for allowed in dict.fromkeys((deepest, rounds)):
        hears, exact, served = search(skills, counts, allowed, k)
        solved = finished(reach(np.repeat(hears[None], rounds - 1, 0), skills, layers), layers)[:, -1]
        if solved.sum() >= most:
            return StaticOracle(hears, solved, True, float(solved.mean()))
    return StaticOracle(hears, solved, exact, float(solved.mean()) if exact else served / len(layers))


def _try_all(skills: np.ndarray, counts: Counter, rounds: int, k: int) -> tuple[np.ndarray, bool, float]:
    """The best of all graphs in which everybody hears exactly ``k`` (more edges never hurt), whether it certainly is,
    and an upper bound on the number of questions served. Graphs are bit masks."""
    n = skills.shape[0]

    def bit(sender: int, receiver: int) -> np.uint64:
        return np.uint64(1 << (receiver * n + sender))

    graphs = np.zeros(1, dtype=np.uint64)
    for receiver in range(n):
        others = [bit(sender, receiver) for sender in range(n) if sender != receiver]
        choices = np.array([sum(map(int, chosen)) for chosen in combinations(others, k)], dtype=np.uint64)
        graphs = (graphs[:, None] | choices).ravel()
    known = [(times, *_ways(skills, question, rounds, MOST)) for question, times in counts.items()]
    routes = [(times, [np.uint64(sum(int(bit(*edge)) for edge in way)) for way in ways]) for times, ways, _ in known]
    best, most = graphs[0], -1
    for start in range(0, len(graphs), _BLOCK):
        block = graphs[start : start + _BLOCK]
        served = np.zeros(len(block), dtype=np.int64)
        for times, masks in routes:
            solved = np.zeros(len(block), dtype=bool)
            for mask in masks:
                solved |= (block & mask) == mask
            served += times * solved
        if served.max() > most:
            best, most = block[served.argmax()], int(served.max())
    hears = np.array([[int(best) >> (receiver * n + sender) & 1 for sender in range(n)] for receiver in range(n)], bool)
    return hears, all(whole for *_, whole in known), _possible(skills, counts, rounds)


def _solve(skills: np.ndarray, counts: Counter, rounds: int, k: int, seconds: float) -> tuple[np.ndarray, bool, float]:
    """Receivers' choice of edges, whether it is optimal, and an upper bound on the number of questions served."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    n = skills.shape[0]
    edges = [(s, r) for s in range(n) for r in range(n) if s != r]
    number = {edge: i for i, edge in enumerate(edges)}
    free, routes, complete = 0, [], True  # questions that need no edge; (how many, sets of edges)
    for question, times in counts.items():
        ways, whole = _ways(skills, question, rounds, MOST)
        complete &= whole
        if frozenset() in ways:
            free += times
        elif ways:
            routes.append((times, ways))
    # variables: edges (0/1), then for each question its ways (0..1, integral by themselves)
    ways = [(q, way) for q, (_, alternatives) in enumerate(routes) for way in alternatives]
    rows, columns, values, lower, upper = [], [], [], [], []

    def constrain(terms: list[tuple[int, float]], low: float, high: float) -> None:
        rows.extend([len(lower)] * len(terms))
        columns.extend(column for column, _ in terms)
        values.extend(value for _, value in terms)
        lower.append(low)
        upper.append(high)

    for receiver in range(n):
        constrain([(number[s, receiver], 1.0) for s in range(n) if s != receiver], 0, k)
    of_question: list[list[int]] = [[] for _ in routes]
    for column, (q, way) in enumerate(ways, start=len(edges)):
        of_question[q].append(column)
        for edge in way:
            constrain([(number[edge], 1.0), (column, -1.0)], 0, np.inf)
    for mine in of_question:
        constrain([(column, 1.0) for column in mine], 0, 1)
    total = len(edges) + len(ways)
    gain = np.concatenate([np.zeros(len(edges)), [routes[q][0] for q, _ in ways]])
    integral = np.concatenate([np.ones(len(edges)), np.zeros(len(ways))])
    matrix = coo_array((values, (rows, columns)), shape=(len(lower), total)).tocsc()
    found = milp(-gain, integrality=integral, bounds=Bounds(0, 1), constraints=LinearConstraint(matrix, lower, upper),
                 options={"time_limit": seconds})
    hears = np.zeros((n, n), dtype=bool)
    if found.x is not None:
        for edge, chosen in zip(edges, found.x[: len(edges)]):
            hears[edge[1], edge[0]] = chosen > 0.5
    bound = free + (-found.mip_dual_bound if found.mip_dual_bound is not None else sum(t for t, _ in routes))
    return hears, complete and found.status == 0, float(bound) if complete else _possible(skills, counts, rounds)


def _possible(skills: np.ndarray, counts: Counter, rounds: int) -> float:
    """How many questions some sequence of graphs could finish."""
    return float(sum(times for question, times in counts.items()
                     if oracle_per_question(skills, np.array([question]), rounds)[0]))


def travel_ways(skills: np.ndarray, question: tuple[int, ...], rounds: int) -> Iterator[frozenset[Edge]]:
    """The minimal sets of (sender, receiver) edges over which ``question`` (domains of its layers) is finished by
    round ``rounds``."""
    yield from _ways(skills, question, rounds)[0]


def _ways(skills: np.ndarray, question: tuple[int, ...], rounds: int,
          most: int | None = None) -> tuple[list[frozenset[Edge]], bool]:
    """The sets of :func:`travel_ways`, and whether they are all: where more than ``most`` partial ones would have to be
    followed, those that take more rounds are left out."""
    found: list[frozenset[Edge]] = []
    start = [(agent, 1, frozenset()) for agent in range(len(skills)) if skills[agent, question[0]]]
    seen, whole = set(), True
    for spent in range(1, rounds + 1):
        here = set(start)
        whole = most is None or len(here) <= most
        if not whole:
            break
        found += [way for _, done, way in here if done == len(question)]
        following = set()
        for agent, done, way in here:
            if done == len(question) or len(question) - done > rounds - spent:
                continue
            for other in range(len(skills)):
                path = way if other == agent else way | {(agent, other)}
                following.add((other, done + int(skills[other, question[done]]), path))
        start = [state for state in following if state not in seen]
        seen |= following
    minimal: list[frozenset[Edge]] = []
    for way in sorted(set(found), key=len):
        if not any(other <= way for other in minimal):
            minimal.append(way)
    return minimal, whole
