"""An OpenAI-compatible server on loopback that misbehaves on request."""

from __future__ import annotations

import http.server
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """What came in. ``number`` counts requests that POST, from 0."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    number: int

    @property
    def asked(self) -> str:
        return self.body["messages"][-1]["content"]


@dataclass
class Answer:
    """What goes out: ``body`` is JSON unless it is bytes; ``hang`` waits (for the server's end at most) before it."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    drop: bool = False
    content_type: str = "application/json"


def completion(text: Any = "fine", finish: Any = "stop", usage: Any = "counted", **message: Any) -> Answer:
    """A chat completion."""
    body: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}]}
    if usage == "counted":
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    if usage is not None:
        body["usage"] = usage
    return Answer(body)


def error(status: int, message: str = "no", headers: dict[str, str] | None = None, **more: Any) -> Answer:
    """An error the way OpenAI words it."""
    return Answer({"error": {"message": message, "type": "error", **more}}, status, headers or {})


class FaultServer:
    """Serves until closed; ``behave`` is asked for every POST, ``models`` is what GET /models answers.

    Attributes:
        requests: the POSTs that came in, in order.
        most: most requests in flight at once.
    """

    def __init__(self, behave: Callable[[Request], Answer] | list[Answer] | None = None,
                 models: Answer | None = None) -> None:
        self.behave = behave or (lambda request: completion(f"re: {request.asked}"))
        self.models = models or Answer({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
        self.requests: list[Request] = []
        self.most = 0
        self._flying = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._connections: list[socket.socket] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                server._answer(self, server.models if self.path.endswith("/models") else error(404, "no such page"))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server._post(self, body)

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def get_request(self) -> Any:
                connection, address = super().get_request()
                server._connections.append(connection)
                return connection, address

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that hang up are part of the tests

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def _post(self, handler: Any, body: dict[str, Any]) -> None:
        with self._lock:
            self._flying += 1
            self.most = max(self.most, self._flying)
            request = Request(handler.path, {k.lower(): v for k, v in handler.headers.items()}, body,
                              len(self.requests))
            self.requests.append(request)
        try:
            if isinstance(self.behave, list):
                answer = self.behave[min(request.number, len(self.behave) - 1)]
            else:
                answer = self.behave(request)
            if answer.hang:
                self._over.wait(answer.hang)
        finally:
            with self._lock:
                self._flying -= 1
        self._answer(handler, answer)

    @staticmethod
    def _answer(handler: Any, answer: Answer) -> None:
        if answer.drop:  # a reset instead of an answer
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            handler.close_connection = True
            return
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        handler.send_response(answer.status)
        handler.send_header("content-type", answer.content_type)
        handler.send_header("content-length", str(len(data)))
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def close(self) -> None:
        self._over.set()
        self._http.shutdown()
        self._http.server_close()
        for connection in self._connections:  # a dead process takes its open connections with it
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def __enter__(self) -> FaultServer:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()
