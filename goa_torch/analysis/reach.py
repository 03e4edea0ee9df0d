"""How far a chain of work can travel over a graph of agents that make no mistakes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def layer_numbers(domains: Sequence[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """[B, d] number of each layer's domain among ``names`` in the order of evaluation, padded with -1."""
    layers = np.full((len(domains), max(map(len, domains), default=0)), -1)
    for row, wanted in zip(layers, domains):
        row[: len(wanted)] = [names.index(domain) for domain in wanted]
    return layers


def reach(hears: np.ndarray, skills: np.ndarray, layers: np.ndarray) -> np.ndarray:
    r"""Layers that each agent has worked out after each round,

    .. math:: m_j = \max_{i \in \mathcal{N}(j) \cup \{j\}} p_i, \quad p'_j = m_j + [\text{j can do layer } m_j + 1],

    for synchronous rounds of perfect agents: each takes the most advanced reply among its own and its neighbours', and
    does one more layer if that is its business. Round 1 is the independent answer.

    Args:
        hears: [T, N, N] or [B, T, N, N] bool, ``hears[.., receiver, sender]`` in each round of talking.
        skills: [N, D] bool, which domains each agent can do.
        layers: [B, d] domain of each layer, innermost first, padded with -1.

    Returns:
        [B, T + 1, N] layers done after round 1, 2, ..., T + 1.
    """
    hears = np.asarray(hears, dtype=bool)
    batch, depth = layers.shape
    hears = np.broadcast_to(hears, (batch, *hears.shape[-3:]))
    rounds, n = hears.shape[1], skills.shape[0]
    if hears.shape[2:] != (n, n):
        raise ValueError(f"hears {list(hears.shape)} does not fit {n} agents: give [T, {n}, {n}]")
    can = np.zeros((batch, depth + 1, n), dtype=bool)  # nobody can do anything once all layers are done
    can[:, :depth] = np.where((layers >= 0)[:, :, None], skills.T[np.maximum(layers, 0)], False)
    with_self = hears | np.eye(n, dtype=bool)
    done = np.empty((batch, rounds + 1, n), dtype=np.int64)
    done[:, 0] = can[:, 0]
    for t in range(rounds):
        heard = np.where(with_self[:, t], done[:, t, None, :], 0).max(axis=2)  # [B, N]
        done[:, t + 1] = heard + np.take_along_axis(can, heard[:, None, :], axis=1)[:, 0]
    return done


def finished(done: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """[B, T + 1] whether *some* agent has the answer after each round; the arguments are those of :func:`reach`."""
    return (done >= (layers >= 0).sum(axis=1)[:, None, None]).any(axis=2)


def complete(n: int) -> np.ndarray:
    """[N, N] everybody hears everybody else."""
    return ~np.eye(n, dtype=bool)


def ring(n: int) -> np.ndarray:
    """[N, N] everybody hears the agents before and after it."""
    hears = np.zeros((n, n), dtype=bool)
    for step in (1, -1):
        hears[np.arange(n), (np.arange(n) + step) % n] = True
    return hears & complete(n)


def random_no_duplicates(uniforms: np.ndarray, k: int) -> np.ndarray:
    """[..., N, N] every receiver hears ``k`` different others, uniformly (Random-NoDup of arXiv 2609.27150).

    Args:
        uniforms: [..., N, N] numbers in [0, 1), one for each receiver and sender.
    """
    lots = np.where(complete(uniforms.shape[-1]), uniforms, 2.0)
    rank = lots.argsort(axis=-1).argsort(axis=-1)
    return (rank < k) & complete(uniforms.shape[-1])
