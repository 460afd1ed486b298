"""HTTP/1.1 with nothing but the standard library: keep-alive, chunks, limits, and a fault is always an
answer in JSON.

The machines that workers run on often have PyTorch and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from .fault import Fault, invalid, unavailable

LOG = logging.getLogger("gswarm.worker")
HEAD_BYTES = 64 << 10
HEAD_SECONDS = 30.0
BODY_SECONDS = 30.0
IDLE_SECONDS = 120.0
STALL_SECONDS = 60.0


@dataclass
class Request:
    """A request, with all of its body."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object. It has to say that it is one, or any page in a browser could send it."""
        kind = self.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Fault(415, "not_json", "the body has to be JSON, with `Content-Type: application/json`")
        try:
            value = json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise invalid(f"the body is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise invalid("the body has to be a JSON object")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@dataclass
class Response:
    """An answer: JSON, or events one by one."""

    value: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: AsyncIterator[str] | None = None
    ended: Callable[[], None] | None = None
    """Called when the events are over, or nobody wants them any more."""


Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Limits:
    """How much a server takes on."""

    body: int = 8 << 20
    requests: int = 2048
    connections: int = 4096
    seconds: float = 600.0


class _Closed(Exception):
    """The other side is gone."""


class Server:
    """Listens, and hands requests to a handler."""

    def __init__(self, handler: Handler, limits: Limits, token: str | None) -> None:
        self.handler, self.limits, self.token = handler, limits, token
        self.active = 0
        self.connections: set[_Connection] = set()
        self.stopping = False
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Takes the address; which it is."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1024)
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def stop(self, drain: float) -> None:
        """Takes nothing more on, and waits for what is being answered."""
        self.stopping = True
        if self._server is not None:
            self._server.close()
        end = asyncio.get_running_loop().time() + drain
        while self.active and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.close()

    def guard(self, request: Request) -> None:
        """Who may ask."""
        if self.token is not None:
            if request.path == "/health":
                return
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
                raise Fault(401, "invalid_token", "send the server's token as `Authorization: Bearer`")
            return
        host = urlsplit("//" + request.headers.get("host", "localhost")).hostname or ""
        if host not in ("localhost", "::1") and not host.startswith("127."):
            raise Fault(
                403, "not_local", "without a token this server answers to this machine's own name alone"
            )

    async def answer(self, request: Request) -> Response:
        """The answer, whatever happens."""
        try:
            self.guard(request)
            if self.stopping:
                raise unavailable("stopping", "the server is ending: it takes nothing more on")
            if self.active > self.limits.requests:
                raise unavailable(
                    "too_many_requests", f"{self.limits.requests} requests are being answered already"
                )
            return await asyncio.wait_for(self.handler(request), self.limits.seconds)
        except Fault as fault:
            return failed(fault, request.path)
        except TimeoutError:
            message = f"there was no answer within {self.limits.seconds:.0f} s"
            return failed(Fault(504, "timed_out", message), request.path)
        except Exception:
            LOG.exception("%s %s failed", request.method, request.path)
            message = "this is a fault of the server; its log has the details"
            return failed(Fault(500, "internal_error", message), request.path)


def failed(fault: Fault, path: str) -> Response:
    """An answer that says what is wrong."""
    headers = {}
    if fault.retry_after is not None:
        headers["Retry-After"] = str(fault.retry_after)
    if fault.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(fault.body(path), fault.status, headers)


class _Connection(asyncio.Protocol):
    """One connection: reads requests one after the other, and ends what is computed for it when it goes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = bytearray()
        self.gone = False
        self.arrived = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if len(self.server.connections) >= self.server.limits.connections:
            transport.close()
            return
        self.server.connections.add(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.arrived.set()
        # Whoever sends on while being answered waits: memory has to have a bound.
        if len(self.buffer) > self.server.limits.body + HEAD_BYTES and self.transport is not None:
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.gone = True
        self.server.connections.discard(self)
        self.arrived.set()
        self.writable.set()
        if self.task is not None and self.busy:
            self.task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def close(self) -> None:
        """Hangs up."""
        if self.transport is not None:
            self.transport.close()

    async def _more(self, seconds: float) -> None:
        if self.gone:
            raise _Closed
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        self.arrived.clear()
        await asyncio.wait_for(self.arrived.wait(), seconds)
        if self.gone and not self.buffer:
            raise _Closed

    async def _serve(self) -> None:
        try:
            while not self.gone and await self._one():
                pass
        except (TimeoutError, _Closed, asyncio.CancelledError, ConnectionError):
            pass
        except Exception:
            LOG.exception("a connection failed")
        finally:
            self.close()

    async def _one(self) -> bool:
        """Reads and answers one request; whether there may be another."""
        path = "/"
        try:
            method, target, version, headers = await self._head()
            path = unquote(urlsplit(target).path) or "/"
            body = await self._body(headers)
        except Fault as fault:
            await self._send(failed(fault, path), keep=False)
            return False
        keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        self.server.active += 1
        self.busy = True
        try:
            response = await self.server.answer(Request(method, path, headers, body))
            try:
                await self._send(response, keep)
            finally:
                if response.ended is not None:
                    response.ended()
        finally:
            self.busy = False
            self.server.active -= 1
        return keep and not self.server.stopping

    async def _head(self) -> tuple[str, str, str, dict[str, str]]:
        waited = IDLE_SECONDS
        while (end := self.buffer.find(b"\r\n\r\n", 0, HEAD_BYTES + 4)) < 0:
            if len(self.buffer) > HEAD_BYTES:
                raise Fault(431, "head_too_large", f"a request's head has {HEAD_BYTES} bytes at most")
            await self._more(waited)
            waited = HEAD_SECONDS
        head = bytes(self.buffer[:end]).decode("latin-1")
        del self.buffer[: end + 4]
        first, *lines = head.split("\r\n")
        parts = first.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1.") or not parts[1].startswith("/"):
            raise invalid("the request's first line is no HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name != name.strip() or not name:
                raise invalid("a header of the request is malformed")
            name = name.lower()
            if name in ("content-length", "transfer-encoding", "host") and name in headers:
                raise invalid(f"the header `{name}` comes twice")
            headers[name] = value.strip()
        return parts[0], parts[1], parts[2], headers

    async def _body(self, headers: dict[str, str]) -> bytes:
        try:
            return await asyncio.wait_for(self._whole_body(headers), BODY_SECONDS)
        except TimeoutError:
            raise Fault(408, "slow_body", "the body did not come in time") from None

    async def _whole_body(self, headers: dict[str, str]) -> bytes:
        most = self.server.limits.body
        too_large = Fault(413, "body_too_large", f"a request's body has {most} bytes at most")
        length, coding = headers.get("content-length"), headers.get("transfer-encoding")
        if coding is not None and (coding.lower() != "chunked" or length is not None):
            raise invalid("the body's length is not clear")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise invalid("`Content-Length` is no number")
        if length is not None and (len(length) > 18 or int(length) > most):
            raise too_large
        if headers.get("expect", "").lower() == "100-continue" and self.transport is not None:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if coding is None:
            return await self._exactly(int(length or 0))
        body = bytearray()
        while True:
            size = (await self._line()).split(b";")[0].strip()
            try:
                count = int(size, 16) if size.isalnum() else -1
            except ValueError:
                count = -1
            if count < 0:
                raise invalid("a chunk of the body has no length")
            if len(body) + count > most:
                raise too_large
            if count == 0:
                while await self._line():
                    pass
                return bytes(body)
            body += await self._exactly(count)
            if await self._line():
                raise invalid("a chunk of the body does not end where it should")

    async def _exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            if self.gone:
                raise _Closed
            await self._more(BODY_SECONDS)
        taken = bytes(self.buffer[:count])
        del self.buffer[:count]
        return taken

    async def _line(self) -> bytes:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if len(self.buffer) > HEAD_BYTES:
                raise invalid("a line of the body is too long")
            if self.gone:
                raise _Closed
            await self._more(BODY_SECONDS)
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    async def _write(self, data: bytes) -> None:
        if self.gone or self.transport is None or self.transport.is_closing():
            raise _Closed
        self.transport.write(data)
        if not self.writable.is_set():
            await asyncio.wait_for(self.writable.wait(), STALL_SECONDS)

    async def _send(self, response: Response, keep: bool) -> None:
        reason = HTTPStatus(response.status).phrase
        lines = [f"HTTP/1.1 {response.status} {reason}"]
        headers = {"Connection": "keep-alive" if keep else "close", **response.headers}
        if response.events is None:
            body = json.dumps(response.value, ensure_ascii=False, allow_nan=False).encode()
            headers.update({"Content-Type": "application/json", "Content-Length": str(len(body))})
            lines += [f"{name}: {value}" for name, value in headers.items()]
            await self._write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            return
        headers.update(
            {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "Transfer-Encoding": "chunked"}
        )
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._write("\r\n".join(lines).encode() + b"\r\n\r\n")
        async for event in response.events:
            data = f"data: {event}\n\n".encode()
            await self._write(b"%x\r\n%s\r\n" % (len(data), data))
        await self._write(b"0\r\n\r\n")
