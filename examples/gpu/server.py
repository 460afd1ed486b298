"""The worker that `measure.py` measures: started where none is there, warmed up, and ended by its number."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "writer": "llama-7b",
    "critic": "llama-13b",
    "router": "llama-1b",
    "finder": "bge-large",
    "painter": "sdxl",
}
TINY = {
    "writer": "tiny-llm",
    "critic": "tiny-llm",
    "router": "tiny-llm",
    "finder": "tiny-embedding",
    "painter": "tiny-image",
}
BARE = """
import runpy, sys, types
package = types.ModuleType("gswarm")
package.__path__ = [sys.argv.pop(1)]
sys.modules["gswarm"] = package
runpy.run_module("gswarm.worker", run_name="__main__", alter_sys=True)
"""
"""Starts the worker of a source tree in which the package's Rust library is not built."""


class Failed(Exception):
    """Something cannot be done; why."""


class Server:
    """A worker, by what is kept of it in `known`: its number, its address and what it said of itself."""

    def __init__(
        self, work: Path, args: argparse.Namespace, known: dict[str, Any], say: Callable[[str], None]
    ):
        self.work, self.args, self.known, self.say = work, args, known, say
        self.shapes = TINY if args.tiny else MODELS
        self.own: int | None = None
        """Its number, once it is known that it is the worker's: numbers of another day may be anybody's."""

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, limit: float = 120) -> Any:
        """Asks it."""
        data = None if body is None else json.dumps(body).encode()
        head = {"content-type": "application/json"}
        request = urllib.request.Request(self.known["url"] + path, data, head, method=method)
        with urllib.request.urlopen(request, timeout=limit) as answer:
            return json.loads(answer.read())

    def ready(self, patience: float) -> Path:
        """Sees that it runs, has done everything once and holds nothing; the file that names it."""
        if self.known.get("pid") and self.own is None:
            try:
                self.ask("GET", "/health", limit=10)
                self.own = int(self.known["pid"])
            except (OSError, ValueError, KeyError):
                self.say("the worker of the last command is gone")
        if self.own is None or gone(self.own):
            self.own = None
            self.start(patience)
        for one in self.models("serving_instances"):
            self.ask("DELETE", f"/standalone/instance/{one['instance_id']}")
        backend = {"name": "gpu", "kind": "gswarm", "url": self.known["url"]}
        if self.args.device == "cpu":
            backend["device"] = "cpu"
        path = self.work / "backends.yaml"
        path.write_text(json.dumps({"backends": [backend]}) + "\n")
        return path

    def models(self, what: str = "models") -> list[dict[str, Any]]:
        """What it says of its models."""
        found: list[dict[str, Any]] = self.ask("GET", "/standalone/status")[what]
        return found

    def start(self, patience: float) -> None:
        """Starts it, and has each model do its work once at a few sizes."""
        began, address = time.monotonic(), self.work / "worker.url"
        paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        probe = [sys.executable, "-c", "import gswarm"]
        whole = subprocess.run(probe, env=environment, capture_output=True, timeout=60).returncode == 0
        by = ["-m", "gswarm.worker"] if whole else ["-c", BARE, str(ROOT / "python" / "gswarm")]
        command = [sys.executable, *by, "--device", self.args.device, "--port", str(self.args.port)]
        command += [part for name, shape in self.shapes.items() for part in ("--random", f"{name}={shape}")]
        command += ["--preload", "--out", str(self.work / "pictures"), *self.args.worker_args.split()]
        (self.work / "pictures").mkdir(exist_ok=True)
        with address.open("w") as output, (self.work / "worker.log").open("a") as log:
            # A session of its own lets it live on to the next command.
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )
        self.own = process.pid
        self.known.clear()
        self.known.update(pid=process.pid, command=command)
        while not address.read_text().endswith("\n"):
            if process.poll() is not None or time.monotonic() - began > patience:
                self.stop()
                raise Failed(f"the worker did not start: {(self.work / 'worker.log').read_text()[-1500:]}")
            time.sleep(0.2)
        self.known.update(url=address.read_text().split()[0], start_seconds=time.monotonic() - began)
        self.say(f"the worker listens at {self.known['url']}")
        began = time.monotonic()
        for name in self.shapes:
            self.warm(name)
        self.known.update(warm_seconds=time.monotonic() - began, models_when_warm=self.models())
        self.say(f"every model has worked once, {time.monotonic() - began:.1f} s")

    def warm(self, model: str) -> None:
        """Has built what the first call, and the first of a size, needs; the second wake is a usual one."""
        work = {"steps": 1} if model == "painter" else {"max_length": 4}
        for calls in ((1, 2, 4, 8, 16, 32), (1,)):
            device = str(self.args.device)
            told = self.ask("POST", "/standalone/serve", {"model_name": model, "device": device})
            instance = told["data"]["instance_id"]

            def call(number: int, instance: str = instance) -> None:
                data = {"prompt": f"{number} " + "warm " * 60, **work}
                self.ask("POST", f"/standalone/call/{instance}", {"instance_id": instance, "data": data})

            with ThreadPoolExecutor(32) as pool:
                for count in calls:
                    list(pool.map(call, range(count)))
            self.ask("DELETE", f"/standalone/instance/{instance}")

    def stop(self) -> None:
        """Ends it, if it is this program's."""
        pid, self.own = self.own, None
        if pid is None:
            return
        self.known.pop("pid", None)
        try:
            os.kill(pid, signal.SIGTERM)
            for _ in range(200):
                if gone(pid):
                    return
                time.sleep(0.1)
            os.kill(pid, signal.SIGKILL)
            gone(pid)
        except ProcessLookupError:
            return


def gone(pid: int) -> bool:
    """Whether a process is no more; one that was started here is reaped."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False
