"""Keys and values of the rows in flight, and those of prompts seen before.

:class:`RowCache` is the cache handed to the model: one preallocated buffer in which *all rows end at the same column*.
Rows of any length sit side by side (left padding), a new row is prefilled straight into its place at the right end
while others are half-way through, and a finished row leaves by one copy: the last row moves into its place.
:class:`PrefixStore` keeps prompts' keys and values for later prompts that start the same way.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from .edge_attention import EdgeBias
from .edge_rows import EdgeColumns, RowEdges

#: Columns beyond what the longest row needs, so that rows move sideways rarely.
SPARE_COLUMNS = 32

#: (heads, head size, dtype, device) of one layer's keys or values.
Channel = tuple[int, int, torch.dtype, torch.device]


@dataclass(frozen=True)
class Layout:
    """What a model's layers keep for each token: ``channels[2 * layer]`` are keys, ``channels[2 * layer + 1]``
    values."""

    channels: tuple[Channel, ...]

    @classmethod
    def of(cls, recorded: Sequence[tuple[Tensor, Tensor]]) -> Layout:
        return cls(tuple((t.shape[1], t.shape[3], t.dtype, t.device) for pair in recorded for t in pair))

    @property
    def bytes_per_token(self) -> int:
        return sum(heads * size * dtype.itemsize for heads, size, dtype, _ in self.channels)

    def slabs(self) -> list[tuple[Channel, list[int]]]:
        """Channels of the same kind, which live in one tensor; usually there is one kind."""
        kinds: dict[Channel, list[int]] = {}
        for number, channel in enumerate(self.channels):
            kinds.setdefault(channel, []).append(number)
        return list(kinds.items())


class _Recorder(CacheLayerMixin):
    """A layer that keeps what one forward pass hands it: how :func:`record_layout` learns shapes."""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values, self.is_initialized = key_states, value_states, True

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        self.lazy_initialization(key_states, value_states)
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1


class RecordingCache(Cache):
    """A cache for one forward pass of one token, after which :meth:`layout` knows what the model keeps."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_Recorder)

    def layout(self) -> Layout:
        if not self.layers or not all(layer.is_initialized for layer in self.layers):
            raise ValueError("the model does not keep keys and values in every layer")
        return Layout.of([(layer.keys, layer.values) for layer in self.layers])


@dataclass(slots=True)
class Window:
    """Where a forward pass looks: ``rows``; keys in the columns ``first`` to ``stop``; its tokens are those of the
    columns ``start`` to ``end``. What lies right of ``end`` is masked, and finite."""

    rows: slice
    first: int
    start: int
    end: int
    stop: int


