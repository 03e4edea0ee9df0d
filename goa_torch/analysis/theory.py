r"""What theory says of routing rules before anybody speaks: rounds until all have heard from all, and the factor by
which disagreement shrinks a round.

All rules have in-degree k, agents keep weight 1 for their own reply. "Anew" means that peers are drawn in each round,
"fixed" that one draw serves all rounds. Simulations to hold beside: :func:`goa_torch.analysis.temporal.temporal_reach`,
:func:`goa_torch.analysis.travel.chain_rounds` and :func:`goa_torch.analysis.mixing.disagreement`.
"""

from __future__ import annotations

import math

from ..errors import UserError

#: (3 + sqrt 5) / 2, the square of the golden ratio.
_GROWTH = (3 + math.sqrt(5)) / 2


def ring_reach(n: int, k: int = 2) -> float:
    r"""Rounds until all have heard from all on a ring of even k: :math:`\lceil \lfloor N/2 \rfloor / (k/2) \rceil`."""
    _check("ring_reach", n, k, even=True)
    return float(math.ceil((n // 2) / (k / 2)))


def random_reach(n: int, k: int = 2) -> float:
    r"""Rounds until all have heard from all, peers drawn anew: rumours that are pulled (Karp et al., `Randomized rumor
    spreading <https://doi.org/10.1109/SFCS.2000.892324>`_, 2000),

    .. math:: \log_{1+k}(N \ln N) + \frac{\ln N}{k}.

    Who has not heard a rumour stays so if none of k peers has, :math:`1 - f' = (1 - f)^{1+k}`, which takes the first
    term from one in N to all; the second is the wait of the unluckiest of N rumours, which nobody at all hears in a
    round with probability :math:`e^{-k}`. Up to O(1).
    """
    _check("random_reach", n, k)
    return 1.0 if k == n - 1 else math.log(n * math.log(n), 1 + k) + math.log(n) / k


def small_world_reach(n: int) -> float:
    r"""Rounds until all have heard from all under the small-world-inspired rule of k = 2 (the predecessor, and one
    distant peer drawn anew),

    .. math:: \log_{\varphi^2}(N \ln N) + \sqrt{2 \ln N}, \qquad \varphi^2 = \frac{3 + \sqrt 5}{2} \approx 2.62.

    I agents who know form B stretches of the ring; each round I new stretches start and each old one grows by one:
    :math:`I' = 2 I + B`, :math:`B' = B + I`, whose growth is :math:`\varphi^2`. A rumour is passed along the ring in
    any case, so that after r rounds r agents know, and it takes bad luck of :math:`e^{-r^2/2}` that no others do. Up to
    O(1).
    """
    _check("small_world_reach", n, 2)
    return math.log(n * math.log(n), _GROWTH) + math.sqrt(2 * math.log(n))


def random_hop(n: int, k: int = 2) -> float:
    r"""Mean rounds until the news of one agent reaches another given one, peers drawn anew. The share that knows grows
    by :math:`1 - f_{t+1} = (1 - f_t)^{1+k}` from :math:`f_0 = 1/N`, so

    .. math:: \mathbb{E}[\tau] = \sum_{t \ge 0} \frac{N}{N-1} \left(1 - \tfrac{1}{N}\right)^{(1+k)^t}
              \approx \log_{1+k} N + O(1)

    (mean-field: what N = 8 loses by chance is left out). A chain of d experts takes d - 1 of these.
    """
    _check("random_hop", n, k)
    total, share = 0.0, 1 - 1 / n
    while share > 1e-12:
        total += share
        share **= 1 + k
    return total * n / (n - 1)


def ring_hop(n: int, k: int = 2) -> float:
    r"""Mean rounds until the news of one agent reaches another one, drawn uniformly, on a ring of even k: the mean of
    :math:`\lceil \text{distance} / (k/2) \rceil`, N / 2k for large N."""
    _check("ring_hop", n, k, even=True)
    return sum(math.ceil(min(step, n - step) / (k / 2)) for step in range(1, n)) / (n - 1)


def ring_factor(n: int, k: int = 2) -> float:
    r"""Factor by which disagreement shrinks a round on a ring of even k, the second eigenvalue of its averaging matrix:
    :math:`(1 + 2 \sum_{s=1}^{k/2} \cos(2 \pi s / N)) / (1 + k) = 1 - O(N^{-2})`."""
    _check("ring_factor", n, k, even=True)
    values = [(1 + 2 * sum(math.cos(2 * math.pi * s * m / n) for s in range(1, k // 2 + 1))) / (1 + k)
              for m in range(1, min(n, 4096) // 2 + 1)]
    return max(map(abs, values))


def random_factor(n: int, k: int = 2) -> float:
    r"""Root of the mean factor by which squared disagreement shrinks a round, peers drawn anew; exact for any opinions,

    .. math:: \rho^2 = \frac{1}{(1+k)^2} \left[ \left(1 - \tfrac{k}{M}\right)^2
              + \tfrac{k (M - k)}{M - 1} \left(1 - \tfrac{1}{M^2}\right) \left(1 - \tfrac{1}{N}\right) \right]
              \to \frac{1}{1 + k}, \qquad M = N - 1:

    the first term is the mean of what an agent comes to hold, the second the variance of k draws without replacement,
    less what goes into the common mean.
    """
    _check("random_factor", n, k)
    others = n - 1
    drawn = k * (others - k) / (others - 1) * (1 - others**-2) if others > 1 else 0.0
    return math.sqrt((1 - k / others) ** 2 + drawn * (1 - 1 / n)) / (1 + k)


def small_world_factor() -> float:
    r"""The same for the small-world-inspired rule of k = 2 and large N: :math:`\rho^2 = (2 + \sqrt 5) / 9`.

    Covariances of opinions at distance m on the ring follow :math:`9 c'_m = 2 c_m + c_{m-1} + c_{m+1}` (and
    :math:`+ c_0` for m = 0, the variance of the distant peer), whose growing solution satisfies
    :math:`(\rho^2 - 2/9)^2 - (2/9)^2 = (1/9)^2`.
    """
    return math.sqrt((2 + math.sqrt(5)) / 9)


def fixed_random_factor(k: int = 2) -> float:
    r"""The same for random peers that stay, large N: :math:`(1 + \sqrt k) / (1 + k)`, since the second eigenvalue of a
    random directed graph of in-degree k is :math:`1 / \sqrt k` after averaging (Coste, `The spectral gap of sparse
    random digraphs <https://arxiv.org/abs/1708.00530>`_, 2017)."""
    if k < 1:
        raise UserError(f"fixed_random_factor: k must be at least 1, not {k}")
    return (1 + math.sqrt(k)) / (1 + k)


def _check(what: str, n: int, k: int, even: bool = False) -> None:
    if n < 2 or not 1 <= k < n:
        raise UserError(f"{what}: {n} agents with k = {k}; give at least two agents and k from 1 to {max(n - 1, 1)}")
    if even and k % 2:
        raise UserError(f"{what}: a ring of k = {k} is not symmetric; give an even k")
