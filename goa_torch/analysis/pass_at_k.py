"""pass@k: the chance that one of k samples is right."""

from __future__ import annotations


def pass_at_k(n: int, c: int, k: int) -> float:
    r"""The unbiased estimate (Chen et al. 2021, arXiv 2107.03374) of the probability that at least one of ``k`` samples
    is right, when ``c`` of ``n`` were,

    .. math:: 1 - \binom{n - c}{k} / \binom{n}{k},

    as a product of fractions, which neither overflows nor cancels.

    Example:
        >>> pass_at_k(5, 1, 2)
        0.4

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n = {n}, c = {c}, k = {k}")
    none_right = 1.0
    for i in range(k):
        none_right *= max(0, n - c - i) / (n - i)
    return 1.0 - none_right
