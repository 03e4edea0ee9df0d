"""Policies that look at a debate and weigh every ordered pair of agents, and critics that value it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError, unknown
from ..randomness import stream
from .observation import ObservationConfig
from .weight_distributions import DISTRIBUTIONS, EdgeDistribution

ARCHITECTURES = ("mlp", "graph")
_LEAST_SPREAD, _MOST_SPREAD = math.log(0.05), math.log(2.0)


@dataclass(frozen=True)
class PolicyConfig:
    """How a policy is built.

    Attributes:
        architecture: ``mlp`` (RUMAD: one hidden layer over the flattened observation, for a fixed number of agents) or
            ``graph`` (permutation-equivariant message passing, for any number).
        distribution: of the weights: ``gaussian`` logits (RUMAD) or ``beta``.
        hidden: width.
        layers: hidden layers of an ``mlp``, rounds of message passing of a ``graph``.
        spread: standard deviation of the logits before any training (for ``beta``: a larger one, less certain).
        bias: logit of the weights of others before any training; a little above 0, everybody is called and heard.
    """

    architecture: str = "mlp"
    distribution: str = "gaussian"
    hidden: int = 128
    layers: int = 1
    spread: float = 1.0
    bias: float = 0.0

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise unknown("architecture", self.architecture, ARCHITECTURES, "policy")
        if self.distribution not in DISTRIBUTIONS:
            raise unknown("distribution", self.distribution, DISTRIBUTIONS, "policy")
        if self.hidden < 1 or self.layers < 1:
            raise UserError(f"policy: hidden and layers must be at least 1, not {self.hidden} and {self.layers}")
        if not math.exp(_LEAST_SPREAD) <= self.spread <= math.exp(_MOST_SPREAD):
            raise UserError(f"policy: spread must lie in [0.05, 2], not {self.spread}")


class WeightPolicy(nn.Module):
    r"""An actor :math:`\pi(W \mid x)` over weight matrices and a critic :math:`V(x)`, which share nothing.

    Args:
        config: see :class:`PolicyConfig`.
        observation: what it sees.
        agents: N; the ``graph`` architecture works for any other number too.
        seed: of the first weights.

    Shapes:
        - **x**: [B, N, P N + F] (:func:`goa_torch.topology.observation.observe`)
        - **here**: [B, N] bool, which places hold an agent
        - **actor**: two parameters [B, N, N] of the distribution
        - **critic**: [B, 1]
    """

    def __init__(self, config: PolicyConfig, observation: ObservationConfig, agents: int, seed: int = 0) -> None:
        super().__init__()
        self.config, self.observation, self.agents, self.seed = config, observation, agents, seed
        if "place" in observation.features and config.architecture == "graph":
            raise UserError("policy: the feature 'place' ties a graph policy to one number of agents; use 'card'")
        body = _Flat if config.architecture == "mlp" else _Graph
        self.actor = _Actor(body, config, observation, agents)
        self.critic = _Critic(body, config, observation, agents)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal layers whose last one is small: at first every weight is about sigmoid(``bias``)."""
        draw = torch.Generator().manual_seed(stream("policy", self.seed) & 0x7FFFFFFF)
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                last = name.endswith("head")
                nn.init.orthogonal_(module.weight, 0.01 if last else math.sqrt(2), generator=draw)
                nn.init.zeros_(module.bias)

    @property
    def distribution(self) -> type[EdgeDistribution]:
        """The class of its distributions."""
        return DISTRIBUTIONS[self.config.distribution]

    def forward(self, x: Tensor, here: Tensor) -> EdgeDistribution:
        self.check(x)
        return self.distribution(*self.actor(x, here), pairs(here))

    def check(self, x: Tensor) -> None:
        """Raises :class:`UserError` unless the policy fits observations of this shape."""
        n = x.size(1)
        if self.config.architecture == "mlp" and n != self.agents:
            raise UserError(f"policy: trained for {self.agents} agents, but {n} take part; a policy with architecture "
                            "'graph' works for any number")
        if x.size(2) != self.observation.width(n):
            raise UserError(f"policy: observations have {x.size(2)} columns, but {self.observation.width(n)} are "
                            "expected; build them with the policy's own ObservationConfig")

    def facts(self) -> dict[str, Any]:
        """What it takes to build it again, JSON-able."""
        return {"policy": asdict(self.config), "observation": asdict(self.observation), "agents": self.agents}

    def extra_repr(self) -> str:
        return f"{self.config.architecture}, {self.config.distribution}, agents={self.agents}"


def pairs(here: Tensor) -> Tensor:
    """[B, N, N] ordered pairs of agents that are there, self pairs included."""
    return here[:, :, None] & here[:, None, :]


