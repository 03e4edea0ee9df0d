"""What only some servers can do: log-likelihoods and embeddings, one attempt each."""

from __future__ import annotations

from typing import Any

from .openai_errors import Refusal, Refused
from .openai_transport import Transport


async def log_likelihood(server: Transport, model: str, messages: list[dict[str, str]], continuation: str) -> float:
    """log p(continuation | messages) in nats, by vLLM's ``/tokenize`` and an echoed ``/completions``.

    Chat and continuation are tokenised apart and their ids joined, so that no token crosses the border; the scores of
    the continuation's ids are summed. (The chat endpoint cannot do this: it scores what it generates.)

    Raises:
        Refused: the server failed, or gives no such scores.
    """

    async def ids(body: dict[str, Any]) -> list[int]:
        answer = await server.tokenize({"model": model, **body})
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        if not isinstance(tokens, list):
            raise Refused(Refusal("/tokenize gave no tokens", 400))
        return tokens

    prompt = await ids({"messages": messages, "add_generation_prompt": True})
    tail = await ids({"prompt": continuation, "add_special_tokens": False})
    if not tail:
        return 0.0
    answer = await server.completions({"model": model, "prompt": prompt + tail, "echo": True, "logprobs": 1,
                                       "max_tokens": 1, "temperature": 0.0})
    try:
        scores = answer["choices"][0]["logprobs"]["token_logprobs"][len(prompt) :][: len(tail)]
        # A server that ignores `echo` hands over the generated token alone: its score is not the answer.
        if len(scores) == len(tail):
            return float(sum(scores))
    except (KeyError, IndexError, TypeError):
        pass
    raise Refused(Refusal("/completions does not echo the log-probabilities of the prompt", 400))


async def embed(server: Transport, model: str | None, texts: list[str]) -> list[list[float]]:
    """One vector for each text, in order, by ``/embeddings``.

    Raises:
        Refused: the server failed, or gives no such vectors.
    """
    answer = await server.embeddings({"model": model, "input": texts, "encoding_format": "float"})
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != len(texts):
        raise Refused(Refusal(f"/embeddings gave no {len(texts)} vectors"))
    try:
        return [[float(x) for x in row["embedding"]] for row in sorted(rows, key=lambda row: row.get("index", 0))]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Refused(Refusal("/embeddings gave something that is no vector")) from None
