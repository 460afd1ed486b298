"""Texts of requests to tokens, beside the thread that answers requests: a long one holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .fault import Fault, invalid
from .model import Model
from .rendering import NotRendered, TooLong

T = TypeVar("T")
QUICK = 4096
"""Characters that are read faster than they are handed to another thread and back."""


class Reader:
    """Tokenizes for all models."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="texts")

    async def _beside(self, what: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, what)

    async def prompts(self, model: Model, texts: list[str], param: str) -> list[list[int]]:
        """The tokens of texts that a language model is to go on with."""
        most = most_characters(model)
        for text in texts:
            if len(text) > most:
                reason = f"the prompt has {len(text)} characters; with the answer {model.context} tokens fit"
                raise invalid(reason, param)
        return await self._encoded(model, texts)

    async def embedded(self, model: Model, texts: list[str], param: str) -> list[list[int]]:
        """The tokens of texts that vectors are asked for."""
        if model.path is None:
            # A token a byte is an invention: where the weights are random, what is read is as long as can be.
            return self.fitting(model, await self._encoded(model, [one[: model.context] for one in texts]))
        for at, text in enumerate(texts):
            if len(text) > most_characters(model):
                raise invalid(f"text {at} is too long: the model takes {model.context} tokens", param)
        return self.fitting(model, await self._encoded(model, texts), param)

    @staticmethod
    def fitting(model: Model, texts: list[list[int]], param: str = "input") -> list[list[int]]:
        """Texts that are as long as an embedding model takes them; what is longer is refused."""
        if model.path is None:
            return [one[: model.context] for one in texts]
        for at, one in enumerate(texts):
            if len(one) > model.context:
                raise invalid(f"text {at} has {len(one)} tokens; the model takes {model.context}", param)
        return texts

    async def _encoded(self, model: Model, texts: list[str]) -> list[list[int]]:
        encode = model.tokenizer.encode
        if sum(map(len, texts)) <= QUICK:
            return [encode(one) for one in texts]
        return await self._beside(lambda: [encode(one) for one in texts])

    async def chat(self, model: Model, messages: list[dict[str, str]]) -> list[int]:
        """The tokens of a chat, by the model's own form of one."""
        most = most_characters(model)
        try:
            if model.path is None and sum(len(one["content"]) for one in messages) <= QUICK:
                return model.tokenizer.chat(messages, most)
            return await self._beside(lambda: model.tokenizer.chat(messages, most))
        except TooLong:
            raise invalid(
                f"the chat is too long: with the answer {model.context} tokens fit", "messages"
            ) from None
        except NotRendered as error:
            reason = f"the model's chat template rejects these messages: {error}"
            raise invalid(reason, "messages") from None
        except Fault:
            raise
        except Exception as error:  # As where a text is none.
            raise invalid(f"the chat cannot be read: {str(error)[:200]}", "messages") from None

    def close(self) -> None:
        """Ends its threads, once they are done with what they have."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def most_characters(model: Model) -> int:
    """Characters of a text that could fit: each token stands for so many at most."""
    return model.context * model.tokenizer.longest