class _Layer(CacheLayerMixin):
    """One layer of :class:`RowCache`: reads and writes where its window is."""

    is_sliding = False  # whole rows are kept; a sliding window is the mask's business

    def __init__(self, window: Window, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        # Not the RowCache itself: that would be a cycle, and its hundreds of megabytes would wait for the collector.
        self.window, self.keys, self.values, self.is_initialized = window, keys, values, True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        pass

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        window = self.window
        new, seen = slice(window.start, window.end), slice(window.first, window.stop)
        self.keys[window.rows, :, new] = key_states
        self.values[window.rows, :, new] = value_states
        return self.keys[window.rows, :, seen], self.values[window.rows, :, seen]

    def get_seq_length(self) -> int:
        return self.window.start - self.window.first

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.window.stop - self.window.first, 0

    def get_max_length(self) -> int:
        return -1


class RowCache(Cache):
    """Keys and values of up to ``rows`` sequences in ``columns`` columns.

    Attributes:
        columns: how many there are now: at first as many as there is memory for, see :meth:`widen`.
        most: as many as there is memory for.
        end: the column after the last token of every row.
        begin: for each row in use, the column of its first token; what lies left of it is masked, and finite.
        window: where the forward pass under way looks.
        buffers: the memory, which a later cache of the same layout can take over.
    """

    def __init__(self, layout: Layout, rows: int, columns: int, buffers: Sequence[Tensor] = ()) -> None:
        self.rows, self.columns, self.most = rows, columns, columns
        self._layout = layout
        self.on_cpu = all(device.type == "cpu" for _, _, _, device in layout.channels)
        self.end = 0
        self.begin: list[int] = []
        self.window = Window(slice(0, 0), 0, 0, 0, 0)
        self.edges = EdgeColumns(columns)
        # Zeros or what an earlier cache left: what is masked is still multiplied by its weight 0, so it is finite.
        self.buffers = []
        for i, ((heads, size, dtype, device), numbers) in enumerate(layout.slabs()):
            count = len(numbers) * rows * heads * columns * size
            enough = i < len(buffers) and buffers[i].numel() >= count
            self.buffers.append(buffers[i] if enough else torch.zeros(count, dtype=dtype, device=device))
        self._slabs = self._laid_out()
        place = self._by_layer()
        super().__init__(layers=[_Layer(self.window, place[i], place[i + 1]) for i in range(0, len(place), 2)])

    def _laid_out(self) -> list[Tensor]:
        """Each buffer as [channels, rows, heads, columns, size], from its beginning on."""
        slabs = []
        for buffer, ((heads, size, _, _), numbers) in zip(self.buffers, self._layout.slabs()):
            shape = (len(numbers), self.rows, heads, self.columns, size)
            slabs.append(buffer[: math.prod(shape)].view(shape))
        return slabs

    def _by_layer(self) -> dict[int, Tensor]:
        return {number: slab[i] for slab, (_, numbers) in zip(self._slabs, self._layout.slabs())
                for i, number in enumerate(numbers)}

    def widen(self, columns: int) -> None:
        """Makes room for ``columns`` columns, or as many as there is memory for. A cache that is empty can get narrower
        too: a forward pass of one token a row reads all columns, so that those nobody needs yet cost time."""
        before, used = self._slabs, slice(0, len(self.begin))
        columns = min(columns, self.most)
        if columns == self.columns or (self.begin and columns < self.columns):
            return
        self.columns = columns
        self._slabs = self._laid_out()
        for old, new in zip(before, self._slabs) if self.begin else ():
            for channel in reversed(range(len(old))):  # from the end: nothing lands on what has not been moved
                new[channel, used, :, : self.end] = old[channel, used, :, : self.end].clone()
                new[channel, used, :, self.end :] = 0
        place = self._by_layer()
        for number, layer in enumerate(self.layers):
            layer.keys, layer.values = place[2 * number], place[2 * number + 1]

    @property
    def first(self) -> int:
        """The first column any row uses."""
        return min(self.begin, default=self.end)

    def look_at(self, rows: slice, queries: int, end: int) -> None:
        """Points the next forward pass at ``rows``: its ``queries`` tokens are those just before column ``end``.

        With one query a row, on a CPU, the window is all columns: matrix products there copy what is not contiguous,
        and the copy costs more than the columns that are not needed. (Not for a lone first token, for which
        transformers takes columns right of it for those of a static cache and leaves the mask out.)
        """
        whole = queries == 1 and end > 1 and self.on_cpu
        window = self.window
        window.rows, window.start, window.end = rows, end - queries, end
        window.first = 0 if whole else min(min(self.begin[rows]), end - queries)
        window.stop = self.columns if whole else end

    def mask(self) -> Tensor:
        """Which key columns of the window hold a token, [rows, columns] (bool)."""
        window = self.window
        begin, column = torch.tensor(self.begin[window.rows])[:, None], torch.arange(window.first, window.stop)[None]
        return (column >= begin) & (column < window.end)

    def positions(self) -> Tensor:
        """Positions of the window's queries within their rows, [rows, queries]; 0 for padding."""
        window = self.window
        told = self.edges.positions(self.begin, window.rows, window.start, window.end)
        if told is not None:
            return told
        begin = torch.tensor(self.begin[window.rows])
        return (torch.arange(window.start, window.end)[None] - begin[:, None]).clamp_min_(0)

    def edge_bias(self, device: torch.device) -> EdgeBias | None:
        """How loudly the window's rows hear their messages, ``None`` if all of them are plain text."""
        window = self.window
        return self.edges.bias(self.begin, window.rows, window.first, window.stop, device)

    def place(self, length: int, prefix: list[Tensor] | None, known: int, edges: RowEdges | None = None) -> None:
        """Adds a row of ``length`` tokens that ends at :attr:`end`, its first ``known`` tokens taken from
        ``prefix``; ``edges`` say how loudly it hears the messages among them."""
        self.edges.place(edges)
        row, begin = len(self.begin), self.end - length
        for number, slab in enumerate(self._slabs):
            slab[:, row, :, :begin] = 0
            slab[:, row, :, self.end :] = 0
            if known:
                slab[:, row, :, begin : begin + known] = prefix[number][:, :, :known]
        self.begin.append(begin)

    def snapshot(self, row: int, length: int) -> list[Tensor]:
        """A copy of the first ``length`` tokens of a row, one [channels, heads, length, size] for each kind of
        channel."""
        begin = self.begin[row]
        return [slab[:, row, :, begin : begin + length].clone() for slab in self._slabs]

    def drop(self, row: int) -> None:
        """Removes a row; the last one takes its place."""
        self.edges.drop(row)
        last = len(self.begin) - 1
        if row != last:
            for slab in self._slabs:
                slab[:, row, :, : self.end] = slab[:, last, :, : self.end]
            self.begin[row] = self.begin[last]
        self.begin.pop()

    def extend(self) -> None:
        """Makes room for one more column at the end: what was left free at the beginning, more columns, or both."""
        if self.end == self.columns:
            if self.first < SPARE_COLUMNS:
                self.widen(self.columns + SPARE_COLUMNS)
            if self.end == self.columns:
                self.realign(self.end - self.first)
        self.end += 1

    def realign(self, end: int) -> None:
        """Moves all rows sideways so that they end at column ``end``."""
        by, first, used = end - self.end, self.first, slice(0, len(self.begin))
        if by and self.begin:
            for slab in self._slabs:
                for channel in slab:  # one at a time: the copy stays small
                    channel[used, :, first + by : end] = channel[used, :, first : self.end].clone()
                    channel[used, :, : max(first + by, 0)] = 0
        self.begin = [begin + by for begin in self.begin]
        self.end = end


#: Prompts are compared block by block.
BLOCK = 16


@dataclass
class _Entry:
    ids: list[Hashable]
    tensors: list[Tensor]
    keys: list[int]


class PrefixStore:
    """Keys and values of prompts by their tokens, least recently used out first.

    Only what two prompts have in common is worth keeping: of a prompt, the store keeps the beginning that at least two
    of the prompts it was told of share (:meth:`expect`).

    Args:
        budget: most tokens kept.
    """

    #: Most beginnings remembered; after that counting starts anew.
    REMEMBERED = 1 << 20

    def __init__(self, budget: int) -> None:
        self.budget = self._whole = budget
        self.tokens = 0
        self._others: list[PrefixStore] = []
        self._entries: OrderedDict[int, _Entry] = OrderedDict()
        self._holders: dict[int, int] = {}
        self._next = 0
        self._seen: dict[int, int] = {}

    def expect(self, prompts: Iterable[Sequence[int]]) -> None:
        """Counts the beginnings of prompts to come, given as their :meth:`block_keys`."""
        if len(self._seen) > self.REMEMBERED:
            self._seen.clear()
        for keys in prompts:
            for key in keys:
                self._seen[key] = self._seen.get(key, 0) + 1

    @staticmethod
    def block_keys(ids: Sequence[Hashable]) -> list[int]:
        """A hash of the first 16, 32, 48, ... tokens."""
        keys, key = [], 0
        for start in range(0, len(ids) - BLOCK + 1, BLOCK):
            key = hash((key, *ids[start : start + BLOCK]))
            keys.append(key)
        return keys

    def match(self, ids: Sequence[Hashable], keys: Sequence[int]) -> tuple[list[Tensor] | None, int]:
        """The longest known beginning of ``ids``: tensors and number of tokens (0 if there is none).

        Never all of ``ids``: the last token has to be computed, because its logits are wanted.
        """
        holder = next((self._holders[key] for key in reversed(keys) if key in self._holders), None)
        if holder is None:
            return None, 0
        entry = self._entries[holder]
        self._entries.move_to_end(holder)
        same = next((i for i, (a, b) in enumerate(zip(entry.ids, ids)) if a != b), min(len(entry.ids), len(ids)))
        return entry.tensors, min(same, len(ids) - 1)

    def put(self, ids: Sequence[Hashable], keys: Sequence[int], tensors: Callable[[int], list[Tensor]]) -> None:
        """Keeps what a prompt shares with others, unless one kept contains it; lets go of those it contains and of the
        least recently used beyond the budget. ``tensors`` gives keys and values of that many first tokens."""
        common = next((i for i, key in enumerate(keys) if self._seen.get(key, 0) < 2), len(keys))
        if common < len(keys):
            keys, ids = keys[:common], ids[: common * BLOCK]
        if len(ids) > self.budget or not keys:
            return
        contained = self._holders.get(keys[-1])
        if contained is not None and len(self._entries[contained].ids) >= len(ids):
            return
        for holder in {self._holders[key] for key in keys if key in self._holders}:
            if len(self._entries[holder].ids) <= len(ids) and self._entries[holder].keys[-1] in keys:
                self._remove(holder)
        number, self._next = self._next, self._next + 1
        self._entries[number] = _Entry(list(ids), tensors(len(ids)), list(keys))
        self._holders.update(dict.fromkeys(keys, number))
        self.tokens += len(ids)
        while self.tokens > self.budget:
            self._remove(next(iter(self._entries)))

    def room(self, budget: int) -> None:
        """Changes the budget, the parts' included."""
        self._whole = budget
        for part in (self, *self._others):
            part.budget = budget // (1 + len(self._others))
            while part.tokens > part.budget:
                part._remove(next(iter(part._entries)))

    def parts(self, count: int) -> list[PrefixStore]:
        """Stores for ``count`` threads, which divide the budget and know nothing of each other; the first is this one.
        """
        if count > 1 + len(self._others):
            self._others += [PrefixStore(0) for _ in range(count - 1 - len(self._others))]
            self.room(self._whole)
        return [self, *self._others[: count - 1]]

    def clear(self, parts: bool = True) -> None:
        """Forgets everything, what its parts hold included unless told otherwise."""
        self._entries.clear()
        self._holders.clear()
        self.tokens = 0
        for part in self._others if parts else ():
            part.clear()

    def _remove(self, number: int) -> None:
        entry = self._entries.pop(number)
        self.tokens -= len(entry.ids)
        for key in entry.keys:
            if self._holders.get(key) == number:
                del self._holders[key]
