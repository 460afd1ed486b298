"""The HTTP server: uvicorn, with timeouts for slow clients and JSON for requests that cannot be parsed."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from http import HTTPStatus
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from .fault import Fault, invalid
from .http import Application

MAX_CONNECTIONS = 4096
HEAD_BYTES = 64 << 10
HEAD_SECONDS = 30.0
IDLE_SECONDS = 120
STALL_SECONDS = 60.0


def create(application: Application, drain_seconds: float) -> Server:
    """A server for the application; `serve(sockets=listen(...))` runs it until `should_exit` is set."""
    config = uvicorn.Config(
        application,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=1024,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=drain_seconds,  # type: ignore[arg-type]  # Fractions work too.
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = Server(config)
    application.stopping = lambda: server.should_exit
    return server


def listen(host: str, port: int) -> list[socket.socket]:
    """Listens on every address of the host. Port 0 lets the system choose."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    return [socket.create_server(address, family=family, backlog=1024) for family, address in addresses]


class Server(uvicorn.Server):
    """uvicorn's server, which also disconnects clients whose calls did not end in time for the shutdown."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes idle connections, waits for running calls, and drops the rest."""
        await super().shutdown(sockets)
        for connection in self.server_state.connections:
            connection.transport.abort()


class Connection(H11Protocol):
    """uvicorn's connection, which also ends when a client sends or reads too slowly."""

    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Waits for the first request."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        # Head and body are two writes: the second would wait until the client acknowledges the first.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head_timer = self.loop.call_later(IDLE_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Limits the time until the end of a request's head. uvicorn limits it to the first byte only."""
        super().data_received(data)
        incomplete = self.conn.their_state is h11.IDLE
        if incomplete and self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)
        elif not incomplete and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        """Watches a client that reads more slowly than it is written to."""
        super().pause_writing()
        self._abort_when_stalled(None)

    def _abort_when_stalled(self, before: int | None) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent == before:
            self.transport.abort()
        else:
            self._stall_timer = self.loop.call_later(STALL_SECONDS, self._abort_when_stalled, unsent)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        super().connection_lost(exc)
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Says in JSON why a request cannot be parsed. uvicorn calls this while it handles h11's error."""
        fault = invalid("the request is no valid HTTP/1.1")
        if getattr(sys.exc_info()[1], "error_status_hint", 400) == 431:
            fault = Fault(431, "head_too_large", f"a request's head has {HEAD_BYTES} bytes at most")
        body, reason = json.dumps(fault.body("/")).encode(), HTTPStatus(fault.status).phrase
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        response = h11.Response(status_code=fault.status, headers=list(headers.items()), reason=reason)
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