class _Actor(nn.Module):
    """Two parameters of every ordered pair."""

    def __init__(self, body: type[nn.Module], config: PolicyConfig, observation: ObservationConfig, n: int) -> None:
        super().__init__()
        self.body = body(config, observation, n, edges=True)
        self.config = config

    def forward(self, x: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.body(x, here).unbind(dim=-1)  # each [B, N, N]
        if self.config.distribution == "gaussian":
            log_spread = (spread + math.log(self.config.spread)).clamp(_LEAST_SPREAD, _MOST_SPREAD)
            return mean + self.config.bias, log_spread.exp()
        sharp = 1 + nn.functional.softplus(spread) * 4 / self.config.spread  # both above 1: one peak
        share = torch.sigmoid(mean + self.config.bias)
        return 1 + share * sharp, 1 + (1 - share) * sharp


class _Critic(nn.Module):
    """The value of a state."""

    def __init__(self, body: type[nn.Module], config: PolicyConfig, observation: ObservationConfig, n: int) -> None:
        super().__init__()
        self.body = body(config, observation, n, edges=False)

    def forward(self, x: Tensor, here: Tensor) -> Tensor:
        return self.body(x, here)


def _mlp(width: int, hidden: int, layers: int) -> nn.Sequential:
    sizes = [width] + [hidden] * layers
    return nn.Sequential(*(part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), nn.Tanh())))


class _Flat(nn.Module):
    """A perceptron over the whole observation."""

    def __init__(self, config: PolicyConfig, observation: ObservationConfig, n: int, edges: bool) -> None:
        super().__init__()
        self.n, self.edges = n, edges
        self.trunk = _mlp(n * observation.width(n), config.hidden, config.layers)
        self.head = nn.Linear(config.hidden, 2 * n * n if edges else 1)

    def forward(self, x: Tensor, here: Tensor) -> Tensor:
        out = self.head(self.trunk(x.masked_fill(~here[:, :, None], 0.0).flatten(1)))
        return out.view(-1, self.n, self.n, 2) if self.edges else out


class _Graph(nn.Module):
    r"""Message passing over the complete graph of agents, with the observed matrices on the edges,

    .. math:: h_i \leftarrow h_i + \phi\Big(h_i, \tfrac{1}{N} \textstyle\sum_j \psi(h_i, h_j, x_{ij}, x_{ji})\Big).

    What comes out turns with the agents. It holds one number for each pair of agents, for batches of small graphs:
    dense tensors are several times faster here than a list of edges.
    """

    def __init__(self, config: PolicyConfig, observation: ObservationConfig, n: int, edges: bool) -> None:
        super().__init__()
        hidden, planes = config.hidden, observation.matrices()
        self.planes, self.edges = planes, edges
        self.enter = nn.Linear(observation.columns(n) + 2 * planes, hidden)
        self.listen = nn.ModuleList(_mlp(2 * hidden + 2 * planes + 1, hidden, 1) for _ in range(config.layers))
        self.update = nn.ModuleList(_mlp(2 * hidden, hidden, 1) for _ in range(config.layers))
        self.read = _mlp(2 * hidden + 2 * planes + 1 if edges else hidden, hidden, 1)
        self.head = nn.Linear(hidden, 2 if edges else 1)

    def forward(self, x: Tensor, here: Tensor) -> Tensor:
        b, n, _ = x.shape
        matrix = x[..., : self.planes * n].view(b, n, self.planes, n).permute(0, 1, 3, 2)  # [B, i, j, P]
        there = pairs(here)[..., None]
        matrix = matrix.masked_fill(~there, 0.0)
        alive = here[:, :, None].to(x.dtype)  # [B, N, 1]
        count = alive.sum(dim=1, keepdim=True).clamp_min(1)
        eye = torch.eye(n, dtype=x.dtype)
        own = matrix.diagonal(dim1=1, dim2=2).transpose(1, 2)  # [B, N, P]
        h = torch.tanh(self.enter(torch.cat([x[..., self.planes * n :], own, matrix.sum(dim=2) / count], dim=2)))
        edge = torch.cat([matrix, matrix.transpose(1, 2), eye.expand(b, n, n)[..., None]], dim=3)
        for listen, update in zip(self.listen, self.update):
            heard = _couples(listen, h, edge).masked_fill(~there, 0.0).sum(dim=2) / count
            h = h + update(torch.cat([h, heard], dim=2))
        if self.edges:
            return self.head(_couples(self.read, h, edge))  # [B, N, N, 2]
        return self.head(self.read((h * alive).sum(dim=1) / count[:, 0]))  # [B, 1]


def _couples(layers: nn.Sequential, h: Tensor, edge: Tensor) -> Tensor:
    """``layers`` of [h_i, h_j, edge_ij] for every ordered pair, [B, N, N, hidden]. The first of them is linear: what it
    makes of an agent is worked out once an agent, not once a pair."""
    first, width = layers[0], h.size(2)
    receiver, sender, between = first.weight.split([width, width, edge.size(3)], dim=1)
    paired = (h @ receiver.t())[:, :, None] + (h @ sender.t())[:, None] + edge @ between.t() + first.bias
    return layers[1:](paired)
