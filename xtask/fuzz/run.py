"""Generated requests against a server: run.py URL CASES FOLDER. Called by `cargo xtask fuzz-http`."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

# Of the operations only those with a body have as many different requests as are asked for.
OPERATIONS = {"model server": 8, "front door": 5}
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def get(url, path):
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        return json.load(answer)


def post(url, path, body):
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def of_model_server(url):
    """What there is to be named in requests."""
    names = [model["model_name"] for model in get(url, "/standalone/status")["models_on_disk"]]
    ids = [post(url, "/standalone/serve", {"model_name": name})["data"]["instance_id"] for name in names]
    return {"model": names, "instance": ids}


def of_front_door(url):
    models = [model["id"] for model in get(url, "/v1/models")["data"]]
    workflows = [workflow["id"] for workflow in get(url, "/v1/workflows")["workflows"]]
    submitted = [post(url, f"/v1/workflows/{name}/requests", {})["request_id"] for name in workflows * 4]
    return {"model": models, "workflow": workflows, "request": submitted}


def main():
    url, cases = sys.argv[1], int(sys.argv[2])
    kind = "front door" if "front door" in get(url, "/openapi.json")["info"]["title"] else "model server"
    there = of_front_door(url) if kind == "front door" else of_model_server(url)
    environment = dict(
        os.environ,
        GSWARM_THERE=json.dumps(there),
        SCHEMATHESIS_HOOKS="hooks",
        PYTHONPATH=str(Path(__file__).parent),
    )
    command = [
        str(Path(sys.executable).parent / "st"), "run", url + "/openapi.json",
        "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--mode", "all",
        "--max-examples", str(cases // OPERATIONS[kind] + 1), "--request-timeout", "30", "--workers", "1",
        "--continue-on-failure", "--generation-database", "none", "--warnings", "off",
        # A stream of events has no end to wait for.
        "--exclude-path", "/v1/events",
    ]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=sys.argv[3])
    print(done.stdout, end="")
    # It is still there, and still answers.
    with urllib.request.urlopen(url + "/health", timeout=10) as answer:
        assert answer.status == 200
    generated = re.search(r"([\d,]+) generated", done.stdout)
    count = int(generated.group(1).replace(",", "")) if generated else 0
    print(f"{count} requests were sent to the {kind}")
    if done.returncode == 0 and count < cases:
        sys.exit(f"{cases} were asked for")
    sys.exit(done.returncode)


main()
