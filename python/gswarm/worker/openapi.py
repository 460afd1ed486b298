"""`/openapi.json`: the endpoints by OpenAPI 3.1, from the tables that requests are handed out by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from . import fields

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 1}
SEED: Schema = {"type": "integer"}
WARMTH: Schema = {"type": "number", "minimum": 0, "maximum": 2}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
TEXTS: Schema = {"oneOf": [TEXT, {"type": "array", "items": {"oneOf": [TEXT, SEED]}}]}
SAMPLING: dict[str, Schema] = {
    "temperature": WARMTH,
    "top_p": SHARE,
    "seed": SEED,
    "stop": {"oneOf": [TEXT, {"type": "array", "items": TEXT}]},
    "ignore_eos": FLAG,
}
WRITING: dict[str, Schema] = {
    "model": TEXT,
    **SAMPLING,
    "max_tokens": COUNT,
    "n": COUNT,
    "stream": FLAG,
    "stream_options": {"type": "object", "properties": {"include_usage": FLAG}},
}
MESSAGES: Schema = {
    "type": "array",
    "items": {"type": "object", "required": ["role", "content"], "properties": {"role": TEXT}},
}
DATA: Schema = {
    "type": "object",
    "properties": {
        "prompt": TEXT,
        **dict.fromkeys(fields.MOST_TOKENS, COUNT),
        "steps": COUNT,
        **SAMPLING,
    },
}

ERROR: Schema = {
    "type": "object",
    "properties": {
        "success": FLAG,
        "error": {
            "type": "object",
            "properties": {
                "message": TEXT,
                "type": TEXT,
                "code": TEXT,
                "param": {"type": ["string", "null"]},
            },
        },
    },
}


def choice(*values: str) -> Schema:
    """One of these; the first where nothing is said."""
    return {"type": "string", "enum": list(values), "default": values[0]}


# What the body of each endpoint has, and what of it is needed.
BODIES: dict[str, tuple[dict[str, Schema], list[str]]] = {
    "/standalone/download": ({"model_name": TEXT, "source": choice("huggingface")}, ["model_name"]),
    "/standalone/load": (
        {"model_name": TEXT, "target": choice("dram", "gpu"), "device": TEXT},
        ["model_name"],
    ),
    "/standalone/serve": ({"model_name": TEXT, "device": TEXT}, ["model_name"]),
    "/standalone/offload": ({"model_name": TEXT, "target": choice("disk", "dram")}, ["model_name"]),
    "/standalone/estimate": ({"model_name": TEXT, "instance_id": TEXT, "data": DATA}, []),
    "/standalone/estimate/{id}": ({"data": DATA}, []),
    "/standalone/call/{id}": ({"instance_id": TEXT, "data": DATA}, ["data"]),
    "/v1/completions": ({**WRITING, "prompt": TEXTS, "echo": FLAG}, ["model", "prompt"]),
    "/v1/chat/completions": (
        {**WRITING, "messages": MESSAGES, "max_completion_tokens": COUNT},
        ["model", "messages"],
    ),
    "/v1/embeddings": (
        {"model": TEXT, "input": TEXTS, "encoding_format": choice("float", "base64"), "dimensions": COUNT},
        ["model", "input"],
    ),
}


def document(version: str, routes: Iterable[tuple[str, str, Callable[..., Any]]]) -> dict[str, Any]:
    """The whole, of routes by method, path and what answers them."""
    paths: dict[str, Any] = {}
    failed = {"description": "what is wrong", "content": {"application/json": {"schema": ERROR}}}
    for method, path, answers in routes:
        operation: dict[str, Any] = {
            "summary": (inspect.getdoc(answers) or "").partition("\n")[0],
            "responses": {"200": {"description": "done"}, "default": failed},
        }
        if "{id}" in path:
            operation["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": TEXT}]
        if path in BODIES:
            properties, needed = BODIES[path]
            schema = {"type": "object", "properties": properties, "required": needed}
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[method.lower()] = operation
    return {"openapi": "3.1.0", "info": {"title": "gswarm worker", "version": version}, "paths": paths}
