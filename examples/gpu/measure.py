"""Five models on one GPU: what the worker takes, what is predicted of a batch, and what it then takes.

    python3 examples/gpu/measure.py --gswarm target/release/gswarm --work measured --phases all
    python3 examples/gpu/measure.py --gswarm target/debug/gswarm --work tried --tiny

Phases, in their order: `profile`, `calibrate`, `requests`, `predict`, `run:NAME` for each of the five runs,
`summary`; `all` and `run:all` stand for all of them. Each is recorded in `WORK/state.json`: one that is done
is not done again (unless with `--again`), so that a measurement can be cut into several commands. One that
fails is recorded, and the others go on. The worker is started where a phase needs it and none is there, and
ended with the program unless `--keep-worker` is given.

It needs Python 3.10 and, for the worker, PyTorch; nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import summary
from server import ROOT, Failed, Server

HERE = Path(__file__).resolve().parent
RUNS = ("baseline", "offline", "lru", "planned", "planned-batching")
LIMITS = {"profile": 240, "calibrate": 480, "requests": 30, "predict": 180, "run": 480, "summary": 120}
LEFT_OUT = ("journal.db", "_results.jsonl", "pictures", ".tar.gz", ".sock")


class Measurement:
    """A folder, and what is in it so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.began = args, time.monotonic()
        self.work = Path(args.work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.gswarm = str(Path(args.gswarm).resolve())
        self.file = self.work / "state.json"
        self.state: dict[str, Any] = json.loads(self.file.read_text()) if self.file.is_file() else {}
        self.config = self.work / "config.yaml"
        shutil.copyfile(HERE / "config.yaml", self.config)
        self.requests = self.work / "requests.json"
        self.profile = self.work / "profile.json"
        self.server = Server(self.work, args, self.state.setdefault("worker", {}), self.say)

    def say(self, text: str) -> None:
        """To the terminal and to the log."""
        line = f"[{time.strftime('%H:%M:%S')} {time.monotonic() - self.began:6.1f} s] {text}"
        print(line, flush=True)
        with (self.work / "measure.log").open("a") as log:
            log.write(line + "\n")

    def left(self) -> float:
        """Seconds until the whole program should be over."""
        return float(self.args.limit) - (time.monotonic() - self.began)

    def save(self) -> None:
        """Keeps what is known of the phases."""
        self.file.write_text(json.dumps(self.state, indent=1) + "\n")

    def command(self, name: str, command: list[str], limit: float, good: tuple[int, ...] = (0,)) -> str:
        """Runs a program to its end, or interrupts it; what it printed is kept in `output/NAME.txt`."""
        limit = min(limit, self.left() - 10)
        if limit < 5:
            raise Failed("no time was left for it")
        kept = self.work / "output" / f"{name}.txt"
        kept.parent.mkdir(exist_ok=True)
        began, timed_out = time.monotonic(), False
        with kept.open("w") as output:
            output.write("$ " + " ".join(command) + "\n")
            output.flush()
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT
            )
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                timed_out = True
                # What was measured so far is written on an interrupt.
                end(process)
        text = kept.read_text()
        how = f"exit {process.returncode}{', out of time' if timed_out else ''}"
        self.say(f"{name}: {how}, {time.monotonic() - began:.1f} s")
        if process.returncode not in good:
            raise Failed(f"{name}: {how}: {text.strip()[-600:]}")
        return text

    def phase(self, name: str, what: Callable[[], dict[str, Any] | None]) -> None:
        """Does a phase unless it is done, and records how it went."""
        if self.state.get(name, {}).get("status") == "done" and not self.args.again:
            self.say(f"{name}: done before")
            return
        predicted = self.state.get("predict", {}).get("predicted_makespans", {})
        if self.left() < 20 + 1.2 * predicted.get(name.removeprefix("run:"), 0.0):
            self.say(f"{name}: left for the next command, there is no time")
            return
        self.say(f"{name}: begins")
        began, at = time.monotonic(), time.time()
        record: dict[str, Any] = {"at": at, "tiny": self.args.tiny}
        try:
            found = what()
            record.update(status="done", **(found or {}))
        except Exception as error:  # The others go on, whatever it is.
            why = str(error) if isinstance(error, Failed) else traceback.format_exc()
            record.update(status="failed", why=why[-3000:])
            self.say(f"{name}: FAILED: {why[-1500:]}")
        record["seconds"] = time.monotonic() - began
        self.state[name] = record
        self.save()
        self.say(f"{name}: {record['status']} after {record['seconds']:.1f} s")

    # The phases.

    def hardware(self) -> dict[str, Any]:
        """What the machine can do."""
        sizes = "64,128" if self.args.tiny else self.args.sizes
        out = self.work / "hardware.json"
        budget = "0.02" if self.args.tiny else "0.6"
        device = "cpu" if self.args.device == "cpu" else "all"
        self.command(
            "profile",
            [
                self.gswarm,
                "tasks",
                "profile",
                "--device",
                device,
                "--sizes",
                sizes,
                "--budget",
                budget,
                "--force",
                "--out",
                str(out),
            ],
            LIMITS["profile"],
        )
        smi = shutil.which("nvidia-smi")
        if smi:
            self.command(
                "nvidia-smi", [smi, "-q", "-d", "CLOCK,POWER,MEMORY,PERFORMANCE"], 30, tuple(range(256))
            )
        return {}

    def servers(self) -> str:
        """The file that names the worker, which is ready then."""
        try:
            return str(self.server.ready(min(300, self.left() - 10)))
        finally:
            self.save()

    def make_requests(self, count: int, seed: int, to: Path) -> None:
        """Requests from a seed."""
        made = subprocess.run(
            [sys.executable, str(HERE / "requests.py"), str(count), str(seed), str(self.args.pictures)],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        requests = json.loads(made.stdout)
        for one in requests["requests"] if self.args.tiny else []:
            # Tiny models hold 512 letters.
            one["input_data"] = {name: text[:300] for name, text in one["input_data"].items()}
        to.write_text(json.dumps(requests))

    def calibrate(self) -> dict[str, Any]:
        """What the worker takes, at the lengths of other requests than those of the runs."""
        other = self.work / "calibration-requests.json"
        self.make_requests(20 if self.args.tiny else 100, 1, other)
        servers = self.servers()
        budget = "3s" if self.args.tiny else self.args.budget
        batches = "1,2,4" if self.args.tiny else self.args.batches
        try:
            self.command(
                "calibrate",
                [
                    self.gswarm,
                    "calibrate",
                    "--backends",
                    servers,
                    "--config",
                    str(self.config),
                    "--requests",
                    str(other),
                    "--budget",
                    budget,
                    "--batches",
                    batches,
                    "--force",
                    "--out",
                    str(self.profile),
                ],
                LIMITS["calibrate"],
            )
        finally:
            self.server.known["models_after_calibration"] = self.server.models()
        return {"calibration_seconds": json.loads(self.profile.read_text()).get("seconds")}

    def inputs(self, run: str) -> list[str]:
        """The inputs of a run, as every command takes them."""
        files = ["--config", str(self.config), "--requests", str(self.requests)]
        if self.profile.is_file():
            files += ["--calibration", str(self.profile)] + (
                [] if run.endswith("batching") else ["--no-batching"]
            )
        return files

    def who(self, run: str) -> list[str]:
        """Who decides in a run."""
        return (
            ["--plan", str(self.work / "plans" / run / "plan.json")]
            if run.startswith("planned")
            else ["--policy", run]
        )

    def predict(self) -> dict[str, Any]:
        """All runs, as the measured costs say they will be."""
        if not self.profile.is_file():
            self.say("note: there is no calibration; what the configuration guesses is predicted")
        found = {}
        for run in RUNS:
            if run.startswith("planned"):
                budget = "2s" if self.args.tiny else "10s"
                self.command(
                    f"plan-{run}",
                    [
                        self.gswarm,
                        "plan",
                        *self.inputs(run),
                        "--budget",
                        budget,
                        "--out",
                        str(self.work / "plans" / run),
                    ],
                    60,
                )
            out = self.work / "predicted" / run
            self.command(
                f"predict-{run}",
                [self.gswarm, "run", *self.who(run), *self.inputs(run), "--out", str(out)],
                60,
            )
            log = json.loads(log_in(out).read_text())
            found[run] = log["summary"]["makespan"]
            self.say(f"{run}: {found[run]:.2f} s predicted")
        return {"predicted_makespans": found, "calibrated": self.profile.is_file()}

    def run(self, name: str) -> dict[str, Any]:
        """One run for real, checked and compared with what was predicted of it."""
        out, predicted = self.work / "measured" / name, self.work / "predicted" / name
        if self.state.get("predict", {}).get("status") != "done":
            raise Failed("nothing was predicted yet, and predictions come before runs")
        # A run that was cut short is no measurement.
        shutil.rmtree(out, ignore_errors=True)
        servers = self.servers()
        self.command(
            f"run-{name}",
            [
                self.gswarm,
                "run",
                "--live",
                "--backends",
                servers,
                *self.who(name),
                *self.inputs(name),
                "--out",
                str(out),
            ],
            LIMITS["run"],
            (0, 4),
        )
        log = log_in(out)
        found: dict[str, Any] = {"makespan": json.loads(log.read_text())["summary"]["makespan"]}
        summary.shorten(out)
        self.say(f"{name}: {found['makespan']:.2f} s measured")
        later: dict[str, list[str]] = {
            "check": ["check", str(log), *self.inputs(name)],
            "fidelity": [
                "fidelity",
                "--log",
                str(log),
                "--predicted",
                str(log_in(predicted)),
                *self.inputs(name),
                "--out",
                str(self.work / "fidelity" / name),
            ],
            "replay": [
                "fidelity",
                "--log",
                str(log),
                *self.inputs(name),
                "--out",
                str(self.work / "fidelity" / f"{name}-replay"),
            ],
        }
        for what, arguments in later.items():
            try:
                self.command(f"{what}-{name}", [self.gswarm, *arguments], 60)
                found[what] = "ok"
            except (
                Failed
            ) as error:  # The measurement stands; what is said of it can be made again from its log.
                found[what] = f"failed: {error}"[:1500]
        return found

    def summarise(self) -> dict[str, Any]:
        """A table, figures and charts of all that is there."""
        whole = summary.write(self.work, RUNS, self.state)
        logs = [
            str(log_in(self.work / "measured" / run))
            for run in RUNS
            if (self.work / "measured" / run).is_dir()
        ]
        if not logs:
            return {}
        files = ["--config", str(self.config), "--requests", str(self.requests)]
        try:
            if self.profile.is_file():
                files = [
                    "--config",
                    str(self.work / "measured-config.yaml"),
                    "--requests",
                    str(self.work / "timed-requests.json"),
                ]
                self.command(
                    "measured-config",
                    [
                        self.gswarm,
                        "calibrate",
                        "--from",
                        str(self.profile),
                        "--config",
                        str(self.config),
                        "--requests",
                        str(self.requests),
                        "--write-config",
                        files[1],
                        "--write-requests",
                        files[3],
                        "--force",
                    ],
                    30,
                )
            report = self.work / "report"
            report.mkdir(exist_ok=True)
            self.command(
                "report",
                [
                    self.gswarm,
                    "report",
                    *logs,
                    *files,
                    "--out",
                    str(report / "report.html"),
                    "--svg",
                    str(report),
                    "--markdown",
                    str(report / "report.md"),
                ],
                90,
            )
        except Failed as error:
            self.say(f"no report: {error}")
        print(whole, flush=True)
        return {}

    def pack(self, to: Path) -> None:
        """Everything that is small, in one file."""

        def kept(one: tarfile.TarInfo) -> tarfile.TarInfo | None:
            return None if any(part in one.name for part in LEFT_OUT) or one.size > 30 << 20 else one

        to.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(to, "w:gz") as archive:
            archive.add(self.work, arcname="measured", filter=kept)
        self.say(f"packed into {to}: {to.stat().st_size / 1e6:.2f} MB")


def log_in(folder: Path) -> Path:
    """The execution log of a run."""
    found = sorted(folder.glob("*_execution_log.json"))
    if not found:
        raise Failed(f"{folder} has no execution log")
    return found[0]


def end(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a program, and kills it where that does not help."""
    for how, patience in ((signal.SIGINT, 15), (signal.SIGKILL, 15)):
        process.send_signal(how)
        try:
            process.wait(patience)
            return
        except subprocess.TimeoutExpired:
            continue


def wanted(phases: str) -> list[str]:
    """Phases by their names, `all` and `run:all` spelt out."""
    every = ["profile", "calibrate", "requests", "predict", *(f"run:{run}" for run in RUNS), "summary"]
    found: list[str] = []
    for one in phases.split(","):
        more = every if one == "all" else every[4:-1] if one == "run:all" else [one]
        unknown = [name for name in more if name not in every]
        if unknown:
            raise SystemExit(f"there is no phase {unknown[0]}: there are {', '.join(every)}, all and run:all")
        found += more
    return found


def main() -> int:
    """Does the phases that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--gswarm", required=True, metavar="PATH", help="the program")
    add("--work", default="measured", help="folder for everything")
    add("--phases", default="all", help="which, with commas between them")
    add("--device", help="of the worker [default: cuda:0, or cpu with --tiny]")
    add("--port", type=int, default=0, help="of the worker; 0 lets the system choose")
    add("--worker-args", default="", help="more for the worker")
    add("--count", type=int, help="requests [default: 300, or 20 with --tiny]")
    add("--seed", type=int, default=7, help="of the requests; those of the calibration have 1")
    add("--pictures", type=float, default=1 / 3, help="share of the requests that paint")
    add("--budget", default="50s", help="of the calibration of each model")
    add("--batches", default="1,2,4,8,16,32,64,128", help="that the calibration measures")
    add("--sizes", default="256,512,1024,2048,4096", help="of the matrices of the profile")
    add("--limit", type=float, default=570, help="seconds after which no phase goes on")
    add("--again", action="store_true", help="do phases that are done again")
    add("--keep-worker", action="store_true", help="let the worker live for the next command")
    add("--pack", type=Path, help="write everything into one .tar.gz at the end")
    add("--tiny", action="store_true", help="tiny models on the CPU, to try the program itself")
    args = parser.parse_args()
    args.device = args.device or ("cpu" if args.tiny else "cuda:0")
    count = args.count or (20 if args.tiny else 300)
    measurement = Measurement(args)
    try:
        for name in wanted(args.phases):
            if name == "profile":
                measurement.phase(name, measurement.hardware)
            elif name == "calibrate":
                measurement.phase(name, measurement.calibrate)
            elif name == "requests":
                measurement.phase(
                    name, lambda: measurement.make_requests(count, args.seed, measurement.requests)
                )
            elif name == "predict":
                measurement.phase(name, measurement.predict)
            elif name == "summary":
                measurement.state.pop("summary", None)  # There may be more to tell than the last time.
                measurement.phase(name, measurement.summarise)
            else:
                measurement.phase(name, partial(measurement.run, name.removeprefix("run:")))
    finally:
        if not args.keep_worker:
            measurement.server.stop()
        measurement.save()
        if args.pack:
            measurement.pack(args.pack)
    failed = [name for name, one in measurement.state.items() if one.get("status") == "failed"]
    measurement.say(f"failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
