"""Models behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, ``transformers serve``, or a provider's API."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import UserError, unknown
from ..types import Chat, Message, Reply, Sampling, Usage
from .base import EMBED, GENERATE, LOG_LIKELIHOOD, LanguageModel, sampling_per_chat
from .openai_dialect import Dialect
from .openai_errors import Refusal, Refused, back_off
from .openai_loop import LoopThread
from .openai_reply import counts_tokens, read_reply
from .openai_scores import embed, log_likelihood
from .openai_transport import Transport

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
_log = logging.getLogger(__name__)

#: Seconds within which :meth:`OpenAIModel.check` must have its answer.
CHECK_SECONDS = 10.0
_EMBED_BATCH = 64


class OpenAIModel(LanguageModel):
    """A chat model behind an OpenAI-compatible server.

    A chat goes out as plain text and the *server* applies the chat template: that a peer's text cannot become a
    control token is then the server's affair (in process, :class:`~goa_torch.agents.hf.HFModel` sees to it). Likewise
    ``seed`` is a request that servers honour as far as they can: identical transcripts are promised in process only.

    Args:
        model: the name the server gives the model.
        base_url: where the API lies, ``http://localhost:8000/v1`` say.
        api_key_env: the environment variable that holds the key; ``None`` for a server without keys. The key is read
            from there alone and appears in no message, ``repr``, cache key or trace.
        name: how pools and messages name the model; ``model`` by default.
        concurrency: most requests in flight at once.
        timeout: most seconds for one attempt, waiting in the server's queue included.
        connect_timeout: most seconds for connecting, at most 10.
        max_retries: most further attempts after a failure that may pass: no connection, no answer in time, an answer
            that is not JSON, status 408, 409, 429 or 5xx. Retries are counted in ``Usage.retries``.
        backoff: seconds before the first retry; they double up to 30 s. ``Retry-After`` goes first.
        max_wait: a server that asks to wait longer than this is not asked again.
        context_length: most tokens of prompt and reply together; by default what the server's list of models says
            (vLLM, SGLang), else unknown.
        extra_body: further fields of every request, ``{"chat_template_kwargs": {"enable_thinking": false}}`` say.
        system_role: ``False`` puts the system's text at the head of the user's turn. Servers that say that they
            reject the role, or demand alternation, are understood without it; some just answer 500.
        opens_reasoning: the chat template ends in an open think tag and the server does not split reasoning off.
        listed: the server lists the model under ``/models``; ``False`` for servers without such a list.
        log_likelihood: the server has vLLM's ``/tokenize`` and a ``/completions`` that echoes log-probabilities.
        embed_model: the name of a model that the server embeds texts with, under ``/embeddings``.

    A server that sends no ``usage``, or nonsense in it, is warned of once: tokens then read as 0.

    A server that rejects a field (``seed``, ``top_p``, ``stop``, ``temperature``, or ``max_tokens`` for
    ``max_completion_tokens``) is asked again without it, once: what it wants is remembered and logged.

    Example:
        >>> model = OpenAIModel("Qwen/Qwen3-8B", "http://localhost:8000/v1", concurrency=64)
        >>> model
        OpenAIModel('Qwen/Qwen3-8B', 'http://localhost:8000/v1')
    """

    def __init__(self, model: str, base_url: str, *, api_key_env: str | None = "OPENAI_API_KEY",
                 name: str | None = None, concurrency: int = 8, timeout: float = 600.0, connect_timeout: float = 10.0,
                 max_retries: int = 5, backoff: float = 0.5, max_wait: float = 60.0, context_length: int | None = None,
                 extra_body: Mapping[str, Any] | None = None, system_role: bool = True, opens_reasoning: bool = False,
                 listed: bool = True, log_likelihood: bool = False, embed_model: str | None = None) -> None:
        self.model = model
        self.name = name or model
        for key, value, right, bounds in (
            ("concurrency", concurrency, concurrency >= 1, "at least 1"),
            ("timeout", timeout, timeout > 0, "positive"),
            ("connect_timeout", connect_timeout, 0 < connect_timeout <= 10, "positive and at most 10 s"),
            ("max_retries", max_retries, max_retries >= 0, "0 or more"),
            ("backoff", backoff, backoff >= 0, "0 or more"),
            ("max_wait", max_wait, max_wait >= 0, "0 or more"),
            ("context_length", context_length, context_length is None or context_length >= 1, "at least 1"),
        ):
            if not right:
                raise UserError(f"server model {self.name!r}: {key} must be {bounds}, not {value!r}")
        self._server = Transport(base_url, api_key_env, timeout, connect_timeout)
        self.base_url = self._server.base_url
        self.concurrency = concurrency
        self.max_retries = max_retries
        self.backoff = backoff
        self.max_wait = max_wait
        self.context_length = context_length
        self.opens_reasoning = opens_reasoning
        self.listed = listed
        self.embed_model = embed_model
        self.lane = self.base_url
        self.capabilities = frozenset({GENERATE} | ({LOG_LIKELIHOOD} if log_likelihood else set())
                                      | ({EMBED} if embed_model else set()))
        self._extra = dict(extra_body or {})
        self._dialect = Dialect(folded=not system_role)
        self.fingerprint = ":".join(["server", self._server.host, model, *self._variant()])
        self._loop = LoopThread(f"server model {self.name!r}")
        self._gate: asyncio.Semaphore | None = None
        self._uncounted = False  # a reply came without token counts, which is said once

    @property
    def _where(self) -> str:
        return f"server {self._server.host}, model {self.model!r}"

    def __repr__(self) -> str:
        return f"OpenAIModel({self.model!r}, {self.base_url!r})"

    def _variant(self) -> list[str]:
        """What makes replies of one served model differ, as a digest (``extra_body`` is nobody else's business)."""
        parts: dict[str, Any] = {"extra": self._extra} if self._extra else {}
        if self._dialect.folded:
            parts["folded"] = True
        if self.opens_reasoning:
            parts["opens_reasoning"] = True
        text = json.dumps(parts, sort_keys=True, default=str)
        return [hashlib.blake2b(text.encode(), digest_size=6).hexdigest()] if parts else []

    # ------------------------------------------------------------------- what a model can do

    def generate(self, chats: Sequence[Chat], sampling: Sampling | Sequence[Sampling]) -> list[Reply]:
        """One reply for each chat, in order, at most ``concurrency`` of them under way at once.

        Ctrl-C cancels what is pending. A reply's ``seconds`` are its share of the wall time of the call, in proportion
        to the time it was under way, waits between attempts included.
        """
        hows = sampling_per_chat(chats, sampling)
        start = time.perf_counter()
        timed = self._run([lambda c=chat, h=how: self._reply(c, h) for chat, how in zip(chats, hows, strict=True)])
        wall, total = time.perf_counter() - start, sum(seconds for _, seconds in timed)
        return [replace(reply, usage=replace(reply.usage, seconds=wall * seconds / total if total else 0.0))
                for reply, seconds in timed]

    def log_likelihood(self, chats: Sequence[Chat], continuations: Sequence[str]) -> list[float]:
        """log p(continuation | chat) in nats.

        The server tokenises the templated chat and the continuation apart and the ids are joined, as in process, so
        no token crosses the border. Needs a server with vLLM's ``/tokenize`` and echoed log-probabilities.

        Raises:
            RuntimeError: the server gave up, or does not echo log-probabilities after all.
        """
        if LOG_LIKELIHOOD not in self.capabilities:
            raise self._cannot(LOG_LIKELIHOOD)
        pairs = list(zip(chats, continuations, strict=True))
        return self._run([lambda c=chat, t=text: self._log_likelihood(c, t) for chat, text in pairs])

    def embed(self, texts: Sequence[str]) -> Tensor:
        """One vector of unit length for each text, float32 [len(texts), d].

        Raises:
            RuntimeError: the server gave up.
        """
        if EMBED not in self.capabilities:
            raise self._cannot(EMBED)
        import torch

        batches = [list(texts[i : i + _EMBED_BATCH]) for i in range(0, len(texts), _EMBED_BATCH)]
        rows = [row for part in self._run([lambda b=batch: self._embed(b) for batch in batches]) for row in part]
        if not rows:
            return torch.zeros(0, 0)
        return torch.nn.functional.normalize(torch.tensor(rows, dtype=torch.float32), dim=1)

    def check(self) -> None:
        """Asks the server for its models, and for one log-likelihood or embedding where it is said to give them.

        Raises:
            UserError: nobody answers within 10 s, the key is refused, or the server does not have the model or cannot
                do what it is said to.
        """
        self._server.open()
        refusal, answer = None, None
        try:
            answer = self._loop.run(asyncio.wait_for(self._server.models(), CHECK_SECONDS))
        except asyncio.exceptions.TimeoutError:  # Python 3.10: not the builtin
            refusal = Refusal(f"no answer within {CHECK_SECONDS:g} s")
        except Refused as refused:
            refusal = refused.refusal
        where = f"server {self.base_url}"
        if refusal is not None:
            if not self.listed and refusal.status in (404, 405, 501):
                return self._probe()
            raise UserError(f"{where}: {self._advice(refusal)}")
        entries = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(entries, list):
            raise UserError(f"{where}: does not speak the OpenAI API (its /models is no list of models); check "
                            "base_url, which usually ends in /v1")
        models = {entry["id"]: entry for entry in entries if isinstance(entry, dict) and "id" in entry}
        if self.model not in models and self.listed:
            raise unknown("model", self.model, models, where)
        length = models.get(self.model, {}).get("max_model_len")
        if self.context_length is None and isinstance(length, int) and length > 0:
            self.context_length = length
        self._probe()

    def _probe(self) -> None:
        hello = Chat((Message.of("user", "Hello"),))
        for capability, setting, probe in (
            (LOG_LIKELIHOOD, "log_likelihood", lambda: self._log_likelihood(hello, "A")),
            (EMBED, "embed_model", lambda: self._embed(["Hello"])),
        ):
            if capability in self.capabilities:
                try:
                    self._loop.run(asyncio.wait_for(probe(), CHECK_SECONDS))
                except (RuntimeError, asyncio.exceptions.TimeoutError) as error:
                    why = str(error) or f"no answer within {CHECK_SECONDS:g} s"
                    raise UserError(f"server {self.base_url}: leave {setting} off for it: {why}") from None

    def _advice(self, refusal: Refusal) -> str:
        if refusal.status in (401, 403):
            key = self._server.api_key_env
            return (f"refused the key ({refusal}); set the environment variable {key} to a valid key" if key else
                    f"wants a key ({refusal}); name the environment variable that holds it with api_key_env")
        if refusal.status in (404, 405):
            return (f"no list of models ({refusal}); check base_url, which usually ends in /v1, or set listed: false "
                    "for a server that has no such list")
        if refusal.status:
            return f"answered {refusal}; look at the server's log"
        return f"not reachable ({refusal.message}); is it running, and is base_url right?"

    def close(self) -> None:
        """Cancels pending calls (they raise ``InterruptedError`` in their threads) and closes all connections."""
        self._loop.close(self._server.close)
        self._gate = None

    # ------------------------------------------------------------------- on the loop

    def _run(self, jobs: list[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        if not jobs:
            return []
        self._server.open()
        return self._loop.run(self._all(jobs))

    async def _all(self, jobs: list[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        if self._gate is None:  # of the model, not of the call: calls from several threads share it
            self._gate = asyncio.Semaphore(self.concurrency)
        gate = self._gate

        async def one(job: Callable[[], Coroutine[Any, Any, T]]) -> T:
            async with gate:
                return await job()

        tasks = [asyncio.ensure_future(one(job)) for job in jobs]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def _reply(self, chat: Chat, sampling: Sampling) -> tuple[Reply, float]:
        """The reply to one chat and the seconds it was under way."""
        start = time.perf_counter()

        async def attempt() -> Reply:
            dialect = self._dialect
            body = dialect.request(chat, sampling)
            try:
                answer = await self._server.chat({"model": self.model, **body}, self._extra or None)
            except Refused as refused:
                learnt = dialect.learn(refused.refusal, body, chat)
                if learnt is None:
                    raise
                if self._dialect | learnt != self._dialect:
                    _log.warning("server model %r: %s; from now on asked as %s", self.name, refused, learnt)
                    self._dialect = self._dialect | learnt
                raise _AskAgain from None
            reply = read_reply(answer, sampling, self.opens_reasoning)
            if not self._uncounted and not counts_tokens(answer):
                self._uncounted = True
                _log.warning("%s: sends no token counts (usage); they read as 0, so totals are lower bounds",
                             self._where)
            return reply

        try:
            reply, retries = await self._persist(attempt, chat.stream)
            usage = replace(reply.usage, retries=retries)
            if self.context_length is not None and usage.tokens > self.context_length:  # some servers just run on
                reply = Reply.failure(f"{self._where}: prompt of {usage.prompt_tokens} tokens and reply do not fit the "
                                      f"context of {self.context_length}", usage)
            reply = replace(reply, usage=usage)
        except _GaveUp as gave_up:
            reply = Reply.failure(str(gave_up), Usage(calls=1, retries=gave_up.retries))
        return reply, time.perf_counter() - start

    async def _persist(self, attempt: Callable[[], Coroutine[Any, Any, T]], stream: int) -> tuple[T, int]:
        """The result of ``attempt`` and the attempts beyond the first, or :class:`_GaveUp`."""
        retries = failures = 0
        while True:
            try:
                return await attempt(), retries
            except _AskAgain:  # the dialect only ever grows, so this ends
                retries += 1
                continue
            except Refused as refused:
                refusal = refused.refusal
            where = self._where
            if refusal.too_long:
                raise _GaveUp(f"{where}: prompt and reply do not fit the context: {refusal}", retries)
            if not refusal.transient:
                raise _GaveUp(f"{where}: {refusal}", retries)
            if failures >= self.max_retries:
                raise _GaveUp(f"{where}: gave up after {retries + 1} attempts: {refusal}", retries)
            wait = back_off(failures, stream, self.backoff, refusal.retry_after)
            if refusal.retry_after is not None and refusal.retry_after > self.max_wait:
                raise _GaveUp(f"{where}: asks to wait {refusal.retry_after:.0f} s, more than max_wait "
                              f"({self.max_wait:g} s): {refusal}", retries)
            failures += 1
            retries += 1
            await asyncio.sleep(wait)

    async def _log_likelihood(self, chat: Chat, continuation: str) -> float:
        return await self._insist(
            lambda: log_likelihood(self._server, self.model, self._dialect.messages(chat), continuation), chat.stream)

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        return await self._insist(lambda: embed(self._server, self.embed_model, texts), len(texts))

    async def _insist(self, attempt: Callable[[], Coroutine[Any, Any, T]], stream: int) -> T:
        """:meth:`_persist` where a failure has no reply to live in."""
        try:
            return (await self._persist(attempt, stream))[0]
        except _GaveUp as gave_up:
            raise RuntimeError(str(gave_up)) from None


class _AskAgain(Exception):
    """The server's dialect was learnt; the same call is worth another attempt at once."""


class _GaveUp(Exception):
    def __init__(self, why: str, retries: int) -> None:
        super().__init__(why)
        self.retries = retries
