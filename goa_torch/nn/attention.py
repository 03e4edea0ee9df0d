r"""Edge-weighted attention for graphs of agents: a library on its own.

Example:
    >>> model = enable_edge_weights(AutoModelForCausalLM.from_pretrained(...))
    >>> weight = torch.tensor([0.5, 0.5], requires_grad=True)       # one for each message
    >>> bias = message_bias(weight, message)                        # message: [rows, columns], -1 for no message
    >>> model(input_ids, edge_bias=bias).logits[0, -1].log_softmax(-1)[target].backward()
    >>> with edge_weighted(model, message_bias(weight.detach(), message)):
    ...     model.generate(input_ids)

See :mod:`goa_torch.agents.edge_attention` for the equation, the scopes and what they cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..agents.edge_attention import (
    EPS,
    EdgeBias,
    edge_weighted,
    edge_weights_enabled,
    enable_edge_weights,
    log_weight,
)
from ..agents.edge_rows import parallel_positions
from ..errors import UserError

__all__ = ["EPS", "EdgeBias", "edge_weighted", "edge_weights_enabled", "effective_share", "enable_edge_weights",
           "log_weight", "mean_normalised", "message_bias", "parallel_positions"]


def message_bias(weight: Tensor, message: Tensor, start: Tensor | None = None, **options: object) -> EdgeBias:
    """The bias of prompts that show messages.

    Args:
        weight: [M] >= 0, one for each message (or edge) of the batch.
        message: [rows, columns] (long) which of them each token belongs to, -1 for none.
        start: see :class:`EdgeBias`; ``options`` are its other fields.

    Differentiable in ``weight``; its gradient is finite at 0.

    Raises:
        UserError: for weights that are negative or not finite, or a message without a weight.
    """
    if not isinstance(weight, Tensor) or weight.dim() != 1 or not weight.is_floating_point():
        raise UserError(f"message_bias: weight must be a tensor [M] of floating-point numbers, not {_shape(weight)}")
    if not isinstance(message, Tensor) or message.dim() != 2 or message.is_floating_point():
        raise UserError("message_bias: message must be a tensor [rows, columns] of whole numbers, not "
                        f"{_shape(message)}")
    held = weight.detach()
    if not bool(((held >= 0) & held.isfinite()).all()):
        raise UserError(f"message_bias: weights must be finite and at least 0, not {held.tolist()}")
    if message.numel() and not -1 <= int(message.min()) <= int(message.max()) < len(weight):
        raise UserError(f"message_bias: message has the numbers {int(message.min())} to {int(message.max())}, but "
                        f"there are {len(weight)} weights; -1 is for no message")
    table = torch.cat([log_weight(weight), weight.new_zeros(1)])  # -1 finds the last: no message
    return EdgeBias(table[message], start, message, **options)  # type: ignore[arg-type]


def _shape(value: object) -> str:
    """What a wrong argument is, in a few words."""
    if isinstance(value, Tensor):
        return f"{list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"


def mean_normalised(weight: Tensor, receiver: Tensor) -> Tensor:
    r"""Weights [E] divided by the mean of their ``receiver`` [E]: :math:`w_e n_r / \sum_{e' \to r} w_{e'}`. A lone
    neighbour then always weighs 1, and nobody can be told to listen to nobody."""
    size = int(receiver.max()) + 1 if receiver.numel() else 0
    total = weight.new_zeros(size).index_add(0, receiver, weight)[receiver]
    count = torch.bincount(receiver, minlength=size)[receiver]
    return weight * count / total.clamp_min(EPS)


def effective_share(weight: Tensor, share: Tensor) -> Tensor:
    r"""The share of attention that a message of weight w gets, if it gets ``share`` p at weight 1:
    :math:`w p / (1 + (w - 1) p)`."""
    return weight * share / (1 + (weight - 1) * share)
