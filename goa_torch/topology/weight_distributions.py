"""Distributions over matrices of edge weights, sampled by inverse CDF so that every draw has a name."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Beta, Distribution, Normal, constraints

_EPS = 1e-6


class EdgeDistribution(Distribution):
    """Independent draws for every ordered pair of agents; pairs that are not there have probability 1 and entropy 0.

    Args:
        first, second: [B, N, N] parameters.
        pairs: [B, N, N] bool, pairs that are there.

    Shapes:
        - **action**: [B, N, N]; :meth:`weights` turns it into weights in (0, 1)
        - **log_prob**, **entropy**: [B]
    """

    arg_constraints: dict = {}
    support = constraints.real_vector
    has_rsample = False

    def __init__(self, first: Tensor, second: Tensor, pairs: Tensor) -> None:
        self.first, self.second, self.pairs = first, second, pairs
        super().__init__(first.shape[:-2], first.shape[-2:], validate_args=False)

    def _each(self) -> Distribution:
        """The distribution of each entry of the action."""
        raise TypeError(f"{type(self).__name__} does not say what it draws")

    def _sum(self, values: Tensor) -> Tensor:
        return values.masked_fill(~self.pairs, 0.0).sum(dim=(-2, -1))

    def log_prob(self, value: Tensor) -> Tensor:
        """[B] log-density of an action."""
        return self._sum(self._each().log_prob(value))

    def entropy(self) -> Tensor:
        """[B], in nats."""
        return self._sum(self._each().entropy())

    def sample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
        """Draws from torch's generator, for estimates that need not be repeated; runs use :meth:`icdf`."""
        return self.icdf(torch.rand(*sample_shape, *self.first.shape))

    def icdf(self, value: Tensor) -> Tensor:
        """The action for uniform numbers [B, N, N] in [0, 1)."""
        raise TypeError(f"{type(self).__name__} does not say how it is inverted")

    def weights(self, action: Tensor) -> Tensor:
        """The weights [B, N, N] in (0, 1) that an action stands for."""
        raise TypeError(f"{type(self).__name__} does not say what its actions stand for")

    def visible(self, threshold: float) -> Tensor:
        """[B, N, N] probability that a weight is above ``threshold``, differentiable in the parameters."""
        raise TypeError(f"{type(self).__name__} does not know the probability of a visible edge")


class GaussianEdges(EdgeDistribution):
    r"""Weights whose logits are normal (RUMAD), :math:`w_{ij} = \sigma(z_{ij}), z_{ij} \sim N(\mu_{ij}, \sigma_{ij})`.

    The action is z, so densities need no correction for the sigmoid.
    """

    def _each(self) -> Normal:
        return Normal(self.first, self.second, validate_args=False)

    @property
    def mode(self) -> Tensor:
        return self.first

    mean = deterministic_sample = mode

    def icdf(self, value: Tensor) -> Tensor:
        lot = value.to(self.first.dtype).clamp(_EPS, 1 - _EPS)
        return self.first + self.second * torch.special.ndtri(lot)

    def weights(self, action: Tensor) -> Tensor:
        return torch.sigmoid(action)

    def visible(self, threshold: float) -> Tensor:
        cut = torch.logit(torch.tensor(threshold, dtype=self.first.dtype).clamp(_EPS, 1 - _EPS))
        return torch.special.ndtr((self.first - cut) / self.second)


class BetaEdges(EdgeDistribution):
    """Weights from a Beta distribution, whose support is that of a weight; the action is the weight."""

    def _each(self) -> Beta:
        return Beta(self.first, self.second, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.first / (self.first + self.second)

    mode = deterministic_sample = mean  # the mode lies on the border where a parameter is 1 or less

    def icdf(self, value: Tensor) -> Tensor:
        from scipy.special import betaincinv

        shape = (self.first.detach().double().numpy(), self.second.detach().double().numpy())
        drawn = betaincinv(*shape, value.double().clamp(_EPS, 1 - _EPS).numpy())
        return torch.from_numpy(np.asarray(drawn)).to(self.first.dtype).clamp(_EPS, 1 - _EPS)

    def weights(self, action: Tensor) -> Tensor:
        return action

    def visible(self, threshold: float) -> Tensor:
        """A normal approximation with the right mean and variance (torch has no gradient of the incomplete beta
        function in its parameters)."""
        total = self.first + self.second
        spread = (self.first * self.second / (total.square() * (total + 1))).sqrt()
        return torch.special.ndtr((self.mean - threshold) / spread)


DISTRIBUTIONS: dict[str, type[EdgeDistribution]] = {"gaussian": GaussianEdges, "beta": BetaEdges}
