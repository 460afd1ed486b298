"""A worker that serves models on one device, over the standalone and the OpenAI-compatible endpoints.

Models are on disk, in pinned host memory or on the device; every move between these tiers is timed. Language
models use continuous batching: requests join and leave a batch between steps. The extra `worker` lists the
packages that it needs. Nothing here imports the compiled part of the package.
"""
