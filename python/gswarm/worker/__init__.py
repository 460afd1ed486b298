"""A worker that serves models on one device, over the standalone and the OpenAI-compatible endpoints.

Models lie on disk, in pinned host memory or on the device, and every way between is timed. Language models
decode in batches that requests join and leave between steps. It needs PyTorch alone; folders of Hugging
Face models also need `tokenizers`. Nothing here imports the compiled part of the package.
"""
