"""`python -m gswarm.worker`."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import sys

from .engine import LOG
from .fault import Fault
from .http import Application, Limits
from .options import Options, read
from .registry import Registry
from .routes import Routes
from .server import create, listen
from .shapes import SHAPES


def refusal(options: Options) -> str | None:
    """Why the worker must not listen on this address."""
    try:
        local = options.host == "localhost" or ipaddress.ip_address(options.host).is_loopback
    except ValueError:
        local = False
    if options.token is None and not local:
        return f"{options.host} can be reached from other machines, but there is no token"
    if options.token is not None and len(options.token) < 16:
        return f"the token has {len(options.token)} characters; it needs at least 16"
    return no_models(options)


def no_models(options: Options) -> str | None:
    """Why there is nothing to serve."""
    root = options.models
    if root is None:
        shapes = ", ".join(SHAPES)
        none = f"there is no model to serve: give --models DIR, or --random SHAPE of {shapes}"
        return None if options.random else none
    if not root.is_dir():
        return f"--models {root}: there is no such folder"
    if (root / "config.json").is_file():
        return f"--models {root}: this is a model; pass its parent folder"
    return None


async def serve(options: Options) -> None:
    """Serves until it is stopped. The first line of output is the address."""
    registry = Registry(options)
    routes = Routes(registry)
    limits = Limits(
        body=options.max_body_mb << 20, requests=options.max_requests, seconds=options.request_timeout
    )
    server = create(Application(routes.handle, limits, options.token), options.drain_timeout)
    LOG.info("%s", registry.place.budgets())
    if not registry.models and not registry.folders():
        LOG.warning("%s has no model yet: a folder with a config.json is one", options.models)
    if options.preload:
        await registry.preload()
    sockets = listen(options.host, options.port)
    host, port = sockets[0].getsockname()[:2]
    routes.port, routes.url = port, f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    for one in (signal.SIGINT, signal.SIGTERM):
        # uvicorn catches signals while it serves, and raises them again when it has stopped: they end here.
        signal.signal(one, lambda *_: setattr(server, "should_exit", True))
    print(routes.url, flush=True)
    await server.serve(sockets)
    registry.close()


def main(arguments: list[str] | None = None) -> int:
    """Runs the worker; the exit status."""
    options = read(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    why_not = refusal(options)
    if why_not is not None:
        print(f"error: {why_not}", file=sys.stderr)
        return 2
    try:
        asyncio.run(serve(options))
    except (Fault, OSError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread may still be at something that nobody waits for any more: it is not waited for either.
    os._exit(status)
