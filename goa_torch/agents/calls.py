"""Calls to models: recorded one by one, merged into batches, shared where they are identical.

:class:`Recorder` belongs to one run of a method over a batch of questions and knows what was asked, for what, and
what it cost. :class:`Exchange` belongs to the process: it merges what several runs ask at the same time into one batch
a model, in which nothing is asked twice; with a cache, nothing that was answered before is asked again either.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from .. import randomness
from ..types import Call, Chat, Message, Options, Purpose, Question, Reply, Sampling, Span, Usage
from .base import Agent, LanguageModel

if TYPE_CHECKING:
    from torch import Tensor

#: One call to a model: the chat, and how the reply is decoded or which replies are weighed against each other.
Item = tuple[LanguageModel, Chat, Sampling | Options]
#: Purposes whose reply is an answer to the question; the others are read by whoever asked.
ANSWERING: frozenset[str] = frozenset({"answer", "pass", "readout"})


@dataclass(frozen=True, slots=True)
class Request:
    """One call to be made: ``agent`` gets ``messages`` about question number ``question`` of the batch.

    ``instance`` tells copies of an agent apart, ``draw`` repeated attempts at the same thing. With ``options`` the
    agent is not asked to speak but how likely each of them is (see :func:`option_probabilities`).
    """

    agent: Agent
    messages: tuple[Message, ...]
    purpose: Purpose
    question: int
    round: int = 0
    instance: int = 0
    draw: int = 0
    options: tuple[str, ...] | None = None


class ReplyCache(Protocol):
    """Where replies outlive the process. Keys are hashable and have a stable ``repr``."""

    def get(self, keys: Sequence[Hashable]) -> list[Reply | None]: ...

    def put(self, items: Iterable[tuple[Hashable, Reply]]) -> None: ...


@dataclass(slots=True)
class _Ticket:
    """What one thread wants served: filled in by the dispatcher."""

    job: int
    items: list[Item]
    served: list[tuple[Reply, bool]] | None = None
    error: BaseException | None = None


def reply_key(model: LanguageModel, chat: Chat, sampling: Sampling | Options) -> Hashable:
    """What makes two calls identical. Greedy decoding and likelihoods do not depend on the stream."""
    content = tuple((m.role, tuple(_spoken(span) for span in m.spans)) for m in chat.messages)
    if isinstance(sampling, Options):
        return (model.fingerprint, content, "options", sampling.texts)
    drawn = (sampling.temperature, sampling.top_p, chat.stream) if sampling.temperature > 0 else (0.0,)
    return (model.fingerprint, content, drawn, sampling.max_new_tokens, sampling.stop)


def _spoken(span: Span) -> Hashable:
    """What a model can tell of a span: its text, and how loud it is unless it is plain text."""
    if span.heard is None or span.heard.plain:
        return span.text
    return (span.text, span.heard.weight, span.heard.scope, span.heard.parallel)


class _Cancelled(InterruptedError):
    """Raised in a run that is ended because another one failed."""


class Exchange:
    """Merges calls into batches and shares identical ones.

    Called from a lone thread, :meth:`serve` asks at once. Within :meth:`together`, each job's calls wait until every
    job that still runs is waiting too; then all of them go out as one batch for each model.

    Args:
        cache: replies that outlive the process; ``None`` shares only within a batch.
        on_batch: called after each batch with the number of calls served and of those that were shared.
    """

    def __init__(self, cache: ReplyCache | None = None, on_batch: Callable[[int, int], None] | None = None) -> None:
        self.cache = cache
        self.on_batch = on_batch
        self._changed = threading.Condition()
        self._waiting: list[_Ticket] = []
        self._job = threading.local()
        self._cancelled = False

    def serve(self, items: list[Item]) -> list[tuple[Reply, bool]]:
        """Replies in order, each with whether it was shared (see :class:`goa_torch.types.Call`)."""
        if not items:
            return []
        job = getattr(self._job, "number", None)
        if job is None:
            return self._dispatch(items)
        ticket = _Ticket(job, items)
        with self._changed:
            self._waiting.append(ticket)
            self._changed.notify_all()
            self._changed.wait_for(lambda: ticket.served is not None or ticket.error is not None or self._cancelled)
        if ticket.error is not None:
            raise ticket.error
        if ticket.served is None:
            raise _Cancelled("cancelled: another run of this batch was interrupted")
        return ticket.served

    def together(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Runs ``jobs`` side by side, their calls merged. The first job that raises ends all of them.

        A job cannot run jobs of the same exchange: it would wait for itself.
        """
        if getattr(self._job, "number", None) is not None:
            raise RuntimeError("Exchange.together() was called by one of its own jobs; "
                               "give the inner jobs an exchange of their own, or list all jobs in one call")
        results: list[Any] = [None] * len(jobs)
        errors: list[BaseException | None] = [None] * len(jobs)
        live = set(range(len(jobs)))

        def work(number: int) -> None:
            self._job.number = number
            try:
                results[number] = jobs[number]()
            except BaseException as error:  # handed to the caller of together() below, never swallowed
                errors[number] = error
            with self._changed:
                live.discard(number)
                self._changed.notify_all()

        threads = [threading.Thread(target=work, args=(i,), daemon=True, name=f"run-{i}") for i in range(len(jobs))]
        self._cancelled = False
        for thread in threads:
            thread.start()
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._waiting) >= len(live) or any(errors))
                    tickets, self._waiting = sorted(self._waiting, key=lambda t: t.job), []
                if any(errors) or not tickets:
                    break
                self._serve_tickets(tickets)
        finally:
            with self._changed:
                self._cancelled = True
                self._changed.notify_all()
            for thread in threads:
                thread.join()
            self._waiting = []
        first = next((e for e in errors if e is not None and not isinstance(e, _Cancelled)), None)
        if first is not None:
            raise first
        return results

    def _serve_tickets(self, tickets: list[_Ticket]) -> None:
        error, served = None, []
        try:
            served = self._dispatch([item for ticket in tickets for item in ticket.items])
        except Exception as raised:  # belongs to every run whose calls were in the batch; raised there
            error = raised
        start = 0
        with self._changed:
            for ticket in tickets:
                if error is not None:
                    ticket.error = error
                else:
                    ticket.served = served[start : start + len(ticket.items)]
                start += len(ticket.items)
            self._changed.notify_all()

    def _dispatch(self, items: list[Item]) -> list[tuple[Reply, bool]]:
        keys = [reply_key(*item) for item in items]
        first: dict[Hashable, int] = {}
        for number, key in enumerate(keys):
            first.setdefault(key, number)
        known: dict[Hashable, Reply] = {}
        if self.cache is not None:
            unique = list(first)
            known = {key: reply for key, reply in zip(unique, self.cache.get(unique)) if reply is not None}
        asked = [number for key, number in first.items() if key not in known]
        fresh = {keys[number]: reply for number, reply in zip(asked, self._ask([items[n] for n in asked]))}
        if self.cache is not None:
            self.cache.put((key, reply) for key, reply in fresh.items() if not reply.failed)
        served = [
            (fresh[key], first[key] != number) if key in fresh else (known[key], True)
            for number, key in enumerate(keys)
        ]
        if self.on_batch is not None:
            self.on_batch(len(items), len(items) - len(asked))
        return served

    @staticmethod
    def _ask(items: list[Item]) -> list[Reply]:
        """One ``generate`` (and one ``log_likelihood``) for each model; lanes side by side."""
        replies: list[Reply | None] = [None] * len(items)
        lanes: dict[str, dict[int, list[int]]] = {}
        for number, (model, _, _) in enumerate(items):
            lanes.setdefault(model.lane, {}).setdefault(id(model), []).append(number)

        def serve(lane: dict[int, list[int]]) -> None:
            for numbers in lane.values():
                model = items[numbers[0]][0]
                spoken = [n for n in numbers if isinstance(items[n][2], Sampling)]
                weighed = [n for n in numbers if isinstance(items[n][2], Options)]
                answers = model.generate([items[n][1] for n in spoken], [items[n][2] for n in spoken]) if spoken else []
                if len(answers) != len(spoken):
                    raise RuntimeError(f"model {model.name!r} gave {len(answers)} replies to {len(spoken)} chats")
                answers += _weigh(model, [items[n][1] for n in weighed], [items[n][2].texts for n in weighed])
                for number, answer in zip([*spoken, *weighed], answers):
                    replies[number] = answer

        if len(lanes) <= 1:
            for lane in lanes.values():
                serve(lane)
        else:
            executor = ThreadPoolExecutor(len(lanes))

            def abandon() -> None:  # Ctrl-C or a bug: do not wait for what other lanes still have to say
                for model in {id(item[0]): item[0] for item in items}.values():
                    model.close()
                executor.shutdown(wait=False, cancel_futures=True)

            with ExitStack() as undo:
                undo.callback(abandon)
                futures = [executor.submit(serve, lane) for lane in lanes.values()]
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
                undo.pop_all()
            executor.shutdown()
        return replies  # type: ignore[return-value]


