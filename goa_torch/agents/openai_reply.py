"""Reads the answer of a chat completion, whatever a server leaves out of it."""

from __future__ import annotations

from typing import Any

from ..types import FinishReason, Reply, Sampling, Usage
from .openai_errors import Refusal, Refused, error_in
from .reasoning import split_reasoning


def read_reply(answer: Any, sampling: Sampling, opened: bool = False) -> Reply:
    """The reply in the decoded JSON of a chat completion.

    - Text inside think tags, and what servers hand over beside the text (``reasoning``, ``reasoning_content``), is
      the reply's ``reasoning``.
    - ``content: null`` is a failure, unless there is reasoning: then nothing was said yet, and ``text`` is empty.
    - A reply that a filter or an abort cut off is a failure; ``length`` is an unfinished reply. Without a reason the
      reply is unfinished if its tokens reach the bound.
    - Stop strings are cut off here too: not every server does it.

    Raises:
        Refused: there is no reply in it, so asking again may help.
    """
    if not isinstance(answer, dict):
        raise Refused(Refusal(f"the answer is a JSON {type(answer).__name__}, not a chat completion"))
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        if answer.get("error"):  # some gateways wrap an error in status 200
            raise Refused(error_in(answer))
        raise Refused(Refusal("the answer holds no choices"))

    usage = read_usage(answer.get("usage"))
    text, thoughts = _texts(message.get("content"))
    for field in ("reasoning", "reasoning_content"):  # vLLM's name since 0.12, and DeepSeek's
        if isinstance(message.get(field), str) and message[field].strip():
            thoughts.append(message[field].strip())
            break
    reason = choice.get("finish_reason")
    if reason in ("content_filter", "error", "abort"):
        return Reply.failure(f"the server cut the reply off: finish reason {reason!r}", usage)
    if text is None and not thoughts:
        said = message.get("refusal")
        why = f"the model refused: {said}" if isinstance(said, str) and said else (
            "the model asked for a tool instead" if message.get("tool_calls") else "the reply has no content")
        return Reply.failure(why, usage)

    finish: FinishReason = "stop"
    if reason in ("length", "max_tokens") or (reason is None and usage.completion_tokens >= sampling.max_new_tokens):
        finish = "length"
    text = text or ""
    for stop in sampling.stop:
        if stop in text:
            text, finish = text.split(stop)[0], "stop"
    visible, thought = split_reasoning(text, opened)
    return Reply(visible, finish, reasoning="\n\n".join(thoughts + [thought] if thought else thoughts), usage=usage)


def read_usage(usage: Any) -> Usage:
    """What the server counted. A count that it leaves out (see :func:`counts_tokens`) is 0: nothing is estimated, so
    totals over servers that do not count are lower bounds."""
    counts = usage if isinstance(usage, dict) else {}
    details = counts.get("prompt_tokens_details")
    prompt = _count(counts.get("prompt_tokens"))
    cached = min(prompt, _count(details.get("cached_tokens"))) if isinstance(details, dict) else 0
    return Usage(calls=1, prompt_tokens=prompt, completion_tokens=_count(counts.get("completion_tokens")),
                 cached_tokens=cached)


def counts_tokens(answer: Any) -> bool:
    """Whether an answer says how many tokens prompt and reply have; what it leaves out reads as 0."""
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return isinstance(usage, dict) and all(_is_count(usage.get(f)) for f in ("prompt_tokens", "completion_tokens"))


def _count(value: Any) -> int:
    return value if _is_count(value) else 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _texts(content: Any) -> tuple[str | None, list[str]]:
    """Text and thoughts of a message's content, which is a string or a list of typed parts."""
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        return None, []
    said: list[str] = []
    thoughts: list[str] = []
    for part in content:
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("text"), str):
            said.append(part["text"])
        elif isinstance(part.get("thinking"), (str, list)):
            thought = part["thinking"] if isinstance(part["thinking"], str) else _texts(part["thinking"])[0]
            if thought and thought.strip():
                thoughts.append(thought.strip())
    return ("".join(said) if said else None), thoughts
