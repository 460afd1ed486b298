"""Text to tokens and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol


class Tokenizer(Protocol):
    """What a model reads and writes text by."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that begin and end one."""

    def decode(self, ids: list[int]) -> str:
        """The text of tokens."""

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """The tokens of a chat, up to where the assistant is to speak."""


def plain_chat(messages: list[dict[str, str]]) -> str:
    """A chat as text, for models that have no form of their own for it."""
    return "".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant:"


class Bytes:
    """For models with random weights: a token a byte, and for tokens beyond, a letter of the alphabet."""

    def __init__(self, vocab: int, begin: int | None = 256) -> None:
        self.vocab = vocab
        self.begin = begin if begin is not None and begin < vocab else None

    def encode(self, text: str) -> list[int]:
        """The bytes of the text."""
        ids = [one % self.vocab for one in text.encode()]
        return ids if self.begin is None else [self.begin, *ids]

    def decode(self, ids: list[int]) -> str:
        """Printable whatever the ids are: a random model writes any."""
        return "".join(chr(one) if 32 <= one < 127 else chr(97 + one % 26) for one in ids)

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """The bytes of the chat as text."""
        return self.encode(plain_chat(messages))


class Folder:
    """The tokenizer of a model's folder."""

    def __init__(self, folder: Path) -> None:
        import tokenizers

        self._inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._inner.no_truncation()
        self._inner.no_padding()
        self._template: Any = None
        self._names: dict[str, str] = {}
        settings = folder / "tokenizer_config.json"
        if settings.is_file():
            config = json.loads(settings.read_text())
            for name in ("bos_token", "eos_token"):
                value = config.get(name)
                self._names[name] = value.get("content", "") if isinstance(value, dict) else value or ""
            template = config.get("chat_template")
            if isinstance(template, str):
                from jinja2.sandbox import ImmutableSandboxedEnvironment

                self._template = ImmutableSandboxedEnvironment(
                    trim_blocks=True, lstrip_blocks=True
                ).from_string(template)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self._inner.encode(text).ids)

    def decode(self, ids: list[int]) -> str:
        """The text of tokens, without those that are no text."""
        return str(self._inner.decode(ids, skip_special_tokens=True))

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """The tokens of a chat by the model's own form."""
        if self._template is None:
            return self.encode(plain_chat(messages))
        text = self._template.render(messages=messages, add_generation_prompt=True, **self._names)
        return list(self._inner.encode(text, add_special_tokens=False).ids)


class Stream:
    """Text that grows token by token. What may still change, as half of a letter, waits."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._sent = 0

    def add(self, ids: list[int], last: bool = False) -> str:
        """What these tokens add to the text that was given out."""
        self._ids.extend(ids)
        text = self._tokenizer.decode(self._ids)
        if not last and text.endswith("\ufffd"):
            return ""
        new = text[self._sent :]
        self._sent = len(text)
        return new


def cut(text: str, stop: tuple[str, ...]) -> str:
    """The text up to the first of the strings that end it."""
    ends = [at for at in (text.find(one) for one in stop) if at >= 0]
    return text[: min(ends)] if ends else text