def _weigh(model: LanguageModel, chats: Sequence[Chat], options: Sequence[tuple[str, ...]]) -> list[Reply]:
    """For each chat, the log-likelihoods of its options, as the JSON text of a reply. The options of a chat share its
    prompt, which is counted once."""
    started = time.perf_counter()
    pairs = [(chat, text) for chat, texts in zip(chats, options) for text in texts]
    scores = iter(model.log_likelihood([c for c, _ in pairs], [t for _, t in pairs]) if pairs else [])
    seconds = (time.perf_counter() - started) / max(1, len(chats))
    replies = []
    for chat, texts in zip(chats, options):
        usage = Usage(1, model.count_tokens(chat) or 0, seconds=seconds)
        values = [float(next(scores)) for _ in texts]
        replies.append(Reply(json.dumps(values), usage=usage) if all(map(math.isfinite, values)) else
                       Reply.failure("the prompt does not fit the context: its options have no likelihood", usage))
    return replies


def option_probabilities(reply: Reply) -> list[float] | None:
    """The probabilities of a request's options, which sum to 1 (a softmax of their log-likelihoods); ``None`` if the
    call failed."""
    if reply.failed:
        return None
    values = json.loads(reply.text)
    weights = [math.exp(value - max(values)) for value in values]
    return [weight / math.fsum(weights) for weight in weights]


