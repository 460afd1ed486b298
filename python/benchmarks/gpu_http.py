"""A section of `gpu_check.py`: tokens a second through the endpoints."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from gswarm.worker.http import Application, Limits
from gswarm.worker.registry import Registry
from gswarm.worker.routes import Routes
from gswarm.worker.server import create, listen


def over_http(
    registry: Registry, model: str, prompt: str, new: int, batches: list[int]
) -> list[dict[str, Any]]:
    """With as many connections as sequences."""
    sockets = listen("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    server = create(Application(Routes(registry).handle, Limits(), None), drain_seconds=1.0)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets)), daemon=True)
    thread.start()

    def post(path: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if not answer.get("success"):
            raise RuntimeError(str(answer)[:300])
        return answer["data"]

    rows = []
    try:
        id = post("/standalone/serve", {"model_name": model})["instance_id"]
        for batch in batches:
            call = {"data": {"prompt": prompt, "max_length": new}}
            with ThreadPoolExecutor(batch) as pool:
                began = time.perf_counter()
                answers = list(pool.map(partial(post, f"/standalone/call/{id}"), [call] * batch))
                taken = time.perf_counter() - began
            tokens = sum(one["new_tokens"] for one in answers)
            times = sorted(one["execution_time"] for one in answers)
            rows.append(
                {
                    "calls": batch,
                    "seconds": taken,
                    "tok_s": tokens / taken,
                    "median_call_s": times[len(times) // 2],
                }
            )
    finally:
        server.should_exit = True
        thread.join(10)
    return rows
