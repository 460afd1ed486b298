"""The worker's ASGI application: reads requests, checks who may send them, and sends JSON or events.

It turns every failure into a JSON error, and cancels the work for a client that disconnects.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from .fault import Fault, invalid, unavailable

LOG = logging.getLogger("gswarm.worker")
BODY_SECONDS = 30.0

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@dataclass
class Request:
    """A request with its whole body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object.

        The content type is required: browsers let any page send a body without it.
        """
        kind = self.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Fault(415, "not_json", "the body must be JSON, with `Content-Type: application/json`")
        try:
            value = json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise invalid(f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise invalid("the body must be a JSON object")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@dataclass
class Response:
    """A response: one JSON value, or a stream of server-sent events."""

    value: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: AsyncIterator[str] | None = None
    ended: Callable[[], None] | None = None
    """Called after the last event, or when the client has disconnected."""


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Limits:
    """Bytes of a body, requests at the same time, and seconds to a response."""

    body: int = 8 << 20
    requests: int = 2048
    seconds: float = 600.0


class Application:
    """An ASGI application that passes requests to a handler."""

    def __init__(self, handler: Handler, limits: Limits, token: str | None) -> None:
        self.handler, self.limits, self.token = handler, limits, token
        self.active = 0
        self.stopping: Callable[[], bool] = lambda: False
        """Whether the server is shutting down."""

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answers one request."""
        path = scope["path"] or "/"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        body: bytes | None = b""
        try:
            if "content-length" in headers or "transfer-encoding" in headers:
                body = await asyncio.wait_for(read_body(headers, receive, self.limits.body), BODY_SECONDS)
        except asyncio.TimeoutError:
            slow = Fault(408, "slow_body", "the body did not arrive in time")
            return await send_response(error_response(slow, path, close=True), send)
        except Fault as fault:
            # The rest of the body is not read: it would be taken for the next request.
            return await send_response(error_response(fault, path, close=True), send)
        if body is None:
            return None
        task = asyncio.current_task()
        assert task is not None
        watcher = asyncio.ensure_future(_cancel_on_disconnect(receive, task))
        response: Response | None = None
        self.active += 1
        try:
            response = await self.respond(Request(scope["method"], path, headers, body))
            await send_response(response, send, watcher.done)
        except asyncio.CancelledError:
            pass  # The client has disconnected, or is disconnected because the server stops.
        finally:
            self.active -= 1
            watcher.cancel()
            if response is not None and response.ended is not None:
                response.ended()

    def authorize(self, request: Request) -> None:
        """Refuses callers without the token, or, where there is none, requests for another host name."""
        if self.token is not None:
            given = request.headers.get("authorization", "")
            expected = f"Bearer {self.token}"
            if request.path != "/health" and not hmac.compare_digest(given.encode(), expected.encode()):
                raise Fault(401, "invalid_token", "send the server's token as `Authorization: Bearer`")
            return
        try:
            host = urlsplit("//" + request.headers.get("host", "localhost")).hostname or ""
        except ValueError:
            host = ""
        if host not in ("localhost", "::1") and not host.startswith("127."):
            raise Fault(
                403, "not_local", "without a token, this server accepts only this machine's own host names"
            )

    async def respond(self, request: Request) -> Response:
        """The handler's response, or one that says what went wrong."""
        try:
            self.authorize(request)
            if self.stopping():
                raise unavailable("stopping", "the server is shutting down and accepts no more requests")
            if self.active > self.limits.requests:
                busy = f"{self.limits.requests} requests are in progress, which is the maximum"
                raise unavailable("too_many_requests", busy)
            return await asyncio.wait_for(self.handler(request), self.limits.seconds)
        except Fault as fault:
            return error_response(fault, request.path)
        except asyncio.TimeoutError:
            message = f"there was no answer within {self.limits.seconds:.0f} s"
            return error_response(Fault(504, "timed_out", message), request.path)
        except Exception:
            LOG.exception("%s %s failed", request.method, request.path)
            message = "internal server error; see the server's log"
            return error_response(Fault(500, "internal_error", message), request.path)


async def _cancel_on_disconnect(receive: Receive, task: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


async def read_body(headers: dict[str, str], receive: Receive, limit: int) -> bytes | None:
    """The whole body; `None` when the client disconnects before its end."""
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy may go by the other header: a second request could be hidden in the body.
        raise invalid("the body's length is ambiguous")
    too_large = Fault(413, "body_too_large", f"a request's body has {limit} bytes at most")
    if int(headers.get("content-length", 0)) > limit:
        raise too_large
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        more = message["more_body"]
        if len(body) > limit:
            raise too_large
    return bytes(body)


def error_response(fault: Fault, path: str, close: bool = False) -> Response:
    """A response that says what went wrong."""
    headers = {"Connection": "close"} if close else {}
    if fault.retry_after is not None:
        headers["Retry-After"] = str(fault.retry_after)
    if fault.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(fault.body(path), fault.status, headers)


async def send_response(
    response: Response, send: Send, disconnected: Callable[[], bool] = lambda: False
) -> None:
    """Sends JSON, or events as they come until the client disconnects."""
    body, headers = b"", {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    if response.events is None:
        body = json.dumps(response.value, ensure_ascii=False, allow_nan=False).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    pairs = [(name.encode(), value.encode()) for name, value in {**headers, **response.headers}.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": pairs})
    if response.events is not None:
        async for event in response.events:
            if disconnected():
                return
            data = f"data: {event}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": body, "more_body": False})