class Recorder:
    """Makes and records the calls of one run: one method, one seed, one batch of questions.

    Args:
        questions: the batch.
        seed: names the random streams that decode replies.
        sampling: how replies are decoded, by purpose.
        exchange: where calls go; a private one by default.

    Attributes:
        calls: for each question, its calls in the order they were made.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int,
        sampling: Mapping[Purpose, Sampling],
        exchange: Exchange | None = None,
    ) -> None:
        self.questions = list(questions)
        self.seed = seed
        self.sampling = sampling
        self.exchange = exchange or Exchange()
        self.calls: list[list[Call]] = [[] for _ in self.questions]
        self._depth = [0] * len(self.questions)

    def stream(self, request: Request) -> int:
        """The random stream of a call: (seed, question, agent instance, round, purpose, draw)."""
        question = self.questions[request.question]
        return randomness.stream(self.seed, question.task, question.id, request.agent.name, request.instance,
                                 request.round, request.purpose, request.draw)

    def ask(self, requests: Sequence[Request]) -> list[Reply]:
        """Makes calls that do not wait for each other: one batch for each model. Replies come in order, those that
        answer the question with ``answer`` filled."""
        items = [
            (r.agent.model, Chat(tuple(r.messages), self.stream(r)),
             self.sampling[r.purpose] if r.options is None else Options(tuple(r.options))) for r in requests
        ]
        served = self.exchange.serve(items)
        for question in {r.question for r in requests}:
            self._depth[question] += 1
        replies = []
        for request, (reply, shared) in zip(requests, served):
            if request.purpose in ANSWERING:
                reply = reply.with_answer(self.questions[request.question].reader)
            self.calls[request.question].append(
                Call(request.purpose, request.agent.name, self.questions[request.question].id, request.round,
                     self._depth[request.question], replace(reply.usage, calls=1), shared, reply.finish_reason,
                     reply.error)
            )
            replies.append(reply)
        return replies

    def embed(self, agent: Agent, questions: Sequence[int], texts: Sequence[str], purpose: Purpose) -> Tensor:
        """A vector of unit length for each of ``texts``, [n, d], by the agent's model. Each is recorded as a call for
        the question at its place in ``questions``: its prompt is read, nothing is generated."""
        started = time.perf_counter()
        vectors = agent.model.embed(texts)
        seconds = (time.perf_counter() - started) / max(1, len(texts))
        for question in set(questions):
            self._depth[question] += 1
        for question, text in zip(questions, texts, strict=True):
            tokens = agent.model.count_tokens(Chat((Message.of("user", text),))) or 0
            self.calls[question].append(Call(purpose, agent.name, self.questions[question].id, 0,
                                             self._depth[question], Usage(1, tokens, seconds=seconds)))
        return vectors
