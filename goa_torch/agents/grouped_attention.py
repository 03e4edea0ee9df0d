r"""Attention for CPUs: two batched matrix products instead of the fused kernel.

With one query a row, PyTorch's fused CPU kernel reads keys and values far slower than memory delivers them. Folding the
query heads of a group into the query axis leaves, for each row and key-value head,
:math:`\mathrm{softmax}(q k^\top / \sqrt{d} + m)\, v` with matrices that plain products handle faster, prompts as well
as single tokens. Numbers are those of Hugging Face's ``eager`` attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: The name under which models are told of it.
NAME = "grouped_matmul"
#: Most scores held at once; longer prompts are left to the fused kernel, which holds none.
MOST_SCORES = 2**24


def grouped_matmul_attention(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
                             attention_mask: Tensor | None, scaling: float | None = None, dropout: float = 0.0,
                             **options: Any) -> tuple[Tensor, None]:
    """A Hugging Face attention function.

    Args:
        query: [rows, heads, queries, size]; ``key`` and ``value``: [rows, key-value heads, columns, size].
        attention_mask: added to the scores, [rows, 1, queries, columns]; ``None``: nothing is masked.

    Returns:
        [rows, queries, heads, size], and no weights.
    """
    rows, heads, queries, size = query.shape
    groups, columns = key.shape[1], key.shape[2]
    unusual = any(options.get(name) is not None for name in ("position_bias", "softcap", "s_aux"))
    causal = attention_mask is None and queries > 1
    if dropout or unusual or causal or query.device.type != "cpu" or rows * heads * queries * columns > MOST_SCORES:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
                                      **options)
    folded = query.reshape(rows, groups, heads // groups * queries, size)
    scores = torch.matmul(folded * (size**-0.5 if scaling is None else scaling), key.transpose(-1, -2))
    if attention_mask is not None:
        scores = scores.view(rows, groups, heads // groups, queries, columns).add_(attention_mask[:, :, None])
    weights = scores.softmax(dim=-1).view(rows, groups, heads // groups * queries, columns)
    heard = torch.matmul(weights, value).view(rows, heads, queries, value.shape[-1])
    return heard.transpose(1, 2).contiguous(), None


def register() -> None:
    """Makes the function known to transformers under :data:`NAME`."""
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import AttentionInterface

    AttentionInterface.register(NAME, grouped_matmul_attention)
    AttentionMaskInterface.register(NAME, eager_mask)
