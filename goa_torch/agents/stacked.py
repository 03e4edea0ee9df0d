r"""Several small models of one shape as one: every product of the M models is one batched product.

A model of a million parameters spends its time between kernels, not in them. Where agents share an architecture, their
weights are stacked along a model axis and a batch of rows, sorted by model, goes through all of them at once,

.. math:: y_{mrt} = W_m x_{mrt}, \qquad m = 1..M \text{ models}, \; r = 1..R \text{ rows of each}, \; t \text{ tokens},

which is one ``torch.bmm``. Attention runs over all M R rows as it does in one model. The numbers are those of the
models one by one, up to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .edge_attention import EdgeBias

if TYPE_CHECKING:
    from .base import LanguageModel
    from .hf import HFModel

#: Models of more parameters are not stacked: their kernels are busy, and a stack copies their weights.
MOST_PARAMETERS = 1 << 24
_SAME = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
         "head_dim", "vocab_size", "hidden_act", "rms_norm_eps", "rope_parameters")


@dataclass(slots=True)
class Output:
    """What a stack returns, named as in transformers: ``logits`` [M R, kept tokens, vocabulary]."""

    logits: Tensor


def stackable(models: Sequence[LanguageModel]) -> list[list[HFModel]]:
    """Those of ``models`` that can be stacked, in groups of one shape; groups have at least two."""
    from .hf import HFModel

    groups: dict[Any, list[HFModel]] = {}
    for model in models:
        if type(model) is not HFModel:
            continue
        shape = _shape(model.module)
        if shape is not None:
            groups.setdefault(shape, []).append(model)
    return [group for group in groups.values() if len(group) > 1]


def _shape(module: nn.Module) -> tuple | None:
    """What two models must have in common to be stacked; ``None`` for one that cannot be."""
    config = module.config
    if config.model_type != "llama" or module.training or config.attention_bias or config.mlp_bias:
        return None
    if sum(p.numel() for p in module.parameters()) > MOST_PARAMETERS:
        return None
    weight = module.get_input_embeddings().weight
    return (*(str(getattr(config, name, None)) for name in _SAME), weight.dtype, weight.device)


class LlamaStack:
    """M Llama models of one shape, called as one of them is called in transformers.

    Weights are copies without a gradient; what may have one is ``edge_bias``.

    Args:
        models: their transformers modules, all of one shape (:func:`stackable`).
    """

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.config = config = models[0].config
        self.count = len(models)
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.rotary, self.act = models[0].model.rotary_emb, models[0].model.layers[0].mlp.act_fn

        def stacked(*names: str) -> Tensor:
            """[M, in, out] of linear layers side by side."""
            rows = [torch.cat([m.get_submodule(name).weight.detach() for name in names]) for m in models]
            return torch.stack(rows).transpose(1, 2)

        def norm(name: str) -> Tensor:
            return torch.stack([m.get_submodule(name).weight.detach() for m in models])[:, None]  # [M, 1, width]

        self.embedding = torch.stack([m.get_input_embeddings().weight.detach() for m in models])  # [M, V, width]
        self.layers = []
        for number in range(config.num_hidden_layers):
            at = f"model.layers.{number}"
            self.layers.append((norm(f"{at}.input_layernorm"),
                                stacked(*(f"{at}.self_attn.{name}_proj" for name in "qkv")),
                                stacked(f"{at}.self_attn.o_proj"), norm(f"{at}.post_attention_layernorm"),
                                stacked(f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"), stacked(f"{at}.mlp.down_proj")))
        self.norm, self.head = norm("model.norm"), stacked("lm_head")

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor,
                 edge_bias: EdgeBias | None = None, cache: Any = None, use_cache: bool | None = None,
                 logits_to_keep: int = 0) -> Output:
        """A forward pass; arguments as transformers' models have them.

        Args:
            input_ids: [M R, T], the rows of the first model first.
            attention_mask: [M R, columns] 1 where a key is looked at; columns count those in the cache.
            position_ids: [M R, T].
            cache: anything with transformers' ``update(keys, values, layer)``.
        """
        rows, tokens = input_ids.shape
        columns = attention_mask.shape[1]
        model = torch.arange(self.count, device=input_ids.device)[:, None]
        x = self.embedding[model, input_ids.reshape(self.count, -1)]  # [M, R T, width]
        rotation = self.rotary(x, position_ids)
        mask = _mask(attention_mask, edge_bias, rows, tokens, columns, x.dtype)
        for number, layer in enumerate(self.layers):
            before, qkv, out, after, gate_up, down = layer
            x = x + torch.bmm(self._attend(torch.bmm(self._normed(x, before), qkv), rotation, mask, cache, number,
                                           rows, tokens), out)
            gate, up = torch.bmm(self._normed(x, after), gate_up).chunk(2, dim=-1)
            x = x + torch.bmm(self.act(gate) * up, down)
        width = x.shape[-1]
        if logits_to_keep:
            x = x.view(rows, tokens, width)[:, -logits_to_keep:].reshape(self.count, -1, width)
        return Output(torch.bmm(self._normed(x, self.norm), self.head).view(rows, -1, self.head.shape[-1]))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps)).to(x.dtype) * weight

    def _attend(self, qkv: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor, cache: Any, number: int, rows: int,
                tokens: int) -> Tensor:
        """[M, R T, heads x size] what each token hears."""
        parts = qkv.view(rows, tokens, -1, self.size).transpose(1, 2)  # [M R, heads + 2 groups, T, size]
        cos, sin = (part[:, None] for part in rotation)
        turned = parts[:, : self.heads + self.groups]
        half = self.size // 2
        turned = turned * cos + torch.cat([-turned[..., half:], turned[..., :half]], dim=-1) * sin
        query, key = turned[:, : self.heads] * self.size**-0.5, turned[:, self.heads :]
        value = parts[:, self.heads + self.groups :]
        if cache is not None:
            key, value = cache.update(key, value, number)
        folded = query.reshape(rows, self.groups, -1, self.size)  # heads of a group into the query axis
        scores = (folded @ key.transpose(-1, -2)).view(rows, self.heads, tokens, -1) + mask
        heard = scores.softmax(dim=-1).view(rows, self.groups, -1, key.shape[2]) @ value
        heard = heard.view(rows, self.heads, tokens, self.size).transpose(1, 2)
        return heard.reshape(self.count, -1, self.heads * self.size)


def _mask(there: Tensor, edge_bias: EdgeBias | None, rows: int, tokens: int, columns: int, dtype: torch.dtype
          ) -> Tensor:
    """What is added to the scores, [rows, 1, tokens, columns]: causal, without padding, with the edges' bias."""
    column = torch.arange(columns - tokens, columns, device=there.device)
    seen = (torch.arange(columns, device=there.device)[None] <= column[:, None])[None] & there.bool()[:, None]
    applied = None if edge_bias is None or edge_bias.plain else edge_bias.over(rows, tokens, columns, columns - tokens)
    if applied is not None and applied.blocked is not None:
        seen = seen & ~applied.blocked[:, 0]
    mask = torch.zeros(seen.shape, dtype=dtype, device=there.device).masked_fill(~seen, torch.finfo(dtype).min)[:, None]
    return mask if applied is None else mask + applied.bias.to(dtype)
