"""The standalone endpoints: models from tier to tier, instances, calls and estimates."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

from . import fields, openapi
from .batch_engine import EmbedEngine, EmbedJob, ImageEngine, ImageJob
from .fault import Fault, conflict, invalid, not_found
from .http import Request, Response
from .lm_engine import Generation, LmEngine
from .openai import OpenAi
from .registry import Instance, Registry
from .tokens import cut

VERSION = "0.1.0"
USUAL_LENGTH = 64
USUAL_STEPS = 20


def stamp(seconds: float | None = None) -> str:
    """A moment, as text."""
    return datetime.fromtimestamp(time.time() if seconds is None else seconds, timezone.utc).isoformat()


def done(message: str, data: dict[str, Any]) -> Response:
    """What is answered to what could be done."""
    return Response({"success": True, "message": message, "data": {**data, "emulated": False}})


class Routes:
    """All endpoints."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.openai = OpenAi(registry)
        self.port = 0
        self.url = ""
        self.table: dict[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {
            ("GET", "/"): self.root,
            ("GET", "/health"): self.health,
            ("GET", "/openapi.json"): self.openapi,
            ("GET", "/standalone/status"): self.status,
            ("POST", "/standalone/download"): self.download,
            ("POST", "/standalone/load"): self.load,
            ("POST", "/standalone/serve"): self.serve,
            ("POST", "/standalone/offload"): self.offload,
            ("POST", "/standalone/estimate"): self.estimate,
            ("GET", "/v1/models"): self.openai.models,
            ("POST", "/v1/completions"): self.openai.completions,
            ("POST", "/v1/chat/completions"): self.openai.chat,
            ("POST", "/v1/embeddings"): self.openai.embeddings,
        }
        self.prefixes: dict[tuple[str, str], Callable[[Request, str], Awaitable[Response]]] = {
            ("POST", "/standalone/call/"): self.call,
            ("POST", "/standalone/estimate/"): self.estimate_instance,
            ("DELETE", "/standalone/instance/"): self.delete,
            ("GET", "/v1/models/"): self.openai.model,
        }

    async def handle(self, request: Request) -> Response:
        """Hands a request to the endpoint that it is for."""
        handler = self.table.get((request.method, request.path))
        if handler is not None:
            return await handler(request)
        known = any(path == request.path for _, path in self.table)
        for (method, prefix), one in self.prefixes.items():
            rest = request.path[len(prefix) :]
            if request.path.startswith(prefix) and rest and ("/" not in rest or prefix == "/v1/models/"):
                if method == request.method:
                    return await one(request, rest)
                known = True
        if known:
            raise Fault(405, "method_not_allowed", "this path takes another method")
        raise not_found("no_such_route", "this path does not exist")

    async def root(self, _: Request) -> Response:
        """Who this is."""
        return Response({"name": "gswarm worker", "version": VERSION, "device": self.registry.place.name})

    async def openapi(self, _: Request) -> Response:
        """All endpoints, for programs."""
        plain = [(method, path, one) for (method, path), one in self.table.items()]
        named = [(method, path + "{id}", one) for (method, path), one in self.prefixes.items()]
        return Response(openapi.document(VERSION, [*plain, *named]))

    async def health(self, _: Request) -> Response:
        """That it lives, with counts."""
        models = self.registry.models.values()
        return Response(
            {
                "status": "healthy",
                "version": VERSION,
                "serving_instances": len(self.registry.instances),
                "models_in_dram": sum(one.host is not None for one in models),
                "models_on_device": sum(one.on_device for one in models),
                "downloads": 0,
                "emulated_models": 0,
            }
        )

    async def status(self, _: Request) -> Response:
        """What there is, and where."""
        registry, place = self.registry, self.registry.place
        models = dict(registry.models)
        on_disk = [
            {
                "model_name": name,
                "model_type": models[name].kind if name in models else None,
                "model_path": str(path),
                "bytes": sum(one.stat().st_size for one in path.glob("*.safetensors")),
                "error": None,
                "emulated": False,
            }
            for name, path in (await registry.blocking(registry.folders)).items()
            if name not in registry.options.random
        ]
        on_disk += [
            {
                "model_name": one.name,
                "model_type": one.kind,
                "model_path": None,
                "bytes": one.bytes,
                "error": None,
                "emulated": False,
            }
            for one in models.values()
            if one.path is None
        ]
        in_dram = [
            {
                "model_name": one.name,
                "bytes": one.bytes,
                "loaded_at": stamp(one.loaded_at),
                "pinned": one.host.pinned,
                "emulated": False,
            }
            for one in models.values()
            if one.host is not None
        ]
        return Response(
            {
                "models_on_disk": on_disk,
                "models_in_dram": in_dram,
                "serving_instances": [self.described(one) for one in registry.instances.values()],
                "downloads": [],
                "cache_directory": str(registry.options.models or ""),
                "used_ports": [self.port],
                "speed": 1.0,
                "models": [one.described() for one in models.values()],
                "memory": {
                    "device": place.name,
                    "budget_bytes": place.ledger.budget,
                    "used_bytes": place.ledger.used,
                    "taken": dict(place.ledger.taken),
                    "device_free_bytes": place.devices.free_bytes(),
                    "stable_addresses": place.devices.memory is not None,
                    "host_bytes": place.host.used,
                    "host_budget_bytes": place.host.limit,
                    "pinned_bytes": place.pins.used,
                    "pin_budget_bytes": place.pins.limit,
                },
            }
        )

    def described(self, instance: Instance) -> dict[str, Any]:
        """An instance, as answers have it."""
        engine, own = instance.model.engine, self.registry.place.name
        running = (
            0 if engine is None else engine.in_batch() if isinstance(engine, LmEngine) else engine.running()
        )
        return {
            "instance_id": instance.id,
            "model_name": instance.model.name,
            "model_type": instance.model.kind,
            "device": own,
            "devices": [own],
            "port": self.port,
            "url": self.url,
            "endpoint": f"/standalone/call/{instance.id}",
            "created_at": stamp(instance.created),
            "state": "stopping" if instance.closed else "serving",
            "running": running,
            "waiting": 0 if engine is None else len(engine.waiting),
            "emulated": False,
        }

    async def download(self, request: Request) -> Response:
        """Models come from folders of this machine: what is there is there."""
        body = request.json()
        name = fields.needed(body, "model_name")
        fields.one_of(body, "source", ("huggingface",))
        if name not in self.registry.models and name not in self.registry.folders():
            raise Fault(
                422,
                "no_hub",
                "this worker downloads nothing: put the model into its folder of models",
                "model_name",
            )
        model = await self.registry.model(name)
        data = {
            "model_name": name,
            "model_path": model.path,
            "source": "huggingface",
            "already_downloaded": True,
            "in_progress": False,
        }
        return done(f"{name} is on disk already", data)

    async def load(self, request: Request) -> Response:
        """From disk to host memory, or to the device ahead of time."""
        body = request.json()
        name = fields.needed(body, "model_name")
        target = fields.one_of(body, "target", ("dram", "gpu"))
        device = fields.device(body, self.registry.place.name)
        began = time.perf_counter()
        model, fresh = await self.registry.load(name, target)
        where = "in host memory" if target == "dram" else "on its device"
        data = {
            "model_name": name,
            "target": target,
            "model_path": model.path,
            "device": device,
            "already_loaded": not fresh,
            "load_time": time.perf_counter() - began,
            "came_from": model.came_from,
            "timings": [one.shown() for one in model.timings[-3:]] if fresh else [],
        }
        return done(f"{name} {'is' if fresh else 'was'} {where}", data)

    async def serve(self, request: Request) -> Response:
        """Starts an instance."""
        body = request.json()
        name = fields.needed(body, "model_name")
        fields.device(body, self.registry.place.name)
        began = time.perf_counter()
        instance = await self.registry.serve(name)
        data = {
            **self.described(instance),
            "load_time": time.perf_counter() - began,
            "came_from": instance.came_from,
        }
        return done(f"{name} is serving", data)

    async def offload(self, request: Request) -> Response:
        """From the device, and from host memory."""
        body = request.json()
        name = fields.needed(body, "model_name")
        target = fields.one_of(body, "target", ("disk", "dram"))
        began = time.perf_counter()
        stopped, details = await self.registry.offload(name, target)
        data = {
            "model_name": name,
            "target": target,
            "instances_stopped": len(stopped),
            "instance_ids": stopped,
            "offload_time": time.perf_counter() - began,
            "memory": details,
        }
        return done(f"{name} is offloaded", data)

    async def delete(self, _: Request, id: str) -> Response:
        """Stops an instance."""
        began = time.perf_counter()
        instance, details = await self.registry.stop(id)
        data = {
            "instance_id": id,
            "model_name": instance.model.name,
            "port": self.port,
            "offload_time": time.perf_counter() - began,
            "memory": details,
        }
        return done(f"the instance {id} is gone", data)

    async def work(self, instance: Instance, data: dict[str, Any]) -> Generation | EmbedJob | ImageJob:
        """What a call asks of a model of this kind."""
        model, path = instance.model, "data"
        prompt = fields.text(data, "prompt", path)
        by_name = [fields.whole(data, name, 1, fields.MAX_TOKENS, path) for name in fields.MOST_TOKENS]
        most = next((most for most in by_name if most is not None), None)
        temperature = fields.number(data, "temperature", 0, 2, path)
        top_p = fields.number(data, "top_p", 0, 1, path)
        seed = fields.whole(data, "seed", 0, (1 << 32) - 1, path)
        stop = fields.stops(data, path)
        steps = fields.whole(data, "steps", 1, fields.MAX_STEPS, path)
        fields.number(data, "guidance_scale", 0, 1000, path)
        ignore = fields.flag(data, "ignore_eos", path)
        if model.kind == "image":
            return ImageJob(prompt or "", steps or USUAL_STEPS, seed or 0)
        if prompt is None:
            raise invalid(f"a model of type {model.kind} needs `data.prompt`", "data.prompt")
        if model.kind == "embedding":
            return EmbedJob(await self.registry.reader.embedded(model, [prompt], "data.prompt"))
        ids = await self.registry.reader.prompts(model, [prompt], "data.prompt")
        return Generation(
            ids[0],
            most or USUAL_LENGTH,
            temperature or 0.0,
            1.0 if top_p is None else top_p,
            seed or 0,
            stop,
            ignore,
        )

    async def call(self, request: Request, id: str) -> Response:
        """A call of an instance."""
        body = request.json()
        instance = self.registry.instance(id)
        same_instance(body, id)
        job = await self.work(instance, fields.child(body, "data", required=True))
        with instance:
            found = await instance.run(job)
        model = instance.model
        answer: dict[str, Any] = {
            "instance_id": id,
            "model_name": model.name,
            "model_type": model.kind,
            "port": self.port,
            "response": None,
            "image_path": None,
            "prompt_tokens": None,
            "new_tokens": None,
            "finish_reason": None,
            "waiting_time": found["waited"],
        }
        if isinstance(job, Generation):
            answer["response"] = cut(model.tokenizer.decode(found["tokens"]), job.stop)
            answer["execution_time"] = found["waited"] + found["prefill"] + found["decode"]
            answer["prefill_time"], answer["finish_reason"] = found["prefill"], found["reason"]
            answer["prompt_tokens"], answer["new_tokens"] = found["prompt_tokens"], found["new_tokens"]
        elif isinstance(job, EmbedJob):
            answer["embedding"], answer["prompt_tokens"] = found["vectors"][0], found["tokens"]
            answer["execution_time"] = found["waited"] + found["seconds"]
        else:
            answer["image_path"], answer["steps"] = found["image_path"], found["steps"]
            answer["execution_time"] = found["waited"] + found["seconds"]
        return done("answered", answer)

    async def estimate(self, request: Request) -> Response:
        """How long a call of a model, or of an instance, would take now."""
        body = request.json()
        id, name = fields.text(body, "instance_id"), fields.text(body, "model_name")
        if name is None:
            if id is None:
                raise invalid("give `model_name` or `instance_id`", "model_name")
            return await self.forecast(self.registry.instance(id), body)
        await self.registry.model(name)
        fields.device(body, self.registry.place.name)
        instance = self.registry.instance_of(name)
        if instance is None:
            raise conflict(
                "not_measured",
                f"`{name}` is not serving: serve it first, so that its speed is measured",
            )
        return await self.forecast(instance, body)

    async def estimate_instance(self, request: Request, id: str) -> Response:
        """The same of the instance that the path names."""
        body = request.json()
        instance = self.registry.instance(id)
        same_instance(body, id)
        name = fields.text(body, "model_name")
        if name is not None and name != instance.model.name:
            raise invalid(f"`{id}` is an instance of `{instance.model.name}`", "model_name")
        return await self.forecast(instance, body)

    async def forecast(self, instance: Instance, body: dict[str, Any]) -> Response:
        """Reckoned from the measured pace, and from what runs and waits."""
        data = fields.child(body, "data")
        job, engine, seconds = await self.work(instance, data), instance.model.engine, None
        features: dict[str, Any] = {
            "prompt_tokens": None,
            "new_tokens": None,
            "steps": None,
            "guidance_scale": data.get("guidance_scale"),
        }
        if isinstance(job, Generation) and isinstance(engine, LmEngine):
            engine.check(job)
            seconds = engine.forecast(len(job.prompt), job.max_tokens)
            features.update(prompt_tokens=len(job.prompt), new_tokens=job.max_tokens)
        elif isinstance(job, EmbedJob) and isinstance(engine, EmbedEngine):
            seconds = engine.token_pace * (1 + len(engine.waiting)) or None
            features.update(prompt_tokens=len(job.texts[0]))
        elif isinstance(job, ImageJob) and isinstance(engine, ImageEngine):
            rows = engine.running() + 1
            known = dict(engine.pace)
            if known:
                # Of the size that comes nearest; larger batches take longer in proportion.
                near = min(known, key=lambda size: abs(size - rows))
                seconds = known[near] * max(1.0, rows / near) * job.steps
            features.update(steps=job.steps)
        if seconds is None:
            raise conflict(
                "not_measured", f"`{instance.model.name}` has not computed anything yet: call it first"
            )
        return done(
            "estimated",
            {
                "estimated_execution_time": seconds,
                "unit": "seconds",
                "model_name": instance.model.name,
                "instance_id": instance.id,
                "model_type": instance.model.kind,
                "data_features": features,
                "timestamp": stamp(),
            },
        )


def same_instance(body: dict[str, Any], id: str) -> None:
    """A body that names another instance than the path is a mistake."""
    given = fields.text(body, "instance_id")
    if given is not None and given != id:
        raise invalid(f"the body names another instance than the path, `{id}`", "instance_id")
