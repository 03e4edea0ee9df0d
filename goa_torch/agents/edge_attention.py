r"""Edge-weighted attention: how loudly a message is heard, inside the forward pass of any Hugging Face causal LM.

A weight :math:`w \ge 0` of a message enters the attention scores of every key position j that belongs to it,

.. math:: s_{ij} = \frac{q_i \cdot k_j}{\sqrt d} + g_{lh} \log w_{m(j)},

in every layer l and head h (the gate :math:`g_{lh}` is 1 unless given). Weight 1 is the model as it is, weight 0 a
message that is not there, and the model's likelihood has a gradient in w. Model files are not touched: the bias travels
as the argument ``edge_bias`` of ``forward``, or in a scope (:func:`edge_weighted`) around ``generate``, which rejects
unknown arguments.

Prior art: DebUnc (arXiv 2407.06426) scales attention to peers by given confidences and keeps the messages' total mass,
InstABoost (2506.13734) adds a constant to an instruction's scores, CrAM (2406.11497) scales by document credibility.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import UserError
from . import grouped_attention as grouped

#: Weights below it are heard as this much; its logarithm is finite, and so is the gradient at 0.
EPS = 1e-12
Normalise = Literal["mass", "share"]

_PREFIX, _HOOK = "edge_weighted_", "_edge_weights_hook"
#: Attention functions that add a mask to their scores.
_INNER = ("sdpa", "eager", grouped.NAME)
_scope: ContextVar[dict[int, EdgeBias]] = ContextVar("edge_bias", default={})  # noqa: B039 (never changed in place)


def log_weight(weight: Tensor, eps: float = EPS) -> Tensor:
    r"""Forward :math:`\log \max(w, \epsilon)`, backward :math:`g / \max(w, \epsilon)`: finite and right from one side
    at w = 0, where a plain logarithm gives NaN; exactly 0 at w = 1."""
    bounded = weight.detach().float().clamp_min(eps)  # in half precision the bound would be 0
    return bounded.log() + (weight - weight.detach()) / bounded


@dataclass(eq=False)
class EdgeBias:
    """What one forward pass (or one ``generate``) adds to its attention scores.

    Attributes:
        log_weight: [rows, columns] added to the scores of each key column; 0 for what is no message. Columns beyond
            (new tokens) have bias 0. Left padding counts as columns.
        start: [rows] scope *receiver*: only queries from this column on hear the weights, so that keys and values of
            the messages do not depend on them; ``None``: all queries do.
        message: [rows, columns] number of the message each column belongs to, -1 for none. Needed by ``parallel`` and
            ``normalise``.
        parallel: tokens of a message see it and what stands before the first message, nothing else (give the tokens
            :func:`~goa_torch.nn.attention.parallel_positions`).
        gate: [layers] or [layers, heads], multiplies the bias.
        normalise: ``mass`` keeps the messages' total attention as it was, query by query (DebUnc); ``share`` makes a
            weight the share of attention that the message gets (the weights of a row sum to less than 1).
    """

    log_weight: Tensor
    start: Tensor | None = None
    message: Tensor | None = None
    parallel: bool = False
    gate: Tensor | None = None
    normalise: Normalise | None = None
    _plain: bool | None = field(default=None, repr=False)
    _checked: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        held = self.log_weight
        if not isinstance(held, Tensor) or held.dim() != 2 or not held.is_floating_point() or not len(held):
            raise UserError("edge_bias: log_weight must be a tensor [rows, columns] of floating-point numbers; "
                            "message_bias() makes one of weights")
        if self.normalise not in (None, "mass", "share"):
            raise UserError(f"edge_bias: normalise = {self.normalise!r}; choose one of mass, share, or None")
        message, start = self.message, self.start
        if message is None and (self.parallel or self.normalise):
            who = "parallel messages need" if self.parallel else "normalise needs"
            raise UserError(f"edge_bias: {who} to know which column is whose; give message")
        if message is not None and (not isinstance(message, Tensor) or message.shape != held.shape
                                    or message.is_floating_point() or message.dtype == torch.bool):
            raise UserError("edge_bias: message must be whole numbers of the shape of log_weight, "
                            f"{list(held.shape)}")
        if start is not None and (not isinstance(start, Tensor) or start.shape != held.shape[:1]
                                  or start.is_floating_point()):
            raise UserError(f"edge_bias: start must be a tensor of {len(held)} whole numbers, one for each row")
        gate = self.gate
        if gate is not None and (not isinstance(gate, Tensor) or gate.dim() not in (1, 2)
                                 or not bool(gate.detach().isfinite().all())):
            raise UserError("edge_bias: gate must be a finite tensor [layers] or [layers, heads]")

    def check(self, rows: int, columns: int | None) -> None:
        """Raises :class:`UserError` unless this fits a batch of ``rows`` x ``columns`` tokens (``None``: more may come,
        as when a prompt is read in pieces)."""
        held, width = self.log_weight.shape
        if rows % held:
            raise UserError(f"edge_bias has {held} rows, the batch {rows}; give one row of weights for each prompt")
        if columns is not None and width > columns:
            raise UserError(f"edge_bias has {width} columns, the batch {columns}; give one for each token of the "
                            "prompts, padding on the left included")
        if not self._checked:
            if not bool(self.log_weight.detach().isfinite().all()):
                raise UserError("edge_bias: log_weight is not finite everywhere; message_bias() makes one of weights, "
                                "0 included")
            self._checked = True

    @property
    def plain(self) -> bool:
        """Whether the model is left as it is, and no gradient is wanted."""
        if self._plain is None:
            inert = not self.log_weight.requires_grad and not self.parallel and self.normalise is None
            self._plain = inert and not bool(self.log_weight.any())
        return self._plain

    def over(self, rows: int, queries: int, columns: int, first: int | Tensor) -> Applied:
        """The bias of a forward pass of ``rows`` x ``queries`` tokens, whose first one is column ``first`` of
        ``columns``."""
        held = self.log_weight.shape[0]

        def fitted(values: Tensor, blank: float = 0) -> Tensor:
            if held != rows:  # several continuations of a prompt
                values = values.repeat_interleave(rows // held, dim=0)
            missing = columns - values.shape[1]
            return nn.functional.pad(values, (0, missing), value=blank) if missing > 0 else values[:, :columns]

        weights, start = fitted(self.log_weight), self.start
        column = torch.arange(queries, device=weights.device) + first
        bias, heard = weights[:, None, None, :], None  # [rows, 1, queries or 1, columns]
        if start is not None:
            start = start if held == rows else start.repeat_interleave(rows // held)
            heard = (column[None] >= start[:, None])[:, None, :, None]  # [rows, 1, queries, 1]
            bias = torch.where(heard, bias, bias.new_zeros(()))
        message = None if self.message is None else fitted(self.message, -1)
        blocked = None
        if self.parallel:
            mine = message[:, column.clamp_max(columns - 1)]  # [rows, queries]
            begun = (message >= 0).cumsum(1) > 0  # [rows, columns] what a message sees of this is itself alone
            blocked = ((mine[:, :, None] >= 0) & begun[:, None] & (mine[:, :, None] != message[:, None]))[:, None]
        return Applied(bias, column, blocked, self.gate, self.normalise, message, heard)


@dataclass(eq=False)
class Applied:
    """An :class:`EdgeBias` laid out for one forward pass; what attention functions get."""

    bias: Tensor
    column: Tensor
    blocked: Tensor | None = None
    gate: Tensor | None = None
    normalise: Normalise | None = None
    message: Tensor | None = None
    heard: Tensor | None = None
    seen: set[int] | None = None

    def attend(self, inner: Callable, module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
               mask: Tensor | None, **options: Any) -> Any:
        """``inner``, an attention function, with the bias in its mask."""
        if self.seen is not None:
            self.seen.add(module.layer_idx)
        mask = self._float_mask(mask, query, key)
        if self.normalise is not None:
            return self._normalised(module, query, key, value, mask, **options)
        bias = self.bias
        if self.gate is not None:
            gate = self.gate[module.layer_idx]
            bias = bias * (gate.view(1, -1, 1, 1) if gate.dim() else gate)
        return inner(module, query, key, value, mask + bias.to(query), **options)

    def _float_mask(self, mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
        """``mask`` as what is added to the scores: 0, or the smallest number where a query does not look."""
        lowest = torch.finfo(query.dtype).min
        columns = key.shape[2]
        if mask is None:  # plainly causal
            seen = torch.arange(columns, device=query.device)[None] <= self.column.to(query.device)[:, None]
            mask = seen[None, None]
        if mask.dtype == torch.bool:
            mask = torch.zeros(mask.shape, dtype=query.dtype, device=query.device).masked_fill(~mask, lowest)
        mask = mask[..., :columns]
        return mask if self.blocked is None else mask.masked_fill(self.blocked.to(mask.device), lowest)

    def _normalised(self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor,
                    scaling: float | None = None, **options: Any) -> tuple[Tensor, Tensor]:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        p = (scores + mask).float().softmax(dim=-1)  # [rows, heads, queries, columns]
        weight = self.bias.float().exp()
        mine = (self.message >= 0).to(p)[:, None, None]  # [rows, 1, 1, columns]
        if self.normalise == "mass":
            loud = p * torch.where(mine > 0, weight, weight.new_zeros(()))
            kept = (p * mine).sum(-1, keepdim=True) / loud.sum(-1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
            new = p * (1 - mine) + loud * kept
        else:
            number = torch.arange(int(self.message.max()) + 1, device=p.device)
            member = (self.message[:, None] == number[:, None]).to(p)[:, None]  # [rows, 1, messages, columns]
            mass = p @ member.transpose(-1, -2)  # [rows, heads, queries, messages]
            count = member.sum(-1).clamp_min(1)[:, :, None]
            wanted = ((weight * mine) @ member.transpose(-1, -2) / count).expand_as(mass)
            wanted = wanted * (mass > 0)
            tiny = torch.finfo(p.dtype).tiny
            rest = (1 - wanted.sum(-1, keepdim=True)) / (1 - mass.sum(-1, keepdim=True)).clamp_min(tiny)
            new = p * (1 - mine) * rest + p * ((wanted / mass.clamp_min(tiny)) @ member)
        if self.heard is not None:
            new = torch.where(self.heard, new, p)
        new = new.to(query.dtype)
        return (new @ value).transpose(1, 2).contiguous(), new


# --------------------------------------------------------------------------- models


def enable_edge_weights(model: nn.Module) -> nn.Module:
    """Teaches a Hugging Face causal LM the argument ``edge_bias`` (an :class:`EdgeBias`); returns the model.

    Its attention stays the one it has (sdpa, eager, or this package's own for CPUs); without a bias it does what it
    did. Doing so twice changes nothing. (A model that was not taught takes ``edge_bias`` and says and does nothing.)

    Raises:
        UserError: for a model that cannot: one without transformers' attention interface, with another kind of
            attention, with sliding windows or learned sinks.
    """
    if edge_weights_enabled(model):
        return model
    from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask
    from transformers.modeling_utils import AttentionInterface

    name = type(model).__name__
    inner = getattr(getattr(model, "config", None), "_attn_implementation", None)
    _check_kind(model, name, inner)
    if inner == grouped.NAME:
        grouped.register()
    AttentionInterface.register(_PREFIX + inner, _attention(inner))
    AttentionMaskInterface.register(_PREFIX + inner, sdpa_mask if inner == "sdpa" else eager_mask)
    model.set_attn_implementation(_PREFIX + inner)
    if (before := getattr(model, _HOOK, None)) is not None:  # taught once, then given another attention
        before.remove()
    handle = model.register_forward_pre_hook(_apply, with_kwargs=True)
    setattr(model, _HOOK, handle)
    try:
        _probe(model, name)
    except UserError:
        handle.remove()
        delattr(model, _HOOK)
        model.set_attn_implementation(inner)
        raise
    return model


def edge_weights_enabled(model: nn.Module) -> bool:
    """Whether :func:`enable_edge_weights` was here."""
    return str(getattr(getattr(model, "config", None), "_attn_implementation", "")).startswith(_PREFIX)


@contextmanager
def edge_weighted(model: nn.Module, bias: EdgeBias) -> Iterator[nn.Module]:
    """Within the scope every forward pass of ``model`` in this thread hears ``bias``: for ``generate``. (Not for
    training with gradient checkpointing, where the scope is left before the backward pass: give ``edge_bias``.)"""
    enable_edge_weights(model)
    token = _scope.set({**_scope.get(), id(model): bias})
    try:
        yield model
    finally:
        _scope.reset(token)


def _apply(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]] | None:
    """Before a forward pass: lays the bias out over its tokens."""
    bias = kwargs.get("edge_bias")
    bias = _scope.get().get(id(model)) if bias is None else bias
    if bias is None:
        kwargs.pop("edge_bias", None)
        return args, kwargs
    if not isinstance(bias, EdgeBias):
        raise UserError(f"edge_bias must be an EdgeBias, not a {type(bias).__name__}; message_bias() makes one of "
                        "weights")
    given = kwargs.get("input_ids", args[0] if args else None)
    given = kwargs["inputs_embeds"] if given is None else given
    rows, queries = given.shape[:2]
    cache = kwargs.get("cache")
    cache = kwargs.get("past_key_values") if cache is None else cache
    first, columns = 0, queries
    if cache is not None:
        first, columns = cache.get_query_offset(0), cache.get_mask_sizes(queries, 0)[0]
    if not edge_weights_enabled(model):
        raise UserError(f"edge weights: {type(model).__name__} was given another attention since; call "
                        "enable_edge_weights() again")
    bias.check(rows, columns if cache is None else None)
    gate, config = bias.gate, model.config.get_text_config()
    if gate is not None and gate.shape not in ((config.num_hidden_layers,),
                                               (config.num_hidden_layers, config.num_attention_heads)):
        raise UserError(f"edge_bias: gate is {list(gate.shape)}, but there are {config.num_hidden_layers} layers of "
                        f"{config.num_attention_heads} heads")
    if bias.plain:
        kwargs.pop("edge_bias", None)
        return args, kwargs
    if bias.log_weight.requires_grad and torch.is_grad_enabled() and _recomputes_apart(model):
        raise UserError("edge weights: reentrant gradient checkpointing loses the gradient of weights; use "
                        "gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': False})")
    applied = bias.over(rows, queries, columns, first)
    applied.seen = getattr(bias, "seen", None)
    return args, {**kwargs, "edge_bias": applied}


def _recomputes_apart(model: nn.Module) -> bool:
    """Whether layers are checkpointed in the way that knows no tensors but those handed to them."""
    checkpoints = [getattr(module, "_gradient_checkpointing_func", None) for module in model.modules()
                   if module.training and getattr(module, "gradient_checkpointing", False)]
    return any(getattr(how, "keywords", {}).get("use_reentrant", True) for how in checkpoints if how is not None)


def _attention(inner: str) -> Callable:
    """The attention function ``inner``, with ``edge_bias``."""

    def edge_weighted_attention(module: nn.Module, query: Tensor, key: Tensor, value: Tensor,
                                attention_mask: Tensor | None, edge_bias: Applied | None = None, **options: Any) -> Any:
        if inner == "eager":
            function = sys.modules[type(module).__module__].eager_attention_forward
        else:
            from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

            function = ALL_ATTENTION_FUNCTIONS[inner]
        if edge_bias is None:
            return function(module, query, key, value, attention_mask, **options)
        if not isinstance(edge_bias, Applied):
            raise UserError("edge weights: call the model that enable_edge_weights() was given, not a part or a copy "
                            "of it")
        return edge_bias.attend(function, module, query, key, value, attention_mask, **options)

    return edge_weighted_attention


def _check_kind(model: nn.Module, name: str, inner: str | None) -> None:
    if not hasattr(model, "set_attn_implementation") or inner is None:
        raise UserError(f"edge weights: {name} is no Hugging Face model with an attention implementation")
    if inner not in _INNER:
        raise UserError(f"edge weights: {name} computes attention with {inner!r}, which takes no additive mask; load "
                        "it with attn_implementation='sdpa' or 'eager'")
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    slides = getattr(config, "sliding_window", None) is not None and not getattr(config, "layer_types", None)
    if kinds or (slides and getattr(config, "use_sliding_window", True)):
        raise UserError(f"edge weights: {name} has {', '.join(sorted(kinds)) or 'a sliding window'}, in which messages "
                        "drop out of sight whatever their weight; take a model with full attention in every layer")
    if any(path.rsplit(".", 1)[-1] == "sinks" for path, _ in model.named_parameters()):
        raise UserError(f"edge weights: {name} has learned attention sinks, which take attention from messages "
                        "whatever their weight; take a model without")


def _probe(model: nn.Module, name: str) -> None:
    """Two tokens through the model: does the bias arrive in every layer?"""
    bias = EdgeBias(torch.full((1, 2), -1.0, device=model.get_input_embeddings().weight.device))
    bias.seen = set()  # type: ignore[attr-defined]
    ids = torch.zeros(1, 2, dtype=torch.long, device=bias.log_weight.device)
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(input_ids=ids, edge_bias=bias, use_cache=False)
    except TypeError as error:
        raise UserError(f"edge weights: {name} does not hand arguments on to its attention ({error})") from error
    finally:
        model.train(training)
    layers = model.config.get_text_config().num_hidden_layers
    if len(bias.seen) != layers:
        raise UserError(f"edge weights: {name} asks transformers' attention interface in {len(bias.seen)} of its "
                        f"{layers} layers; take a model that uses it in all (Llama, Qwen, Mistral, SmolLM, ...)")
