"""What the worker does on a GPU, in figures: copies, loads, swaps, decoding, prompts, pictures, and the
way over HTTP.

    PYTHONPATH=python python3 python/benchmarks/gpu_check.py --reference h200-measured.json --out check.json

Every section stands alone: one that fails says why in the output, and the others go on. `--tiny` runs all
of it on the CPU with tiny models, to try the program itself.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gpu_attention
import gpu_http
import gpu_lengths
import gpu_memory
from gpu_words import brief

from gswarm.worker.batch_engine import EmbedEngine, EmbedJob, ImageEngine, ImageJob
from gswarm.worker.engine import Engine
from gswarm.worker.hostmem import HostBuffer
from gswarm.worker.lm_engine import Generation, LmEngine
from gswarm.worker.model import Model
from gswarm.worker.options import Options, random_models
from gswarm.worker.registry import Registry

BATCHES = (1, 8, 32, 128)
CONTEXT = 512
"""Tokens that the reference's sequences have, as its times by batch show."""


class Check:
    """All sections, and what they found."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.tiny: bool = args.tiny
        self.best: float | None = None
        """GB/s of copies to the device, once they were measured."""
        self.found: dict[str, Any] = {"device": args.device, "torch": torch.__version__}
        self.reference: dict[str, Any] = (
            json.loads(Path(args.reference).read_text()) if args.reference else {}
        )
        small, large = ("tiny-llm", "tiny-llm") if self.tiny else ("llama-7b", "llama-13b")
        names = [f"a={small}", f"b={small}", f"c={large}"]
        names += (
            ["image=tiny-image", "embed=tiny-embedding"] if self.tiny else ["image=sdxl", "embed=bge-large"]
        )
        options = Options(
            device=args.device,
            random=random_models(names),
            max_batch=16 if self.tiny else 128,
            kernels=args.kernels,
            virtual=not args.no_virtual,
            graphs=not args.no_graphs,
        )
        began = time.perf_counter()
        self.registry = Registry(options)
        self.cuda = self.registry.place.cuda
        self.found["start_seconds"] = time.perf_counter() - began
        place = self.registry.place
        self.found["virtual_memory"] = place.devices.memory is not None
        self.found["virtual_memory_refused"] = place.devices.why_not
        if self.cuda:
            self.found["gpu"] = torch.cuda.get_device_name(place.device)
            self.found["kernels"] = place.operations(128)[1]

    def model(self, name: str) -> Model:
        """One of the models."""
        return self.registry.models[name]

    def section(self, name: str, what: Callable[[], Any]) -> None:
        """Runs a section, and keeps what came of it, or why nothing did."""
        if self.args.only and name not in self.args.only.split(","):
            return
        began = time.perf_counter()
        try:
            value = what()
        except BaseException as error:
            value = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-2000:]}
            if isinstance(error, KeyboardInterrupt):
                raise
        self.found[name] = value
        self.found.setdefault("section_seconds", {})[name] = time.perf_counter() - began
        print(f"[{time.perf_counter() - START:6.1f} s] {name}: {brief(value)}", flush=True)
        if self.args.out:
            Path(self.args.out).write_text(json.dumps(self.found, indent=1))

    def sync(self) -> None:
        """Waits for the device."""
        if self.cuda:
            torch.cuda.synchronize()

    # The sections.

    def copies(self) -> dict[str, Any]:
        """Copies between host and device through memory that the worker pins itself."""
        size = (64 << 20) if self.tiny else (4 << 30)
        place = self.registry.place
        host = HostBuffer(size, self.cuda, place.pins, place.threads).pin()
        device = torch.empty(size, dtype=torch.uint8, device=place.device)
        other = torch.empty_like(device)

        def rate(to: torch.Tensor, of: torch.Tensor) -> float:
            times = []
            for _ in range(5):
                self.sync()
                began = time.perf_counter()
                to.copy_(of, non_blocking=True)
                self.sync()
                times.append(time.perf_counter() - began)
            return size / statistics.median(times) / 1e9

        out = {
            "h2d_gb_per_s": rate(device, host.flat),
            "d2h_gb_per_s": rate(host.flat, device),
            "d2d_gb_per_s": 2 * rate(other, device),
            "pinned": host.pinned,
            "touch_seconds": host.touch_seconds,
            "register_seconds": host.register_seconds,
        }
        del device, other
        host.free()
        if self.cuda:
            torch.cuda.empty_cache()
        self.best = out["h2d_gb_per_s"]
        return out

    def tiers(self, name: str) -> dict[str, Any]:
        """The first load, then sleeping and waking, each several times; and whether memory comes back."""
        model, devices = self.model(name), self.registry.place.devices
        model.load()
        free = devices.free_bytes()
        model.wake()
        wakes, sleeps = [], []
        for _ in range(5):
            began = time.perf_counter()
            model.sleep()
            sleeps.append(time.perf_counter() - began)
            after = devices.free_bytes()
            began = time.perf_counter()
            model.wake()
            wakes.append(time.perf_counter() - began)
        copies = [one.details for one in model.timings if one.what == "wake"]
        load = next(one for one in model.timings if one.what == "load")
        engine = model.engine
        runner = engine.runner if isinstance(engine, LmEngine) else None
        wake = statistics.median(wakes)
        out: dict[str, Any] = {
            "bytes": model.bytes,
            "load": load.shown(),
            "first_wake": next(one.shown() for one in model.timings if one.what == "wake"),
            "wake_seconds": wakes,
            "wake_median": wake,
            "wake_gb_per_s": model.bytes / wake / 1e9,
            "copy_seconds": [one["copy_seconds"] for one in copies],
            "map_seconds": [one["map_seconds"] for one in copies],
            "attach_seconds": [one["attach_seconds"] for one in copies],
            "sleep_seconds": sleeps,
            "free_before_first_wake": free,
            "free_after_sleep": after,
            "graphs": None
            if runner is None
            else {"count": runner.graphs.count, "seconds": runner.graphs.seconds},
        }
        if free is not None and after is not None:
            out["kept_while_asleep_bytes"] = free - after
        if self.best is None:
            self.copies()
        assert self.best is not None
        out["share_of_copy_bandwidth"] = model.bytes / wake / 1e9 / self.best
        return out

    def swap(self) -> dict[str, Any]:
        """Two models of one size change places: one after the other, and with the copy beside computing."""
        a, b = self.model("a"), self.model("b")
        b.wake()
        b.sleep()
        a.wake()
        rounds = []
        for _ in range(3):
            began = time.perf_counter()
            a.sleep()
            b.wake()
            b.sleep()
            a.wake()
            rounds.append(time.perf_counter() - began)
        copies = [
            one.details["copy_seconds"] for model in (a, b) for one in model.timings if one.what == "wake"
        ][-2:]
        jobs = self.submit(a, 8, 64, 256)
        time.sleep(0.2)
        before, began = self.engine(a).tokens_made, time.perf_counter()
        b.wake()
        taken = time.perf_counter() - began
        during = self.engine(a).tokens_made - before
        alone = jobs[0].future.result()
        for job in jobs:
            job.future.result()
        began = time.perf_counter()
        a.sleep()
        switch = time.perf_counter() - began
        first = self.submit(b, 1, 8, 2)[0]
        began = time.perf_counter()
        first.future.result()
        out = {
            "two_swaps_seconds": rounds,
            "one_swap_median": statistics.median(rounds) / 2,
            "sum_of_copies": sum(copies),
            "ratio_to_copies": statistics.median(rounds) / sum(copies),
            "overlapped_wake_seconds": taken,
            "tokens_while_copying": during,
            "tokens_per_s_while_copying": during / taken,
            "tokens_per_s_on_average": 8 * 255 / max(alone["decode"], 1e-9),
            "seconds_from_sleep_to_ready_after_overlap": switch,
            "first_call_seconds": time.perf_counter() - began,
        }
        b.sleep()
        a.wake()
        return out

    def engine(self, model: Model) -> LmEngine:
        """Its engine."""
        assert isinstance(model.engine, LmEngine)
        return model.engine

    def submit(self, model: Model, count: int, prompt: int, new: int) -> list[Generation]:
        """So many texts at once."""
        vocab = getattr(model.config, "vocab", 256)
        jobs = [
            Generation([(7 * at + 13 * n) % vocab for at in range(prompt)], new, ignore_eos=True)
            for n in range(count)
        ]
        for job in jobs:
            self.engine(model).check(job)
            self.engine(model).submit(job)
        return jobs

    def decode(self, name: str, shape: str) -> list[dict[str, Any]]:
        """Tokens a second by size of batch, with about as much context as the reference has."""
        model = self.model(name)
        model.wake()
        prompt, new = (40, 24) if self.tiny else (CONTEXT - 64, 128)
        known = {
            one["batch"]: one
            for one in self.reference.get("models", {}).get(shape, {}).get("decode", [])
            if "tok_s" in one
        }
        rows = []
        for batch in BATCHES:
            if batch > model.place.max_batch:
                continue
            self.engine(model).pace.clear()
            began = time.perf_counter()
            results = [job.future.result() for job in self.submit(model, batch, prompt, new)]
            whole = time.perf_counter() - began
            step = self.engine(model).pace.get(batch)
            row: dict[str, Any] = {
                "batch": batch,
                "engine_step_s": step,
                "engine_tok_s": batch / step if step else None,
            }
            row["with_prompts_tok_s"] = batch * new / whole
            row["prefill_s"] = max(one["prefill"] for one in results)
            row["graph_step_s"] = self.engine(model).ask(partial(self.raw, model, batch, prompt + new // 2))
            row["graph_tok_s"] = batch / row["graph_step_s"]
            if batch in known:
                row["reference_tok_s"] = known[batch]["tok_s"]
                row["ratio"] = row["engine_tok_s"] / known[batch]["tok_s"] if step else None
                row["graph_ratio"] = row["graph_tok_s"] / known[batch]["tok_s"]
            rows.append(row)
        return rows

    def attention(self) -> list[dict[str, Any]]:
        """How fast contexts are read, by number of warps; the best is kept for what follows."""
        if not self.cuda or not str(self.found["kernels"]).startswith("triton"):
            return []
        rows, self.found["warps"] = gpu_attention.attention(self.registry.place.device, CONTEXT)
        return rows

    def http_sizes(self) -> tuple[str, int, list[int]]:
        """A prompt, the tokens that are asked for, and how many ask at once."""
        fitting = [one for one in BATCHES if one <= self.registry.place.max_batch]
        return ("x" * 40, 24, fitting) if self.tiny else ("x" * (CONTEXT - 65), 128, fitting)

    def raw(self, model: Model, batch: int, position: int) -> float:
        """Seconds of a step of so many sequences at a position, launched one after the other.

        In the engine's thread.
        """
        runner = self.engine(model).runner
        assert runner is not None
        slots = list(range(batch))
        each = (position + 64) // runner.cache.block_size + 1
        grown = (1 + batch * each) * runner.cache.block_bytes
        self.registry.place.ledger.grow(f"{model.name} cache", runner.region, grown)
        for slot in slots:
            runner.set_slot(slot, list(range(1 + slot * each, 1 + (slot + 1) * each)), 0.0, 1.0, 0)
        runner.set_rows(slots)
        self.engine(model).changed = True
        count = 3 if self.tiny else 20
        times = []
        for _ in range(3):
            for slot in slots:
                runner.pos[slot] = position
            self.sync()
            began = time.perf_counter()
            for _ in range(count):
                runner.decode(batch, False, False)
            self.sync()
            times.append((time.perf_counter() - began) / count)
        return min(times)

    def prefill(self, name: str, shape: str) -> list[dict[str, Any]]:
        """Seconds for prompts, from being taken up to the first token."""
        model = self.model(name)
        model.wake()
        known = {
            (one["batch"], one["tokens"]): one["s"]
            for one in self.reference.get("models", {}).get(shape, {}).get("prefill", [])
        }
        rows = []
        for batch, tokens in (
            ((1, 32), (2, 64))
            if self.tiny
            else ((1, 16), (1, 128), (1, 512), (1, 2048), (1, 4000), (4, 512), (16, 512))
        ):
            times = []
            for _ in range(3):
                began = time.perf_counter()
                for job in self.submit(model, batch, tokens, 1):
                    job.future.result()
                times.append(time.perf_counter() - began)
            row: dict[str, Any] = {"batch": batch, "tokens": tokens, "s": statistics.median(times)}
            if (batch, tokens) in known:
                row["reference_s"], row["ratio"] = known[(batch, tokens)], known[(batch, tokens)] / row["s"]
            rows.append(row)
        return rows

    def image(self) -> dict[str, Any]:
        """Seconds of a step by number of pictures."""
        model = self.model("image")
        model.wake()
        engine = model.engine
        assert engine is not None
        rows = []
        for batch in (1, 2, 4, 8):
            for steps in (2, 6):
                jobs = [ImageJob(f"picture {n}", steps, n) for n in range(batch)]
                began = time.perf_counter()
                for job in jobs:
                    engine.submit(job)
                for job in jobs:
                    job.future.result()
                taken = time.perf_counter() - began
            rows.append({"batch": batch, "step_s": engine.pace.get(batch), "six_steps_s": taken})  # type: ignore[attr-defined]
        found = {
            "bytes": model.bytes,
            "steps": rows,
            "graphs": graphs(engine),
            "wake": [one.shown() for one in model.timings if one.what in ("load", "wake")],
        }
        model.sleep()
        return found

    def embed(self) -> dict[str, Any]:
        """Seconds for vectors by number of texts."""
        model = self.model("embed")
        model.wake()
        engine = model.engine
        assert engine is not None
        rows = []
        for batch in (1, 8, 32, 128):
            times = []
            for _ in range(4):
                job = EmbedJob([[(3 * at + n) % 300 for at in range(64)] for n in range(batch)])
                began = time.perf_counter()
                engine.submit(job)
                job.future.result()
                times.append(time.perf_counter() - began)
            rows.append({"texts": batch, "s": min(times), "texts_per_s": batch / min(times)})
        longest, most, rounds = (100, 12, 4) if self.tiny else (512, 128, 40)
        new = gpu_lengths.embeddings(engine, longest, most, rounds)
        model.sleep()
        return {"bytes": model.bytes, "batches": rows, "new_mixes": new, "graphs": graphs(engine)}

    def long_prompts(self) -> dict[str, Any]:
        """Prompts that are read in parts, each of a length of its own."""
        model = self.model("a")
        model.wake()
        lengths = [100 + 7 * n for n in range(3)] if self.tiny else [2100 + 173 * n for n in range(10)]
        times = []
        for tokens in lengths:
            began = time.perf_counter()
            for job in self.submit(model, 1, tokens, 1):
                job.future.result()
            times.append(time.perf_counter() - began)
        found: dict[str, Any] = {"median_s": statistics.median(times), "worst_s": max(times)}
        if self.cuda:
            found["attention"] = gpu_lengths.continued(self.registry.place.device)
        return found

    def give_back(self) -> dict[str, Any]:
        """Everything is unloaded: what the device and the host then say."""
        place = self.registry.place
        before = place.devices.free_bytes()
        for model in self.registry.models.values():
            model.unload()
        self.sync()
        out = {
            "free_before": before,
            "free_after": place.devices.free_bytes(),
            "ledger_bytes": place.ledger.used,
            "pinned_bytes": place.pins.used,
        }
        if self.cuda:
            out["torch_reserved"] = torch.cuda.memory_reserved(place.device)
            out["total"] = torch.cuda.get_device_properties(place.device).total_memory
        return out

    def run(self) -> None:
        """All sections."""
        self.section("copies", self.copies)
        self.section("attention", self.attention)
        place = self.registry.place
        self.section("waking", lambda: gpu_memory.waking(self.model("a"), place))
        self.section("disk", lambda: gpu_memory.disk(self.model("a"), place, self.args.disk))
        self.section("tiers_7b", lambda: self.tiers("a"))
        self.section("decode_7b", lambda: self.decode("a", "llama-7b"))
        self.section("prefill_7b", lambda: self.prefill("a", "llama-7b"))
        self.section("long_prompts", self.long_prompts)
        self.section("http_7b", lambda: gpu_http.over_http(self.registry, "a", *self.http_sizes()))
        self.section("swap", self.swap)
        self.section("image", self.image)
        self.section("embed", self.embed)
        self.section("sleep_all", lambda: [self.model(name).sleep() for name in ("a", "b")])
        self.section("tiers_13b", lambda: self.tiers("c"))
        self.section("decode_13b", lambda: self.decode("c", "llama-13b"))
        self.section("prefill_13b", lambda: self.prefill("c", "llama-13b"))
        self.section("give_back", self.give_back)
        self.found["seconds"] = time.perf_counter() - START


def graphs(engine: Engine) -> dict[str, Any]:
    """How many passes of an embedding or image model were captured."""
    assert isinstance(engine, (EmbedEngine, ImageEngine))
    assert engine.passes is not None
    return {"count": engine.passes.graphs.count, "seconds": engine.passes.graphs.seconds}


def main() -> int:
    """Runs all, prints a line for each section and writes the whole as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--reference", help="measured figures to hold against, as h200-measured.json has them"
    )
    parser.add_argument("--out", help="where the whole goes, as JSON")
    parser.add_argument("--only", help="sections, with commas; what they need of others is done for them")
    parser.add_argument(
        "--disk", help="a folder of the disk to read from; that of temporary files by default"
    )
    parser.add_argument("--kernels", default="auto", choices=["auto", "triton", "plain"])
    parser.add_argument("--no-virtual", action="store_true")
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU")
    args = parser.parse_args()
    if args.tiny:
        args.device = "cpu"
    check = Check(args)
    print(json.dumps(check.found, indent=None), flush=True)
    check.run()
    if args.out:
        Path(args.out).write_text(json.dumps(check.found, indent=1))
    failed = [name for name, value in check.found.items() if isinstance(value, dict) and "error" in value]
    print(f"{time.perf_counter() - START:.1f} s; failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed else 0


START = time.perf_counter()
if __name__ == "__main__":
    sys.exit(main())
