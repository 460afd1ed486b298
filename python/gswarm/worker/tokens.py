"""Text to tokens and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from . import folder
from .rendering import Renderer, TooLong

ROOMY = 64
"""Characters that a token may stand for at least: some tokenizers make one of a long run of spaces."""
MAX_TOKENIZER_BYTES = 256 << 20
MAX_TEMPLATE_BYTES = 4 << 20


class Tokenizer(Protocol):
    """What a model reads and writes text by. Safe to use from several threads."""

    longest: int
    """Characters that a token stands for at most: a text of more of them has more than one token."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with those that begin and end one."""

    def decode(self, ids: list[int]) -> str:
        """The text of tokens."""

    def chat(self, messages: list[dict[str, str]], most: int) -> list[int]:
        """The tokens of a chat, up to where the assistant is to speak; `most` are its characters."""

    def close(self) -> None:
        """Ends what it has started."""


def plain_chat(messages: list[dict[str, str]], most: int) -> str:
    """A chat as text, for models that have no form of their own for it."""
    text = "".join(f"{one['role']}: {one['content']}\n" for one in messages) + "assistant:"
    if len(text) > most:
        raise TooLong
    return text


class Bytes:
    """For models with random weights: a token a byte, and for tokens beyond, a letter of the alphabet."""

    longest = 1

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

    def chat(self, messages: list[dict[str, str]], most: int) -> list[int]:
        """The bytes of the chat as text."""
        return self.encode(plain_chat(messages, most))

    def close(self) -> None:
        """There is nothing to end."""


class Folder:
    """The tokenizer of a model's folder, with every token inside the model's vocabulary."""

    def __init__(self, place: Path, vocab: int) -> None:
        path = place / "tokenizer.json"
        data = folder.read(path, MAX_TOKENIZER_BYTES)
        try:
            import tokenizers
        except ModuleNotFoundError:
            raise folder.wrong(path, "the package `tokenizers` is needed to read it") from None
        try:
            self._inner = tokenizers.Tokenizer.from_str(data.decode())
            self._inner.no_truncation()
            self._inner.no_padding()
            known = self._inner.get_vocab(with_added_tokens=True)
        except BaseException as error:  # Also where the library itself gives up.
            raise folder.wrong(path, f"this is not a tokenizer: {str(error)[:200]}") from None
        if not known:
            raise folder.wrong(path, "it has no tokens")
        if max(known.values()) >= vocab:
            reason = f"it has a token {max(known.values())}, where config.json has a vocabulary of {vocab}"
            raise folder.wrong(path, reason)
        self.longest = max(ROOMY, *map(len, known))
        settings = folder.read_json_if_there(place / "tokenizer_config.json")
        self._names: dict[str, str] = {}
        for name in ("bos_token", "eos_token"):
            value = settings.get(name)
            value = value.get("content") if isinstance(value, dict) else value
            self._names[name] = value if isinstance(value, str) else ""
        source = _template(place, settings)
        self._template = None if source is None else Renderer(source)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self._ids(text, True)

    def _ids(self, text: str, special: bool) -> list[int]:
        # Of several texts alone the library lets other threads go on.
        return list(self._inner.encode_batch([text], add_special_tokens=special)[0].ids)

    def decode(self, ids: list[int]) -> str:
        """The text of tokens, without those that are no text."""
        return str(self._inner.decode(ids, skip_special_tokens=True))

    def chat(self, messages: list[dict[str, str]], most: int) -> list[int]:
        """The tokens of a chat by the model's own form."""
        if self._template is None:
            return self.encode(plain_chat(messages, most))
        values = {"messages": messages, "add_generation_prompt": True, **self._names}
        return self._ids(self._template.render(values, most), False)

    def close(self) -> None:
        """Ends what renders its chats."""
        if self._template is not None:
            self._template.close()


def _template(place: Path, settings: dict[str, Any]) -> str | None:
    """The model's form of chats, where it has one: a file, a text, or a list of named ones."""
    path, found = place / "chat_template.jinja", settings.get("chat_template")
    if path.exists():
        try:
            found = folder.read(path, MAX_TEMPLATE_BYTES).decode()
        except ValueError:
            raise folder.wrong(path, "this is not UTF-8 text") from None
    else:
        path = place / "tokenizer_config.json"
        if isinstance(found, list):
            named = [one for one in found if isinstance(one, dict)]
            usual = [one for one in named if one.get("name") == "default"]
            found = next((one.get("template") for one in usual or named), None)
    if not isinstance(found, str):
        return None
    try:
        from jinja2 import TemplateSyntaxError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ModuleNotFoundError:
        raise folder.wrong(path, "the package `jinja2` is needed for its chat template") from None
    try:
        # Only read here; compiling it may already compute.
        ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).parse(found)
    except (TemplateSyntaxError, RecursionError) as error:
        raise folder.wrong(path, f"its chat template is damaged: {str(error)[:200]}") from None
    return found


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
