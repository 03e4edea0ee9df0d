"""What servers say when they refuse, and how long to wait before asking again."""

from __future__ import annotations

import calendar
import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import randomness

_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size)|max_model_len|maximum (context|sequence|input)|too many tokens"
    r"|(prompt|input|request|message)s?\b.{0,40}\b(too long|longer than)|reduce the length", re.IGNORECASE)
_LONE = re.compile("[\ud800-\udfff]")
#: The code of a request that cannot be sent: its text is no Unicode text.
NOT_TEXT = "not_text"
_BEYOND_RETRY = frozenset({NOT_TEXT, "insufficient_quota", "billing_hard_limit_reached"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that brought no answer.

    Attributes:
        message: one line, safe to show (keys taken out).
        status: the HTTP status; 0 if there was none (no connection, no answer in time, no JSON).
        param: the field of the request that the server names, if it does.
        code: the server's own name for the error, if it gives one.
        retry_after: seconds the server asks to wait.
    """

    message: str
    status: int = 0
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        if self.code in _BEYOND_RETRY:
            return False
        return self.status in (0, 408, 409, 429) or self.status >= 500

    @property
    def too_long(self) -> bool:
        """Whether prompt and reply do not fit the model."""
        return self.status not in (429, 503) and (
            self.status == 413 or self.code == "context_length_exceeded" or bool(_TOO_LONG.search(self.message)))

    def __str__(self) -> str:
        return f"{self.status} {self.message}" if self.status else self.message


class Refused(Exception):
    """Carries a :class:`Refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def decode(body: str) -> Any:
    """The decoded JSON of an answer, in which every string can be sent on and written down: lone surrogates, which
    JSON can spell (``\\ud83d``) and UTF-8 cannot, are U+FFFD.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deep.
    """
    answer = json.loads(body)
    if not re.search(r"\\u[dD][89a-fA-F]", body):  # nearly always, and embeddings are long
        return answer
    return json.loads(_LONE.sub("\ufffd", json.dumps(answer, ensure_ascii=False)))


def read_refusal(status: int, headers: Mapping[str, str], body: str) -> Refusal:
    """The refusal in an HTTP answer. OpenAI, vLLM, SGLang, llama.cpp and FastAPI each word theirs differently."""
    try:
        error: Any = decode(body)
    except (ValueError, RecursionError):
        return Refusal(_line(body) or "no explanation", status, retry_after=retry_after(headers))
    return error_in(error, status, retry_after(headers))


def error_in(error: Any, status: int = 0, wait: float | None = None) -> Refusal:
    """The refusal in the decoded JSON of an error."""
    if isinstance(error, dict) and isinstance(error.get("error"), (dict, str)):
        error = error["error"]
    if not isinstance(error, dict):
        return Refusal(_line(error if isinstance(error, str) else json.dumps(error)), status, retry_after=wait)
    message = error.get("message", error.get("detail", error.get("error")))
    if isinstance(message, list):  # FastAPI: one entry for each field that does not validate
        message = "; ".join(
            f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg', '')}" if isinstance(e, dict) else str(e)
            for e in message)
    text = message if isinstance(message, str) else json.dumps(error if message is None else message)
    param, code = error.get("param"), error.get("code")
    return Refusal(_line(text) or "no explanation", status, param if isinstance(param, str) else None,
                   code if isinstance(code, str) else None, wait)


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that ``Retry-After`` asks to wait: a number or an HTTP date (RFC 9110, 10.2.3); never negative."""
    for field, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = (headers.get(field) or "").strip()
        if not value:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            pass
        else:
            if math.isnan(seconds):
                continue
            return max(0.0, seconds)
        try:
            date = calendar.timegm(email.utils.parsedate_to_datetime(value).utctimetuple())
        except (TypeError, ValueError):
            continue
        return max(0.0, date - (time.time() if now is None else now))
    return None


def back_off(attempt: int, stream: int, base: float, asked: float | None = None) -> float:
    """Seconds to wait before attempt number ``attempt + 1`` (the first attempt is 0) of the call named ``stream``.

    ``base * 2**attempt``, at most 30 s, or what the server asked for; the jitter (half of the one, a tenth on top of
    the other) is a hash of call and attempt, so that calls refused together do not come back together.
    """
    jitter = float(randomness.uniforms([randomness.stream("back-off", stream)], attempt)[0])
    if asked is not None:
        return asked * (1 + 0.1 * jitter)
    return min(30.0, base * 2.0**attempt) * (0.5 + 0.5 * jitter)


def _line(text: str, width: int = 300) -> str:
    line = " ".join(re.sub(r"<[^<>]{1,200}>", " ", text[:5000]).split())  # proxies answer with HTML pages
    return line if len(line) <= width else line[: width - 3] + "..."
