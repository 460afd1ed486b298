"""The OpenAI-compatible endpoints, over the same instances."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import struct
import time
from collections.abc import AsyncIterator
from typing import Any

from . import fields
from .batch_engine import EmbedJob
from .fault import Fault, invalid, not_found
from .http import Request, Response
from .lm_engine import Generation, LmEngine
from .registry import Instance, Registry, expect
from .tokens import Stream, cut

USUAL_TOKENS = 16
MAX_ANSWERS = 128
MAX_TEXTS = 2048
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "function",
}


def usage(prompt: int, new: int) -> dict[str, int]:
    """How many tokens were read and written."""
    return {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}


def refuse(param: str, given: bool) -> None:
    """What this server cannot do is refused, not passed over."""
    if given:
        raise invalid(f"this server does not support this value of `{param}`", param)


class OpenAi:
    """`/v1`."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def _cards(self) -> dict[str, dict[str, Any]]:
        cards: dict[str, dict[str, Any]] = {}
        for one in self.registry.instances.values():
            if not one.closed:
                card = {
                    "id": one.model.name,
                    "object": "model",
                    "created": int(one.created),
                    "owned_by": "gswarm",
                }
                cards.setdefault(one.model.name, card)
        return cards

    async def models(self, _: Request) -> Response:
        """Models that serve."""
        return Response({"object": "list", "data": list(self._cards().values())})

    async def model(self, _: Request, name: str) -> Response:
        """One of them."""
        card = self._cards().get(name)
        if card is None:
            raise not_found("model_not_found", f"the model `{name[:100]}` is not serving", "model")
        return Response(card)

    def _instance(self, body: dict[str, Any], kind: str) -> Instance:
        name = fields.needed(body, "model")
        instance = self.registry.instance_of(name)
        if instance is None:
            message = f"the model `{name[:100]}` is not serving: POST /standalone/serve starts it"
            raise not_found("model_not_found", message, "model")
        expect(instance, kind)
        return instance

    def _jobs(self, body: dict[str, Any], prompts: list[list[int]], limit: int | None) -> list[Generation]:
        temperature = fields.number(body, "temperature", 0, 2)
        top_p = fields.number(body, "top_p", 0, 1)
        n = fields.whole(body, "n", 1, 16) or 1
        seed = fields.whole(body, "seed", -(1 << 63), (1 << 63) - 1)
        start = secrets.randbits(62) if seed is None else seed
        for name in ("presence_penalty", "frequency_penalty"):
            refuse(name, bool(fields.number(body, name, -2, 2)))
        if len(prompts) * n > MAX_ANSWERS:
            raise invalid(f"a request can ask for at most {MAX_ANSWERS} answers", "n")
        ignore, stop = fields.flag(body, "ignore_eos"), fields.stops(body)
        return [
            Generation(
                prompt,
                limit or fields.MAX_TOKENS,
                1.0 if temperature is None else temperature,
                1.0 if top_p is None else top_p,
                (start + nth) & ((1 << 62) - 1),
                stop,
                ignore,
            )
            for prompt in prompts
            for nth in range(n)
        ]

    async def completions(self, request: Request) -> Response:
        """Goes on with texts."""
        body = request.json()
        instance = self._instance(body, "llm")
        refuse("logprobs", body.get("logprobs") is not None)
        refuse("best_of", body.get("best_of") not in (None, 1))
        texts, prompts = await self._inputs(instance, body.get("prompt"), "prompt")
        limit = fields.whole(body, "max_tokens", 1, fields.MAX_TOKENS) or USUAL_TOKENS
        jobs = self._jobs(body, prompts, limit)
        each = len(jobs) // len(prompts)
        echo = fields.flag(body, "echo")
        prefixes = [texts[at // each] if echo else "" for at in range(len(jobs))]
        return await self._answer(instance, body, jobs, prefixes, chat=False)

    async def chat(self, request: Request) -> Response:
        """Answers in a chat."""
        body = request.json()
        instance = self._instance(body, "llm")
        refuse("logprobs", fields.flag(body, "logprobs"))
        refuse("response_format", fields.child(body, "response_format").get("type", "text") != "text")
        messages = body.get("messages")
        if not isinstance(messages, list) or not 1 <= len(messages) <= 4096:
            raise invalid("a chat has from 1 to 4096 messages", "messages")
        said = [_message(at, one) for at, one in enumerate(messages)]
        prompt = await self.registry.reader.chat(instance.model, said)
        limits = [
            fields.whole(body, name, 1, fields.MAX_TOKENS) for name in ("max_completion_tokens", "max_tokens")
        ]
        jobs = self._jobs(body, [prompt], limits[0] or limits[1])
        return await self._answer(instance, body, jobs, [""] * len(jobs), chat=True)

    async def _inputs(self, instance: Instance, value: Any, name: str) -> tuple[list[str], list[list[int]]]:
        """Texts, or lists of tokens, as texts and tokens."""
        model, reader = instance.model, self.registry.reader
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list) and value and isinstance(value[0], int):
            value = [value]
        if not isinstance(value, list) or not value:
            raise invalid(
                f"{name}: a string, a list of strings, or tokens as whole numbers are expected", name
            )
        if len(value) > (MAX_ANSWERS if name == "prompt" else MAX_TEXTS):
            raise invalid(f"{name}: too many texts for one request", name)
        if all(isinstance(one, str) for one in value):
            for at, one in enumerate(value):
                fields.text({str(at): one}, str(at), name)
            read = reader.embedded if model.kind == "embedding" else reader.prompts
            return value, await read(model, value, name)
        vocab = getattr(model.config, "vocab", 0)
        for one in value:
            if model.kind != "embedding" and isinstance(one, list) and len(one) >= model.context:
                reason = f"the prompt has {len(one)} tokens; with the answer {model.context} fit"
                raise invalid(reason, name)
            if not isinstance(one, list) or not all(
                isinstance(token, int) and not isinstance(token, bool) and 0 <= token < vocab for token in one
            ):
                raise invalid(f"{name}: tokens are whole numbers from 0 to {vocab - 1}", name)
        if model.kind == "embedding":
            return [], reader.fitting(model, value, name)
        return [model.tokenizer.decode(one) for one in value], value

    async def _answer(
        self,
        instance: Instance,
        body: dict[str, Any],
        jobs: list[Generation],
        prefixes: list[str],
        chat: bool,
    ) -> Response:
        head = {
            "id": ("chatcmpl-" if chat else "cmpl-") + secrets.token_hex(8),
            "object": "chat.completion" if chat else "text_completion",
            "created": int(time.time()),
            "model": instance.model.name,
        }
        options = fields.child(body, "stream_options")
        streaming = fields.flag(body, "stream")
        if options and not streaming:
            raise invalid("`stream_options` are for streams", "stream_options")
        if streaming:
            return self._stream(
                instance, head, jobs, prefixes, chat, fields.flag(options, "include_usage", "stream_options")
            )
        with instance:
            tasks = [asyncio.ensure_future(instance.run(job)) for job in jobs]
            try:
                found = await asyncio.gather(*tasks)
            except BaseException:
                for task in tasks:
                    task.cancel()
                raise
        choices = []
        for at, (one, job) in enumerate(zip(found, jobs, strict=True)):
            text = prefixes[at] + cut(instance.model.tokenizer.decode(one["tokens"]), job.stop)
            said: dict[str, Any] = (
                {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            )
            choices.append({"index": at, **said, "logprobs": None, "finish_reason": one["reason"]})
        # Answers to one prompt read it once.
        prompts = {id(job.prompt): len(job.prompt) for job in jobs}
        total = usage(sum(prompts.values()), sum(one["new_tokens"] for one in found))
        return Response({**head, "choices": choices, "usage": total})

    def _stream(
        self,
        instance: Instance,
        head: dict[str, Any],
        jobs: list[Generation],
        prefixes: list[str],
        chat: bool,
        count: bool,
    ) -> Response:
        if chat:
            head["object"] = "chat.completion.chunk"
        engine = instance.model.engine
        assert isinstance(engine, LmEngine)
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[int, list[int] | None]] = asyncio.Queue()
        for job in jobs:
            engine.check(job)
        instance.__enter__()

        def tell(at: int, tokens: list[int] | None) -> None:
            # Where the server has ended, nobody listens.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(queue.put_nowait, (at, tokens))

        def ended() -> None:
            for job in jobs:
                job.cancel()
            instance.__exit__()

        try:
            for at, job in enumerate(jobs):
                job.on_tokens = lambda tokens, at=at: tell(at, tokens)
                job.future.add_done_callback(lambda _, at=at: tell(at, None))  # type: ignore[misc]
                engine.submit(job)
        except BaseException:
            ended()
            raise
        return Response(events=self._events(instance, head, jobs, prefixes, chat, count, queue), ended=ended)

    async def _events(
        self,
        instance: Instance,
        head: dict[str, Any],
        jobs: list[Generation],
        prefixes: list[str],
        chat: bool,
        count: bool,
        queue: asyncio.Queue[tuple[int, list[int] | None]],
    ) -> AsyncIterator[str]:
        streams = [_Held(Stream(instance.model.tokenizer), job) for job in jobs]

        def piece(at: int, text: str | None, reason: str | None, first: bool = False) -> str:
            if chat:
                delta: dict[str, Any] = {"role": "assistant"} if first else {}
                if text is not None:
                    delta["content"] = text
                choice: dict[str, Any] = {"index": at, "delta": delta}
            else:
                choice = {"index": at, "text": text or ""}
            choice.update(logprobs=None, finish_reason=reason)
            return json.dumps({**head, "choices": [choice]}, ensure_ascii=False)

        for at, prefix in enumerate(prefixes):
            if chat or prefix:
                yield piece(at, prefix, None, first=True)
        left, new = len(jobs), 0
        while left:
            at, tokens = await queue.get()
            if tokens is not None:
                text = streams[at].add(tokens)
                if text:
                    yield piece(at, text, None)
                continue
            left -= 1
            error = jobs[at].future.exception()
            if error is not None:
                fault = error if isinstance(error, Fault) else Fault(500, "internal_error", "a step failed")
                yield json.dumps(fault.body("/v1"))
                return
            found = jobs[at].future.result()
            new += found["new_tokens"]
            rest = streams[at].rest(found["tokens"])
            if rest:
                yield piece(at, rest, None)
            yield piece(at, None, found["reason"])
        if count:
            prompts = {id(job.prompt): len(job.prompt) for job in jobs}
            yield json.dumps({**head, "choices": [], "usage": usage(sum(prompts.values()), new)})
        yield "[DONE]"

    async def embeddings(self, request: Request) -> Response:
        """Vectors of texts."""
        body = request.json()
        instance = self._instance(body, "embedding")
        form = fields.one_of(body, "encoding_format", ("float", "base64"))
        wanted = fields.whole(body, "dimensions", 1, 1 << 20)
        _, prompts = await self._inputs(instance, body.get("input"), "input")
        length = getattr(instance.model.config, "hidden", 0)
        if wanted is not None and wanted != length:
            raise invalid(f"the vectors of this model have {length} dimensions", "dimensions")
        with instance:
            found = await instance.run(EmbedJob(prompts))
        data = []
        for at, vector in enumerate(found["vectors"]):
            shown = (
                vector
                if form == "float"
                else base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            )
            data.append({"object": "embedding", "index": at, "embedding": shown})
        tokens = usage(found["tokens"], 0)
        return Response({"object": "list", "data": data, "model": instance.model.name, "usage": tokens})


class _Held:
    """A stream that holds back what may turn out to be the beginning of a string that ends the answer."""

    def __init__(self, stream: Stream, job: Generation) -> None:
        self._stream, self._stop = stream, job.stop
        self._text, self._sent, self._over = "", 0, False

    def add(self, tokens: list[int]) -> str:
        """What can be sent now."""
        self._text += self._stream.add(tokens)
        if not self._stop:
            return self._give(len(self._text))
        whole = cut(self._text, self._stop)
        if len(whole) < len(self._text):
            self._over, self._text = True, whole
            return self._give(len(whole))
        held = max(
            (n for one in self._stop for n in range(1, len(one)) if self._text.endswith(one[:n])), default=0
        )
        return self._give(len(self._text) - held)

    def rest(self, _: list[int]) -> str:
        """What is left at the end."""
        if not self._over:
            self._text = cut(self._text + self._stream.add([], last=True), self._stop)
        return self._give(len(self._text))

    def _give(self, until: int) -> str:
        new = self._text[self._sent : until]
        self._sent = max(self._sent, until)
        return new


def _message(at: int, one: Any) -> dict[str, str]:
    where = f"messages[{at}]"
    if not isinstance(one, dict) or one.get("role") not in ROLES:
        raise invalid(f"{where}.role: one of {', '.join(ROLES)} is expected", f"{where}.role")
    content = one.get("content")
    if isinstance(content, list):
        for place, part in enumerate(content):
            if (
                not isinstance(part, dict)
                or part.get("type") != "text"
                or not isinstance(part.get("text"), str)
            ):
                raise invalid("the model reads only text", f"{where}.content[{place}]")
        content = "".join(part["text"] for part in content)
    if content is None:
        content = ""
    if not isinstance(content, str):
        raise invalid(f"{where}.content: a string or a list of parts is expected", f"{where}.content")
    return {"role": ROLES[one["role"]], "content": content}
