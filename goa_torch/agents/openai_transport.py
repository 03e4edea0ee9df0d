"""One server: its address, the key it wants, and requests that come back as decoded JSON or as a refusal."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from ..errors import UserError
from .openai_errors import NOT_TEXT, Refusal, Refused, decode, read_refusal

#: Sent where no key is needed; the SDK insists on one.
PLACEHOLDER = "EMPTY"


class Transport:
    """Requests to one OpenAI-compatible server, made by the openai SDK (whose own retries are off).

    The key is read from the environment when the client opens and lives in the client alone. Whatever the server says
    passes through :meth:`redact` before anything else sees it, and errors are raised without the SDK's exceptions
    behind them, which quote headers.

    Args:
        base_url: where the API lies, ``http://localhost:8000/v1`` say; without credentials or a query.
        api_key_env: the variable that holds the key; ``None`` for a server without keys. A server on this machine or
            network needs none.
        timeout: most seconds for one attempt.
        connect_timeout: most seconds for connecting.
    """

    def __init__(self, base_url: str, api_key_env: str | None, timeout: float, connect_timeout: float) -> None:
        self.base_url = base_url.rstrip("/")
        self.api_key_env = api_key_env
        self.timeout = timeout
        self.connect_timeout = connect_timeout
        try:
            url = urlsplit(self.base_url)
            readable = url.port != 0  # a port that is no number is an error of its own
        except ValueError:
            url, readable = urlsplit(""), False
        if not readable or url.scheme not in ("http", "https") or not url.hostname:
            raise UserError(f"server: base_url must look like http://localhost:8000/v1, not {_bare(self.base_url)!r}")
        if url.username or url.password or url.query or url.fragment:
            raise UserError(f"server {url.hostname}: base_url must hold no credentials and no query; keys come from "
                            "the environment variable that api_key_env names")
        self.host = url.netloc
        self._hostname = url.hostname
        self._sdk: Any = None

    @property
    def local(self) -> bool:
        """Whether the server is on this machine or this network, where keys are unusual."""
        try:
            address = ipaddress.ip_address(self._hostname)
        except ValueError:
            return "." not in self._hostname or self._hostname.endswith((".local", ".localhost", ".internal"))
        return address.is_private or address.is_loopback or address.is_unspecified or address.is_link_local

    @property
    def _loopback(self) -> bool:
        return self._hostname == "localhost" or self._hostname.startswith("127.") or self._hostname == "::1"

    def open(self) -> None:
        """Makes the client, if there is none.

        Raises:
            UserError: the SDK is not installed, or the key is missing or malformed.
        """
        if self._sdk is not None:
            return
        try:
            import openai
        except ImportError:
            raise UserError(f"server {self.host}: the openai package is missing; "
                            "run: pip install 'goa_torch[api]'") from None
        # A proxy meant for the outside cannot reach this machine's own ports.
        client = openai.DefaultAsyncHttpxClient(trust_env=False) if self._loopback else None
        self._sdk = openai.AsyncOpenAI(
            base_url=self.base_url, api_key=self._key(), max_retries=0, http_client=client,
            timeout=openai.Timeout(self.timeout, connect=self.connect_timeout))

    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "").strip() if self.api_key_env else ""
        if not key:
            if self.api_key_env and not self.local:
                raise UserError(f"server {self.host}: no key; set the environment variable {self.api_key_env}, or "
                                "name another with api_key_env (null for a server without keys)")
            return PLACEHOLDER
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UserError(f"server {self.host}: the key in {self.api_key_env} holds characters that no HTTP header "
                            "may hold; copy it again")
        return key

    def redact(self, text: str) -> str:
        """``text`` without the key. Keys of fewer than 8 characters are taken for placeholders."""
        key = self._sdk.api_key if self._sdk is not None else ""
        return text.replace(key, "***") if len(key) >= 8 else text

    async def models(self) -> Any:
        """GET ``/models``."""
        return await self._send(lambda: self._sdk.models.with_raw_response.list())

    async def chat(self, body: dict[str, Any], extra: dict[str, Any] | None) -> Any:
        """POST ``/chat/completions``; ``extra`` holds fields that are not OpenAI's."""
        return await self._send(lambda: self._sdk.chat.completions.with_raw_response.create(**body, extra_body=extra))

    async def completions(self, body: dict[str, Any]) -> Any:
        """POST ``/completions``."""
        return await self._send(lambda: self._sdk.completions.with_raw_response.create(**body))

    async def embeddings(self, body: dict[str, Any]) -> Any:
        """POST ``/embeddings``."""
        return await self._send(lambda: self._sdk.embeddings.with_raw_response.create(**body))

    async def tokenize(self, body: dict[str, Any]) -> Any:
        """POST ``/tokenize``, which vLLM serves beside ``/v1``."""
        root = self.base_url.removesuffix("/v1")
        return await self._send(lambda: self._sdk.post(f"{root}/tokenize", cast_to=object, body=body))

    async def close(self) -> None:
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            await sdk.close()

    async def _send(self, request: Callable[[], Awaitable[Any]]) -> Any:
        """The decoded JSON of an answer.

        Raises:
            Refused: there was no such answer.
        """
        import openai

        try:
            # The client's own timeout runs anew with every piece it reads; this one bounds the whole attempt.
            response = await asyncio.wait_for(request(), self.timeout)
            if not hasattr(response, "http_response"):
                return response
            return decode(self.redact(response.http_response.content.decode("utf-8", "replace")))
        except (asyncio.exceptions.TimeoutError, openai.APITimeoutError):  # Python 3.10: not the builtin
            refusal = Refusal(f"no answer within {self.timeout:g} s")
        except openai.APIStatusError as error:
            text = self.redact(error.response.content.decode("utf-8", "replace"))
            refusal = read_refusal(error.status_code, error.response.headers, text)
        except openai.APIConnectionError as error:
            cause = error.__cause__
            refusal = Refusal(self.redact(f"connection failed: {cause or 'no reason given'}"))
        except UnicodeEncodeError as error:  # of the request: asking again would not help
            what = error.object[error.start]
            refusal = Refusal(f"the request holds {what!r}, which UTF-8 cannot encode", code=NOT_TEXT)
        except (ValueError, RecursionError):
            refusal = Refusal("the answer is not JSON")
        raise Refused(refusal) from None


def _bare(url: str) -> str:
    """``url`` without anything that may be secret, for messages."""
    return url.rpartition("@")[2].partition("?")[0]
