"""A batch that `gswarm run` carries out on a worker, and a log that passes `gswarm check`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from worker_client import GUARD, ROOT, Worker

pytest.importorskip("torch")


def binary() -> Path:
    """The program, where it was built."""
    named = os.environ.get("GSWARM_BIN")
    places = [Path(named)] if named else [ROOT / "target" / kind / "gswarm" for kind in ("debug", "release")]
    for place in places:
        if place.is_file():
            return place
    pytest.skip("there is no gswarm: build it, or name it in GSWARM_BIN")


CONFIG = """
models:
  writer: {name: Writer, memory_gb: 0.4, GPUS, inference_time_mean: 0.1, type: llm}
  critic: {name: Critic, memory_gb: 0.4, GPUS, inference_time_mean: 0.1, type: llm}
  finder: {name: Finder, memory_gb: 0.4, GPUS, inference_time_mean: 0.05, type: embedding}
  painter: {name: Painter, memory_gb: 0.4, GPUS, inference_time_mean: 0.1, type: image_generation}
workflows:
  story:
    name: A story, what a critic says of it, a picture of it and where to find it
    nodes:
      - {id: write, model: writer, inputs: [wish], outputs: [story], config_options: [max_length]}
      - {id: judge, model: critic, inputs: [story], outputs: [verdict], config_options: [max_length]}
      - {id: paint, model: painter, inputs: [story], outputs: [image], config_options: [steps]}
      - {id: index, model: finder, inputs: [story], outputs: [place]}
    edges: [{from: write, to: judge}, {from: write, to: paint}, {from: write, to: index}]
cluster: {gpus: 1, gpu_memory_gb: 1, switch_cost: load_time, pcie_gb_per_s: 16}
"""


@pytest.mark.parametrize(
    ("policy", "flags"),
    [
        ("planned", []),
        # Less host memory than the models take together.
        ("baseline", ["--host-gb", "0.0015"]),
    ],
)
def test_a_batch_runs_on_a_worker(policy: str, flags: list[str], tmp_path: Path) -> None:
    gswarm = binary()
    requests = [
        {
            "request_id": f"r{n:02}",
            "timestamp": n / 100,
            "workflow_id": "story",
            "input_data": {"wish": f"Tell of number {n}"},
            "node_configs": {"write": {"max_length": 12}, "judge": {"max_length": 8}, "paint": {"steps": 2}},
        }
        for n in range(12)
    ]
    (tmp_path / "config.yaml").write_text(CONFIG.replace("GPUS", "gpus_required: 1, load_time_seconds: 0.2"))
    (tmp_path / "requests.json").write_text(json.dumps({"requests": requests}))
    names = ["writer=tiny-llm", "critic=tiny-llm", "finder=tiny-embedding", "painter=tiny-image"]
    worker = Worker(
        *[part for name in names for part in ("--random", name)],
        *("--max-batch", "8", "--out", str(tmp_path), *flags),
    )
    try:
        servers = {"backends": [{"name": "here", "kind": "gswarm", "url": worker.url, "device": "cpu"}]}
        (tmp_path / "servers.yaml").write_text(json.dumps(servers))
        files = ["--config", str(tmp_path / "config.yaml"), "--requests", str(tmp_path / "requests.json")]
        command = [
            str(gswarm),
            "run",
            "--live",
            "--backends",
            str(tmp_path / "servers.yaml"),
            "--policy",
            policy,
            *files,
            "--out",
            str(tmp_path / "live"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        log = next((tmp_path / "live").glob("*_execution_log.json"))
        checked = subprocess.run(
            [str(gswarm), "check", str(log), *files], capture_output=True, text=True, timeout=GUARD
        )
        assert checked.returncode == 0, checked.stdout[-3000:] + checked.stderr[-1000:]
        results = next((tmp_path / "live").glob("*_results.jsonl")).read_text().splitlines()
        assert len(results) == len(requests)
        for line in results:
            one = json.loads(line)
            assert one["status"] == "completed", one
        assert "image" in results[0]
    finally:
        worker.stop()
