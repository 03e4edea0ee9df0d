r"""A forward pass for CPUs over rows of any length at once, without padding.

Tokens of all rows lie one after the other: projections, norms and feed-forward layers are products over [tokens, d],
and only attention looks at rows. The rows' keys and values lie on *shelves* (:class:`~goa_torch.agents.kv.RowCache`) of
rows of similar length, so that short rows read no columns of long ones. Attention is two matrix products, as in
:mod:`goa_torch.agents.grouped_attention`, in pieces that the processor's cache holds; a query sees no column right of
it, so those are not computed either.

Weights stay where transformers put them. Architectures are the Llama family: Llama, Mistral, Qwen2 and Qwen3 without
sliding windows; what a model's own ``forward`` says is compared once, and a model that disagrees is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from . import grouped_attention
from .kv import Layout, RowCache

_FAMILY = {"llama", "mistral", "qwen2", "qwen3"}
#: Ways of scaling rotary positions that do not depend on how long the longest row is.
_ROPE = {"default", "linear", "llama3", "yarn"}
#: Fewest parameters: in a smaller model attention row by row costs more than padding does.
PARAMETERS = 2**24
#: Most scores of attention held at once while prompts are read.
SCORES = 2**20
#: By how much of the largest logit the two ways of computing them may differ.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@dataclass(slots=True)
class Piece:
    """Tokens of a forward pass: the last ``queries`` tokens of each of the ``rows`` of ``shelf``, row after row.

    One row is read, with any number of queries, or several go on: with one query each, or, where ``stops`` are given,
    with several.

    Attributes:
        stops: the column after the last query of each row, if rows do not end together.
    """

    shelf: RowCache
    rows: slice
    queries: int
    stops: Sequence[int] | None = None

    @property
    def is_read(self) -> bool:
        return self.queries > 1 and self.stops is None

    @property
    def columns(self) -> Tensor:
        """The column of each query, [rows, queries]."""
        count = self.rows.stop - self.rows.start
        stops = torch.tensor([self.shelf.end] * count if self.stops is None else self.stops)
        return stops[:, None] + torch.arange(-self.queries, 0)

    @property
    def tokens(self) -> int:
        return (self.rows.stop - self.rows.start) * self.queries


class RaggedModel:
    """The forward pass of a causal LM of the Llama family. Built by :meth:`of`.

    Args:
        model: a Hugging Face model.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        config = model.config.get_text_config()
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.eps = config.rms_norm_eps

    @classmethod
    def of(cls, model: nn.Module, layout: Layout) -> RaggedModel | None:
        """The forward pass of ``model``; ``None`` if it is small, not of the family, not on a CPU, or says something
        else."""
        if not _belongs(model):
            return None
        ragged = cls(model)
        return ragged if ragged._agrees(layout) else None

    def forward(self, ids: Tensor, positions: Tensor, pieces: Sequence[Piece], wanted: Tensor | None) -> Tensor:
        """Logits after the ``wanted`` tokens.

        Args:
            ids, positions: [tokens], those of the ``pieces`` one after the other. Their keys and values are written to
                the shelves, in the columns before ``shelf.end``.
            wanted: places of tokens; all if ``None``.

        Returns:
            [wanted, V].
        """
        inner = self.model.model
        hidden = embedding(ids, inner.embed_tokens.weight)
        cos, sin = (x[0, :, None] for x in inner.rotary_emb(hidden[None], positions[None]))
        masks, places = [_mask(piece, hidden.dtype) for piece in pieces], [_places(piece) for piece in pieces]
        for number, layer in enumerate(inner.layers):
            attention, mlp = layer.self_attn, layer.mlp
            x = self._norm(hidden, layer.input_layernorm)
            query = self._heads(x, attention, "q", cos, sin).mul_(attention.scaling)
            key = self._heads(x, attention, "k", cos, sin)
            value = _project(x, attention.v_proj).view(-1, self.groups, self.size)
            heard = self._attend(number, query, key, value, pieces, masks, places)
            if wanted is not None and layer is inner.layers[-1]:
                hidden, heard = hidden[wanted], heard[wanted]
            hidden = _project(heard, attention.o_proj).add_(hidden)
            x = self._norm(hidden, layer.post_attention_layernorm)
            x = mlp.act_fn(_project(x, mlp.gate_proj)).mul_(_project(x, mlp.up_proj))
            hidden = _project(x, mlp.down_proj).add_(hidden)
        return _project(self._norm(hidden, inner.norm), self.model.get_output_embeddings())

    def _norm(self, x: Tensor, norm: nn.Module) -> Tensor:
        return nn.functional.rms_norm(x, (x.shape[-1],), norm.weight, self.eps)

    def _heads(self, x: Tensor, attention: nn.Module, name: str, cos: Tensor, sin: Tensor) -> Tensor:
        """Queries or keys [tokens, heads, size], turned by their positions."""
        x = _project(x, getattr(attention, f"{name}_proj")).view(len(x), -1, self.size)
        norm = getattr(attention, f"{name}_norm", None)
        if norm is not None:
            x = self._norm(x, norm)
        half = self.size // 2
        turned = x * cos
        turned[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
        turned[..., half:].addcmul_(x[..., :half], sin[..., half:])
        return turned

    # ------------------------------------------------------------------ attention

    def _attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, pieces: Sequence[Piece],
                masks: Sequence[Tensor], places: Sequence[tuple[Any, ...]]) -> Tensor:
        """What every token hears, [tokens, heads * size]; writes keys and values to the shelves."""
        heard, start = torch.empty_like(query), 0
        for piece, mask, place in zip(pieces, masks, places):
            mine = slice(start, start + piece.tokens)
            start = mine.stop
            shelf, end = piece.shelf, piece.shelf.end
            keys, values = shelf.layers[layer].keys[piece.rows], shelf.layers[layer].values[piece.rows]
            if not piece.is_read:
                keys[place], values[place] = key[mine], value[mine]
                heard[mine] = self._go_on(query[mine], keys, values, mask)
                continue
            seen = slice(shelf.begin[piece.rows.start], end)
            keys, values = keys[0, :, seen], values[0, :, seen]
            keys[:, -piece.queries :] = key[mine].transpose(0, 1)
            values[:, -piece.queries :] = value[mine].transpose(0, 1)
            self._read(query[mine], keys, values, mask, heard[mine])
        return heard.view(len(query), -1)

    def _go_on(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """A few queries a row: query [rows * queries, heads, size], keys and values [rows, groups, columns, size], mask
        [rows, 1, queries, 1, columns]. Columns are all those of the shelf: matrix products copy what is not contiguous.
        """
        rows, queries, columns = len(keys), mask.shape[2], keys.shape[2]
        folded = query.view(rows, queries, self.groups, -1, self.size).transpose(1, 2)
        scores = torch.matmul(folded.reshape(rows, self.groups, -1, self.size), keys.transpose(-1, -2))
        scores.view(rows, self.groups, queries, -1, columns).add_(mask)
        said = torch.matmul(scores.softmax(dim=-1), values)
        return said.view(rows, self.groups, queries, -1, self.size).transpose(1, 2).reshape(query.shape)

    def _read(self, query: Tensor, keys: Tensor, values: Tensor, later: Tensor, heard: Tensor) -> None:
        """The queries of one row, [queries, heads, size], at the end of its keys and values [groups, columns, size].
        ``later`` [queries, queries] masks what comes after a query."""
        queries, columns = len(query), keys.shape[1]
        step = max(16, SCORES // (self.heads * columns))
        for first in range(0, queries, step):
            some = slice(first, min(first + step, queries))
            count = some.stop - first
            seen = columns - queries + some.stop
            folded = query[some].view(count, self.groups, -1, self.size).permute(1, 2, 0, 3)
            folded = folded.reshape(self.groups, -1, self.size)
            scores = torch.bmm(folded, keys[:, :seen].transpose(1, 2)).view(self.groups, -1, count, seen)
            scores[..., seen - count :].add_(later[:count, :count])
            said = torch.bmm(scores.softmax(dim=-1).view(self.groups, -1, seen), values[:, :seen])
            heard[some].view(count, self.groups, -1, self.size).copy_(
                said.view(self.groups, -1, count, self.size).permute(2, 0, 1, 3))

    # ------------------------------------------------------------------ whether it is right

    @torch.no_grad()
    def _agrees(self, layout: Layout) -> bool:
        """Whether a row read at once, and the last token of another after its beginning, get the model's logits."""
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        ids = torch.arange(12) * 7919 % vocabulary
        shelf = RowCache(layout, 2, 16)
        shelf.end = 12
        for _ in range(2):
            shelf.place(12, None, 0)
        whole, one = Piece(shelf, slice(0, 1), 12), Piece(shelf, slice(0, 1), 1)
        place = torch.arange(12)
        mine = self.forward(ids, place, [whole], None)
        again = self.forward(ids[-1:], place[-1:], [one], None)
        theirs = self.model(input_ids=ids[None], use_cache=False).logits[0]
        allowed = _TOLERANCE.get(theirs.dtype, 0.0) * float(theirs.abs().max())
        return bool((mine - theirs).abs().max() <= allowed and (again - theirs[-1:]).abs().max() <= allowed)


def _project(x: Tensor, layer: Any) -> Tensor:
    return linear(x, layer.weight, layer.bias)


def _mask(piece: Piece, dtype: torch.dtype) -> Tensor:
    """What is added to the scores of a piece: see :meth:`RaggedModel._go_on` and :meth:`RaggedModel._read`."""
    least = torch.finfo(dtype).min
    if piece.is_read:
        return torch.full((piece.queries, piece.queries), least, dtype=dtype).triu_(1)
    shelf = piece.shelf
    begin, column = torch.tensor(shelf.begin[piece.rows])[:, None, None], torch.arange(shelf.columns)
    hidden = (column < begin) | (column > piece.columns[:, :, None])
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, least)[:, None, :, None]


def _places(piece: Piece) -> tuple[Any, ...]:
    """Where keys and values of rows that go on are written: an index of [rows, groups, columns, size]."""
    if piece.stops is None:
        return slice(None), slice(None), piece.shelf.end - 1
    columns = piece.columns
    row = torch.arange(len(columns))[:, None].expand_as(columns)
    return row.flatten(), slice(None), columns.flatten()


def _belongs(model: nn.Module) -> bool:
    """Whether ``model`` is of the family, with weights that plain products can use, and attends as loaded for CPUs."""
    config = model.config.get_text_config()
    if config.model_type not in _FAMILY or not str(config._attn_implementation).endswith(grouped_attention.NAME):
        return False
    rope = getattr(config, "rope_parameters", None) or {}
    windows = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    slides = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
    if windows or slides or rope.get("rope_type", "default") not in _ROPE:
        return False
    if sum(p.numel() for p in model.parameters()) < PARAMETERS:
        return False
    products = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return all(type(m) is nn.Linear and m.weight.device.type == "cpu" for m in products)
