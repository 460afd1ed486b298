"""The worker's HTTP layer, with handlers of the tests in place of the endpoints. It needs no PyTorch."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from worker_client import GUARD, until

pytest.importorskip("uvicorn")

from gswarm.worker import http, server
from gswarm.worker.http import Application, Handler, Limits, Request, Response

GET = b"GET /standalone/x HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class Running:
    """A server in a thread of this process."""

    def __init__(self, handler: Handler, limits: Limits, drain: float) -> None:
        self.application = Application(handler, limits, None)
        self.server = server.create(self.application, drain)
        sockets = server.listen("127.0.0.1", 0)
        self.address = sockets[0].getsockname()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve(sockets)))
        self.thread.start()

    def connect(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection(self.address, timeout=GUARD)

    def exchange(self, data: bytes) -> tuple[int, Any]:
        """Status and JSON of the last response on a connection that the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return parsed(read_all(connection))

    def stop(self) -> None:
        """Stops it as a signal does."""
        self.server.should_exit = True
        self.thread.join(GUARD)
        assert not self.thread.is_alive()


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found


def parsed(response: bytes) -> tuple[int, Any]:
    head, _, body = response.rpartition(b"\r\n\r\n")
    assert b"application/json" in head, response
    status = int(head[head.rindex(b"HTTP/1.1 ") :].split()[1])
    return status, json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])


async def echo(request: Request) -> Response:
    return Response({"path": request.path, "size": len(request.body)})


@contextmanager
def running(handler: Handler = echo, drain: float = GUARD, **limits: Any) -> Iterator[Running]:
    one = Running(handler, Limits(**limits), drain)
    try:
        yield one
    finally:
        one.stop()


