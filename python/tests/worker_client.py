"""A worker for tests, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a token of more than sixteen letters"


class Worker:
    """A worker that runs, and how it is asked."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "gswarm.worker", "--port", "0", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True, cwd=ROOT
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(self.process.communicate()[1])
        self.port = int(self.url.rsplit(":", 1)[1])

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            given = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, given, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        """The same, of a POST."""
        return self.ask("POST", path, body)

    def serve(self, name: str) -> str:
        """Starts an instance; its id."""
        status, answer = self.post("/standalone/serve", {"model_name": name})
        assert status == 200, answer
        return str(answer["data"]["instance_id"])

    def model(self, name: str) -> dict[str, Any]:
        """What the status says of a model."""
        _, status = self.ask("GET", "/standalone/status")
        return next(one for one in status["models"] if one["model_name"] == name)

    def stop(self) -> int:
        """Tells it to end; how it ended."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=120)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        return self.process.returncode
