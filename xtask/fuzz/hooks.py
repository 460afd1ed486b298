"""Lets most generated requests name what is there: without it they would all end at 404."""

import json
import os
import zlib

import schemathesis

THERE = json.loads(os.environ["GSWARM_THERE"])
# The names that requests have for it.
KINDS = {
    "model": "model", "model_name": "model", "instance_id": "instance", "workflow": "workflow", "request": "request",
}


def name_what_is_there(values):
    """Names one that is there, but in a quarter of the cases; the same for the same value."""
    for key, kind in KINDS.items():
        if isinstance(values.get(key), str) and kind in THERE:
            number = zlib.crc32(repr(values[key]).encode("utf-8", "replace"))
            if number % 4:
                values[key] = THERE[kind][number // 4 % len(THERE[kind])]


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    # Those that are to stay are not deleted; the ids that are generated for that are nobody's.
    if path_parameters and context.operation.method != "delete":
        name_what_is_there(path_parameters)
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    # A minute's wait for something that never ends is as it should be, and takes a minute.
    if isinstance(query, dict) and isinstance(query.get("wait"), (int, float)) and 1 < query["wait"] <= 300:
        query["wait"] = 0.1
    return query


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict) and not context.operation.path.endswith("/offload"):
        name_what_is_there(body)
    return body
