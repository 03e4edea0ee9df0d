"""The decoding loop: many prompts through one model, as one batch that rows enter and leave.

Rows are prefilled in waves, longest first; what a prompt shares with one seen before is copied instead of computed.
Then all rows advance by one token a step; a finished row leaves at once and a waiting one takes its place. The number
of rows is bounded by tokens and halved when memory runs out: rows put back keep what they generated, and since draws
are named (:mod:`goa_torch.randomness`), going on later changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from accelerate.utils.memory import should_reduce_batch_size
from torch import Tensor

from .edge_attention import enable_edge_weights
from .kv import BLOCK, SPARE_COLUMNS, Layout, PrefixStore, RecordingCache, RowCache
from .ragged import RaggedModel
from .rows import KEPT_BYTES, SCORED_LOGITS, SHARED_TOKENS, Row, draw
from .team import Team

#: Most tokens read in one forward pass without padding: what a CPU's caches hold.
READ_TOKENS = 1024


class Decoder:
    """Runs rows through a causal language model.

    Args:
        model: any Hugging Face causal LM whose layers keep keys and values.
        eos: tokens that end a reply.
        batch_tokens: most tokens (padding and reserve for new ones included) in the buffer of keys and values.
        prefixes: prompts kept for later ones that start the same way; shares nothing by default.
        prefill_tokens: most tokens prefilled in one forward pass.
        on_tokens: called with the number of tokens generated since the last call.

    Attributes:
        layout: what the model keeps for each token.
    """

    def __init__(self, model: torch.nn.Module, eos: Iterable[int], batch_tokens: int,
                 prefixes: PrefixStore | None = None, prefill_tokens: int = 2048,
                 on_tokens: Callable[[int], None] | None = None) -> None:
        self.model = model
        self.eos = frozenset(eos)
        self.batch_tokens = batch_tokens
        self.prefill_tokens = prefill_tokens
        self.on_tokens = on_tokens
        self.prefixes = PrefixStore(0) if prefixes is None else prefixes
        self.device = model.get_input_embeddings().weight.device
        self._accepts = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in self._accepts else "past_key_values"
        self._pad = min(self.eos, default=0)
        self._buffers: list[Tensor] = []
        self.layout = self._record_layout()
        ragged = RaggedModel.of(model, self.layout)
        self._team = ragged and Team(ragged, self.layout, self.eos, self.prefixes, min(prefill_tokens, READ_TOKENS))

    # ------------------------------------------------------------------ what callers use

    @torch.no_grad()
    def run(self, rows: Sequence[Row]) -> None:
        """Generates: fills ``new``, ``log_prob``, ``finish``, ``error`` and ``cached`` of each row."""
        plain, rows = self._divided(rows)
        if plain:
            self._team.run(plain, self.batch_tokens, self.on_tokens)
        self._expect(rows)
        for similar in _by_length(rows):
            self._run(similar)

    @torch.no_grad()
    def score(self, rows: Sequence[Row]) -> None:
        """Fills ``log_prob`` of each row with the log-probability of its last ``tail`` tokens, given those before."""
        plain, rows = self._divided(rows)
        if plain:
            self._team.score(plain, self.batch_tokens)
        self._expect(rows)
        for similar in _by_length(rows):
            logits_a_row = (1 + max(row.tail for row in similar)) * self.model.get_output_embeddings().weight.shape[0]
            waiting, limit = list(similar), max(1, SCORED_LOGITS // logits_a_row)
            while waiting:
                wave: list[Row] = []
                try:
                    wave = self._next_wave(waiting, limit)
                    longest = max(len(row.ids) for row in wave)
                    cache = self._cache(len(wave), longest)
                    cache.end = longest
                    logits = self._prefill(cache, wave)
                    for row, at in zip(wave, logits):
                        row.score(at[-row.tail - 1 : -1])
                    waiting = [row for row in waiting if row.finish is None]
                except RuntimeError as error:
                    limit = self._fewer(error, len(wave))
                    if not limit:
                        wave[0].fail("out of memory")
                        waiting, limit = [row for row in waiting if row.finish is None], 1

    def _divided(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """Rows for the forward pass without padding, where the model has one, and those that need its own."""
        plain = [row for row in rows if self._team is not None and row.edges is None]
        chosen = set(map(id, plain))
        return plain, [row for row in rows if id(row) not in chosen]

    def _expect(self, rows: Sequence[Row]) -> None:
        if any(row.edges is not None for row in rows):
            enable_edge_weights(self.model)
        if self.prefixes.budget:
            for row in rows:
                row.keys = self.prefixes.block_keys(row.marked)
            self.prefixes.expect(row.keys for row in rows)

    # ------------------------------------------------------------------ the loop

    def _run(self, rows: list[Row]) -> None:
        """Rows of similar length, longest first."""
        columns = max(row.need for row in rows) + SPARE_COLUMNS
        limit = max(1, min(len(rows), self.batch_tokens // columns))
        waiting, active, cache = list(rows), [], None
        while waiting or active:
            try:
                if cache is None:
                    cache = self._cache(limit, columns)
                if waiting and (not active or limit - len(active) >= max(1, limit // 4)):
                    self._admit(cache, waiting, active, limit)
                if active:
                    self._step(cache, active)
            except RuntimeError as error:
                tried, limit = limit, self._fewer(error, limit)
                waiting, active, cache = [*active, *waiting], [], None
                waiting.sort(key=lambda row: -len(row.known))
                if not limit:
                    waiting.pop(0).fail(f"out of memory with {tried} row of {columns} tokens")
                    limit = 1

    def _cache(self, rows: int, columns: int) -> RowCache:
        """An empty cache. Small ones leave their memory to the next: clearing it anew would take a tenth of the time of
        a small model."""
        cache = RowCache(self.layout, rows, columns, self._buffers)
        self._buffers = cache.buffers if sum(b.nbytes for b in cache.buffers) <= KEPT_BYTES else []
        return cache

    def _fewer(self, error: RuntimeError, limit: int) -> int:
        """Half of ``limit`` if ``error`` says that memory ran out; other errors are raised again."""
        if not should_reduce_batch_size(error):
            raise error
        self.prefixes.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return limit // 2

    def _admit(self, cache: RowCache, waiting: list[Row], active: list[Row], limit: int) -> None:
        """Prefills waiting rows into the free places of ``cache``."""
        while waiting and len(active) < limit:
            wave = self._next_wave(waiting, limit - len(active))
            longest = max(len(row.known) for row in wave)
            if not active or longest > cache.end:
                cache.realign(max(longest, *(cache.end - begin for begin in cache.begin), 0))
            logits = self._prefill(cache, wave)[:, -1]
            chosen = set(map(id, wave))
            waiting[:] = [row for row in waiting if id(row) not in chosen]
            active += wave
            self._advance(cache, active, logits, range(len(active) - len(wave), len(active)))

    def _next_wave(self, waiting: Sequence[Row], most: int) -> list[Row]:
        """Rows to prefill together: alike in how much there is to compute, and none that could reuse another's prefill.

        Those wait for the next wave, which finds the shared beginning among the prefixes.
        """
        wave: list[Row] = []
        coming: set[int] = set()
        smallest = largest = 0
        for row in waiting:
            if len(wave) == most or largest * (len(wave) + 1) > self.prefill_tokens:
                break
            known = self.prefixes.match([*row.marked, *row.new], row.keys)[1]
            shared = BLOCK * sum(1 for key in row.keys if key in coming)
            if shared >= known + SHARED_TOKENS:
                continue
            compute = max(len(row.known) - known, row.tail + 1)
            least, most_compute = min(smallest or compute, compute), max(largest, compute)
            if wave and (most_compute * (len(wave) + 1) > self.prefill_tokens or 2 * least < most_compute - 32):
                continue
            wave.append(row)
            smallest, largest = least, most_compute
            if len(row.ids) <= self.prefixes.budget:
                coming.update(row.keys)
        return wave

    def _prefill(self, cache: RowCache, wave: list[Row]) -> Tensor:
        """Adds ``wave`` to ``cache``; logits of the last tokens, [rows, as many as any row scores (at least 1), V].

        All rows compute the same number of tokens, those at their end; what lies before is taken from the prefixes.
        """
        keep = 1 + max(row.tail for row in wave)
        matches = [self.prefixes.match([*row.marked, *row.new], row.keys) for row in wave]
        compute = max(max(len(row.known) - known, row.tail + 1) for row, (_, known) in zip(wave, matches))
        start = len(cache.begin)
        ids = torch.full((len(wave), compute), self._pad)
        for i, (row, (tensors, _)) in enumerate(zip(wave, matches)):
            tokens = row.known
            reused = max(0, len(tokens) - compute)
            cache.place(len(tokens), tensors, reused, row.edges)
            computed = tokens[reused:]
            ids[i, compute - len(computed) :] = torch.tensor(computed)
            if not row.new:
                row.cached = reused
        cache.look_at(slice(start, start + len(wave)), compute, cache.end)
        logits = self._forward(cache, ids, keep)
        for i, row in enumerate(wave):
            if row.keys and not row.new:
                self.prefixes.put(row.marked, row.keys, partial(cache.snapshot, start + i))
        return logits

    def _step(self, cache: RowCache, active: list[Row]) -> None:
        """One more token for each active row."""
        if cache.end == cache.columns:
            cache.realign(cache.end - cache.first)
        cache.end += 1
        cache.look_at(slice(0, len(active)), 1, cache.end)
        last = torch.tensor([[row.new[-1]] for row in active])
        logits = self._forward(cache, last, 1)[:, -1]
        self._advance(cache, active, logits, range(len(active)))

    def _advance(self, cache: RowCache, active: list[Row], logits: Tensor, numbers: Sequence[int]) -> None:
        """Draws the next token of the rows ``numbers`` of ``active`` from ``logits``; finished rows leave."""
        rows = [active[number] for number in numbers]
        draw(rows, logits, self.eos)
        for number in reversed(numbers):
            if active[number].finish is not None:
                cache.drop(number)
                active[number] = active[-1]
                active.pop()
        if self.on_tokens is not None:
            self.on_tokens(len(rows))

    def _forward(self, cache: RowCache, ids: Tensor, keep: int) -> Tensor:
        """Logits [rows, keep, V] of the last ``keep`` tokens of ``ids``, which are written where ``cache`` looks."""
        # Positions instead of their number: a slice of the hidden states is not contiguous, and its product with the
        # output embedding would copy that matrix for every row.
        kept = torch.arange(ids.shape[1] - keep, ids.shape[1], device=self.device)
        arguments = {
            "input_ids": ids.to(self.device), "attention_mask": cache.mask().long().to(self.device),
            "position_ids": cache.positions().to(self.device), self._cache_argument: cache, "use_cache": True,
            "logits_to_keep": kept, "return_dict": True,
        }
        bias = cache.edge_bias(self.device)
        if bias is not None:
            return self.model(edge_bias=bias, **{k: v for k, v in arguments.items() if k in self._accepts}
                              ).logits[:, -keep:]
        return self.model(**{k: v for k, v in arguments.items() if k in self._accepts}).logits[:, -keep:]

    @torch.no_grad()
    def _record_layout(self) -> Layout:
        cache = RecordingCache()
        one = torch.full((1, 1), self._pad, device=self.device)
        self.model(**{"input_ids": one, self._cache_argument: cache, "use_cache": True})
        return cache.layout()


def _by_length(rows: Sequence[Row]) -> list[list[Row]]:
    """Longest first, cut where a row needs less than half of the columns of the longest one beside it."""
    groups: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: -row.need):
        if not groups or 2 * row.need < groups[-1][0].need:
            groups.append([])
        groups[-1].append(row)
    return [sorted(group, key=lambda row: -len(row.ids)) for group in groups]
