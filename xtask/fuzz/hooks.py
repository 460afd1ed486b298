"""Lets most generated requests name what is there: without it they would all end at 404."""

import os
import zlib

import schemathesis

MODELS = os.environ["GSWARM_MODELS"].split(",")
INSTANCES = os.environ["GSWARM_INSTANCES"].split(",")


def choose(list_, value):
    """One of the list, or nothing in a quarter of the cases; the same for the same value."""
    number = zlib.crc32(repr(value).encode("utf-8", "replace"))
    return list_[number // 4 % len(list_)] if number % 4 else None


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    # Those that are to stay are not deleted; the ids that are generated for that are nobody's.
    if path_parameters and "instance_id" in path_parameters and context.operation.method != "delete":
        chosen = choose(INSTANCES, path_parameters["instance_id"])
        if chosen:
            path_parameters["instance_id"] = chosen
    return path_parameters


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and not context.operation.path.endswith("/offload"):
        for key in ("model", "model_name"):
            if isinstance(body.get(key), str):
                body[key] = choose(MODELS, body[key]) or body[key]
        if isinstance(body.get("instance_id"), str):
            body["instance_id"] = choose(INSTANCES, body["instance_id"]) or body["instance_id"]
    return body
