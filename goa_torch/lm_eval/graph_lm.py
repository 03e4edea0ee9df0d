"""A graph of agents as a model of lm-evaluation-harness."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from ..agents.base import GENERATE, LOG_LIKELIHOOD
from ..agents.calls import ANSWERING, Exchange, Item
from ..agents.pool import Pool
from ..agents.pools import load_pool
from ..errors import UserError, unknown
from ..methods import build_method
from ..nn.readout import VoteReadout
from ..types import Chat, Question, Reader, Reply, Result, Sampling
from .readers import reader_of

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from ..agents.base import LanguageModel

RETURNS = ("text", "answer")


@register_model("goa")
class GraphLM(LM):
    """Answers every request with a method over a pool; a request's context becomes the question.

    Where the documents of a task have an ``id``, it names the question's random streams, together with the task's
    name: so the replies are those of ``goa bench`` on the same questions with the same seed.

    Args:
        pool: name or file of a pool, or a :class:`~goa_torch.agents.pool.Pool`.
        method: name of a method; further arguments are its settings.
        seed: names the random streams.
        answers: how agents are told to answer and how votes and agreement read them: ``number``, ``math``, ``text``,
            ``choice`` (of four; ``choice:10`` of ten) or ``relay``. The harness reads the final reply in its own way.
        returns: what the harness gets: the final reply's ``text``, or the ``answer`` that ``answers`` reads in it, ""
            if there is none (then both sides use the same extractor).
        batch_questions: questions that are answered side by side.
        temperature: of all calls, instead of the pool's.
        batch_size, max_batch_size, device: what the harness passes to every model; the pool decides these.

    The pool decides how agents decode. Of a task's generation settings, ``max_gen_toks`` limits the replies and
    ``until`` cuts the final text; ``temperature`` and ``do_sample`` are the pool's (most methods need samples).
    """

    def __init__(self, pool: str | Pool = "smollm2", method: str = "goa", seed: int = 0, answers: str = "text",
                 returns: str = "text", batch_questions: int = 48, temperature: float | None = None,
                 batch_size: Any = None, max_batch_size: Any = None, device: Any = None, **settings: Any) -> None:
        super().__init__()
        if returns not in RETURNS:
            raise unknown("value of returns", returns, RETURNS)
        self.reader: Reader = reader_of(answers)
        self.returns = returns
        self.seed = int(seed)
        self.batch_questions = int(batch_questions)
        self.pool = load_pool(pool) if isinstance(pool, str) else pool
        if temperature is not None:
            self.pool = self.pool.with_sampling(temperature=float(temperature))
        self.method_name, self.settings = method, settings
        self.method = build_method(method, self.pool, **settings)
        self.pool.check()

    @property
    def tokenizer_name(self) -> str:
        """Names the model in the harness's caches."""
        return f"goa/{self.pool.name}/{self.method_name}"

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The turns as text: agents' own chat templates are applied to the question that this makes."""
        if len(chat_history) == 1:
            return chat_history[0]["content"]
        return "\n\n".join(f"{turn['role'].capitalize()}: {turn['content']}" for turn in chat_history)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """The final reply to each request, cut at the first of ``until``; "" if it failed or was cut off. A request
        that comes again (``repeats``) is answered with the next seed."""
        replies: list[str] = [""] * len(requests)
        seen: Counter[tuple[str, str]] = Counter()
        kinds = []
        for request in requests:
            question = self._question(request)
            kinds.append((request.args[1].get("max_gen_toks"), seen[question.id, question.text]))
            seen[question.id, question.text] += 1
        for (limit, repetition), numbers in _grouped(kinds).items():
            results = self._answer([requests[n] for n in numbers], limit, self.seed + repetition)
            for number, (result, _) in zip(numbers, results):
                replies[number] = self._returned(result, requests[number].args[1].get("until") or ())
        for request, reply in zip(requests, replies):
            self.cache_hook.add_partial("generate_until", request.args, reply)
        return replies

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """log p(continuation) under the agent that gave the final reply, given all that it was shown when it did;
        and whether it is how that agent would begin, decoding greedily.

        A readout defines this if the answer is one agent's reply: ``single``, max (the top source), mean (the meta-LLM
        after reading all). A continuation starts the agent's turn, so spaces before it do not count.

        Raises:
            UserError: for votes, and agents that cannot weigh text.
        """
        if isinstance(self.method.readout, VoteReadout):
            raise UserError(f"method {self.method_name!r} ends in a vote, which gives no text a likelihood; take one "
                            "that ends in one agent's reply (single, goa, moa, ...) or a task of type generate_until")
        for model in self.pool.models:
            model.need(LOG_LIKELIHOOD, "a log-likelihood task")
        first: dict[str, Instance] = {}
        for request in requests:
            first.setdefault(request.args[0], request)
        spoken = dict(zip(first, self._answer(list(first.values()), None, self.seed)))
        scores: list[tuple[float, bool]] = [(float("-inf"), False)] * len(requests)
        by_model: dict[int, list[int]] = {}
        for number, request in enumerate(requests):
            said = spoken[request.args[0]][1]
            if said is not None:
                by_model.setdefault(id(said[0]), []).append(number)
        for numbers in by_model.values():
            model: LanguageModel = spoken[requests[numbers[0]].args[0]][1][0]  # type: ignore[index]
            chats = [spoken[requests[n].args[0]][1][1] for n in numbers]  # type: ignore[index]
            texts = [requests[n].args[1].lstrip() for n in numbers]
            values = model.log_likelihood(chats, texts)
            for number, value, begins in zip(numbers, values, _greedily(model, chats, texts)):
                scores[number] = (float(value), begins)
        return scores

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Not defined."""
        raise UserError("a graph of agents answers questions: it gives no whole text a likelihood (perplexity tasks); "
                        "take tasks of type generate_until, multiple_choice or loglikelihood")

    def _answer(self, requests: Sequence[Instance], max_new_tokens: int | None, seed: int
                ) -> list[tuple[Result, tuple[LanguageModel, Chat] | None]]:
        """Each request's result, and the model and chat that its final reply came from, if one did."""
        method = self.method
        if max_new_tokens is not None:
            method = build_method(self.method_name, _limited(self.pool, int(max_new_tokens)), **self.settings)
        found = []
        questions = [self._question(request) for request in requests]
        for start in range(0, len(questions), self.batch_questions):
            some = questions[start : start + self.batch_questions]
            exchange = _Overheard()
            # one job a question, so that each one's calls can be told apart; they are batched all the same
            jobs = [partial(method, [question], seed=seed, exchange=exchange) for question in some]
            runs = [results[0] for results in exchange.together(jobs)]
            found += [(result, _origin(result.reply, exchange.heard.get(number, ())))
                      for number, result in enumerate(runs)]
        return found

    def _question(self, request: Instance) -> Question:
        text = request.args[0]
        if not text.strip():
            raise UserError(f"task {request.task_name!r}: a request without any text; a graph answers questions")
        document = request.doc if isinstance(request.doc, dict) else {}
        name = str(document.get("id") or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
        return Question(name, text, "", self.reader, request.task_name or "lm_eval")

    def _returned(self, result: Result, until: Iterable[str]) -> str:
        if self.returns == "answer":
            return result.answer or ""
        text = result.reply.text if result.reply.finish_reason == "stop" else None
        for stop in [until] if isinstance(until, str) else until:
            text = text.split(stop)[0] if text and stop else text
        return text or ""


class _Overheard(Exchange):
    """Remembers what each job asked and was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[int, list[tuple[Item, Reply]]] = {}

    def serve(self, items: list[Item]) -> list[tuple[Reply, bool]]:
        served = super().serve(items)
        self.heard.setdefault(self._job.number, []).extend(
            (item, reply) for item, (reply, _) in zip(items, served) if isinstance(item[2], Sampling))
        return served


def _origin(reply: Reply, heard: Sequence[tuple[Item, Reply]]) -> tuple[LanguageModel, Chat] | None:
    """The model and the chat of the last call that was answered with ``reply``."""
    for (model, chat, _), said in reversed(heard):
        if said.text is not None and said.text == reply.text:
            return model, chat
    return None


def _limited(pool: Pool, max_new_tokens: int) -> Pool:
    """The pool with shorter answers; what it says in a few tokens anyway (judges) stays."""
    limited = Pool(pool.agents, pool.prompts, pool.meta, pool.sampling, pool.name, pool.variables, pool.judging)
    limited.sampling = {purpose: replace(how, max_new_tokens=min(how.max_new_tokens, max_new_tokens))
                        if purpose in ANSWERING else how for purpose, how in pool.sampling.items()}
    return limited


def _grouped(values: Iterable[Any]) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = {}
    for number, value in enumerate(values):
        groups.setdefault(value, []).append(number)
    return groups


def _greedily(model: LanguageModel, chats: Sequence[Chat], texts: Sequence[str]) -> list[bool]:
    """Whether each chat's greedy reply begins with its text; one reply a chat."""
    if GENERATE not in model.capabilities:
        return [False] * len(chats)
    unique = list({chat.text: chat for chat in chats}.values())
    length = 8 + max(len(text.split()) * 4 for text in texts)  # tokens, generously
    said = model.generate(unique, Sampling(temperature=0, max_new_tokens=length))
    begins = {chat.text: (reply.text or "").lstrip() for chat, reply in zip(unique, said)}
    return [begins[chat.text].startswith(text) for chat, text in zip(chats, texts)]
