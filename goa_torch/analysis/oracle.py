"""Oracle graphs: the best that any topology could do, given who can do what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

Edge = tuple[int, int]
#: So many graphs are tried one by one: some seconds.
FEW = 6_000_000
_BLOCK = 1 << 15


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
    if comb(n - 1, k) ** n <= FEW:
        hears, exact, served = _try_all(skills, counts, rounds, k), True, 0.0
    else:
        hears, exact, served = _solve(skills, counts, rounds, k, seconds)
    solved = finished(reach(np.repeat(hears[None], rounds - 1, 0), skills, layers), layers)[:, -1]
    return StaticOracle(hears, solved, exact, float(solved.mean()) if exact else served / len(layers))


def _try_all(skills: np.ndarray, counts: Counter, rounds: int, k: int) -> np.ndarray:
    """The best of all graphs in which everybody hears exactly ``k`` (more edges never hurt). Graphs are bit masks."""
    n = skills.shape[0]

    def bit(sender: int, receiver: int) -> np.uint64:
        return np.uint64(1 << (receiver * n + sender))

    graphs = np.zeros(1, dtype=np.uint64)
    for receiver in range(n):
        others = [bit(sender, receiver) for sender in range(n) if sender != receiver]
        choices = np.array([sum(map(int, chosen)) for chosen in combinations(others, k)], dtype=np.uint64)
        graphs = (graphs[:, None] | choices).ravel()
    routes = [(times, [np.uint64(sum(int(bit(*edge)) for edge in way)) for way in
                       travel_ways(skills, question, rounds)]) for question, times in counts.items()]
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
    return np.array([[int(best) >> (receiver * n + sender) & 1 for sender in range(n)] for receiver in range(n)], bool)


def _solve(skills: np.ndarray, counts: Counter, rounds: int, k: int, seconds: float) -> tuple[np.ndarray, bool, float]:
    """Receivers' choice of edges, whether it is optimal, and an upper bound on the number of questions served."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    n = skills.shape[0]
    edges = [(s, r) for s in range(n) for r in range(n) if s != r]
    number = {edge: i for i, edge in enumerate(edges)}
    free, routes = 0, []  # questions that need no edge; (question, set of edges)
    for question, times in counts.items():
        ways = list(travel_ways(skills, question, rounds))
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
    return hears, found.status == 0, float(bound)


def travel_ways(skills: np.ndarray, question: tuple[int, ...], rounds: int) -> Iterator[frozenset[Edge]]:
    """The minimal sets of (sender, receiver) edges over which ``question`` (domains of its layers) is finished by
    round ``rounds``."""
    found: list[frozenset[Edge]] = []
    start = [(agent, 1, frozenset()) for agent in range(len(skills)) if skills[agent, question[0]]]
    seen = set()
    for spent in range(1, rounds + 1):
        here = set(start)
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
    yield from minimal