def test_a_request_that_cannot_be_parsed_gets_json() -> None:
    with running() as one:
        for data, status, code in [
            (b"nonsense\r\n\r\n", 400, "invalid_request"),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\nb ad: 1\r\n\r\n", 400, "invalid_request"),
            (b"GET / HTTP/1.1\r\n\r\n", 400, "invalid_request"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "invalid_request"),
            (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, 431, "head_too_large"),
            (post(b"Transfer-Encoding: chunked", b"zz\r\n"), 400, "invalid_request"),
            (post(b"Transfer-Encoding: gzip"), 400, "invalid_request"),
            (post(b"Content-Length: -1"), 400, "invalid_request"),
            (post(b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"), 400, "invalid_request"),
            (LAST.replace(b"localhost", b"[bad"), 403, "not_local"),
        ]:
            found, answer = one.exchange(data)
            assert (found, answer["error"]["code"]) == (status, code), data


def post(headers: bytes, body: bytes = b"") -> bytes:
    return b"POST /standalone/x HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n\r\n" + body


def test_bodies_have_a_limit() -> None:
    with running(body=100) as one:
        chunks = b"28\r\n" + b"x" * 40 + b"\r\n"
        for data in [
            post(b"Content-Length: 101"),
            post(b"Content-Length: 101\r\nExpect: 100-continue"),
            post(b"Transfer-Encoding: chunked", 3 * chunks),
        ]:
            status, answer = one.exchange(data)
            assert (status, answer["error"]["code"], answer["success"]) == (413, "body_too_large", False)
        whole = post(b"Transfer-Encoding: chunked\r\nConnection: close", 2 * chunks + b"0\r\n\r\n")
        assert one.exchange(whole) == (200, {"path": "/standalone/x", "size": 80})
        with one.connect() as connection:
            connection.sendall(post(b"Content-Length: 5\r\nExpect: 100-continue\r\nConnection: close"))
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
            connection.sendall(b"hello")
            assert parsed(read_all(connection))[1]["size"] == 5


def test_slow_clients_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(http, "BODY_SECONDS", 0.05)
        with running() as one:
            status, answer = one.exchange(post(b"Content-Length: 10", b"half"))
            assert (status, answer["error"]["code"]) == (408, "slow_body")
    with monkeypatch.context() as patch:
        patch.setattr(server, "IDLE_SECONDS", 0.05)
        with running() as one, one.connect() as silent:
            assert silent.recv(1) == b""
    with running() as one:
        one.server.config.timeout_keep_alive = 0
        assert one.exchange(GET)[0] == 200
    with monkeypatch.context() as patch:
        patch.setattr(server, "HEAD_SECONDS", 0.05)
        with running() as one, one.connect() as connection:
            connection.sendall(GET + GET[:20])
            until(lambda: one.server.server_state.total_requests == 1)
            connection.sendall(GET[20:30])
            assert parsed(read_all(connection))[0] == 200


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STALL_SECONDS", 0.05)
    ended = threading.Event()

    async def flood(_: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            while True:
                yield "x" * 100_000

        return Response(events=events(), ended=ended.set)

    with running(flood) as one, one.connect() as connection:
        connection.sendall(GET)
        assert ended.wait(GUARD)
        until(lambda: one.application.active == 0)


def test_connections_and_requests_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    free = threading.Event()

    async def wait(_: Request) -> Response:
        while not free.is_set():
            await asyncio.sleep(0.001)
        return Response({})

    with running(wait, requests=1) as one, one.connect() as first, one.connect() as second:
        first.sendall(LAST)
        until(lambda: one.application.active == 1)
        until(lambda: len(one.server.server_state.connections) == 2)
        with one.connect() as third:
            assert third.recv(1) == b""
        second.sendall(LAST)
        status, answer = parsed(read_all(second))
        assert (status, answer["error"]["code"]) == (503, "too_many_requests")
        free.set()
        assert parsed(read_all(first))[0] == 200


def test_failures_of_handlers_are_responses() -> None:
    async def fail(request: Request) -> Response:
        if request.path == "/late":
            await asyncio.sleep(GUARD)
        raise ZeroDivisionError

    with running(fail, seconds=0.05) as one:
        assert one.exchange(LAST.replace(b"/standalone/x", b"/late"))[0] == 504
        status, answer = one.exchange(LAST)
        assert (status, answer["error"]["code"], answer["success"]) == (500, "internal_error", False)


def test_a_handler_is_cancelled_when_its_client_disconnects() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def endless(_: Request) -> Response:
        begun.set()
        try:
            await asyncio.sleep(GUARD)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Response({})

    with running(endless) as one:
        with one.connect() as connection:
            connection.sendall(GET)
            assert begun.wait(GUARD)
        assert cancelled.wait(GUARD)


def test_idle_connections_need_no_threads() -> None:
    with running() as one:
        connections = [one.connect() for _ in range(100)]
        until(lambda: len(one.server.server_state.connections) == 100)
        before = threading.active_count()
        for connection in connections:
            connection.sendall(LAST)
        assert all(parsed(read_all(connection))[0] == 200 for connection in connections)
        assert threading.active_count() == before
        for connection in connections:
            connection.close()


@pytest.mark.parametrize("drain", [0.0, GUARD])
def test_a_server_that_stops(drain: float) -> None:
    begun, free = threading.Event(), threading.Event()

    async def wait(_: Request) -> Response:
        begun.set()
        while not free.is_set():
            await asyncio.sleep(0.001)
        return Response({})

    with running(wait, drain=drain) as one, one.connect() as idle, one.connect() as busy:
        busy.sendall(GET)
        assert begun.wait(GUARD)
        one.server.should_exit = True
        assert idle.recv(1) == b""
        if drain:
            free.set()
            assert parsed(read_all(busy)) == (200, {})
        else:
            assert read_all(busy) == b""


def test_a_stream_ends_with_the_connection_for_old_clients() -> None:
    async def stream(_: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            yield "one"
            yield "two"

        return Response(events=events())

    with running(stream) as one, one.connect() as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
        assert b"transfer-encoding" not in head.lower()
        assert body == b"data: one\n\ndata: two\n\n"
