"""Generated requests against a model server: run.py URL CASES. Called by `cargo xtask fuzz-http`."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

# Of the operations only those with a body have as many different requests as are asked for.
OPERATIONS = 8
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def post(url, path, body):
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def main():
    url, cases = sys.argv[1], int(sys.argv[2])
    models = json.load(urllib.request.urlopen(url + "/standalone/status", timeout=60))["models_on_disk"]
    names = [model["model_name"] for model in models]
    ids = [post(url, "/standalone/serve", {"model_name": name})["data"]["instance_id"] for name in names]
    here = Path(__file__).parent
    environment = dict(
        os.environ,
        GSWARM_MODELS=",".join(names),
        GSWARM_INSTANCES=",".join(ids),
        SCHEMATHESIS_HOOKS="hooks",
        PYTHONPATH=str(here),
    )
    command = [
        str(Path(sys.executable).parent / "st"), "run", url + "/openapi.json",
        "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--mode", "all",
        "--max-examples", str(cases // OPERATIONS + 1), "--request-timeout", "30", "--workers", "2",
        "--continue-on-failure", "--generation-database", "none", "--warnings", "off",
    ]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=sys.argv[3])
    print(done.stdout, end="")
    # It is still there, and still answers.
    with urllib.request.urlopen(url + "/health", timeout=10) as answer:
        assert json.load(answer)["status"] == "healthy"
    generated = re.search(r"([\d,]+) generated", done.stdout)
    count = int(generated.group(1).replace(",", "")) if generated else 0
    print(f"{count} requests were sent")
    if done.returncode == 0 and count < cases:
        sys.exit(f"{cases} were asked for")
    sys.exit(done.returncode)


main()
