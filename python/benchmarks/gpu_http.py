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

from gswarm.worker.http import Limits, Server
from gswarm.worker.registry import Registry
from gswarm.worker.routes import Routes


def over_http(
    registry: Registry, model: str, prompt: str, new: int, batches: list[int]
) -> list[dict[str, Any]]:
    """With as many connections as sequences."""
    ready = threading.Event()
    box: dict[str, Any] = {}

    async def main() -> None:
        routes = Routes(registry)
        server = Server(routes.handle, Limits(), None)
        box["port"] = (await server.start("127.0.0.1", 0))[1]
        box["loop"], box["end"] = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await box["end"].wait()
        await server.stop(1.0)

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    ready.wait(30)

    def post(path: str, body: dict[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", box["port"], timeout=120)
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
        box["loop"].call_soon_threadsafe(box["end"].set)
        thread.join(10)
    return rows
