"""Client libraries of the OpenAI API, as their users call them, against `gswarm serve` with own models."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import LIMIT, ROOT, command

# What these libraries warn of, and what they leave open, is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

# LiteLLM else fetches prices from the internet.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

HELLO = "Tell of a lighthouse"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the API. Two language models and one for embeddings share two places."""
    place = tmp_path_factory.mktemp("door")
    for at, (name, kind) in enumerate([("writer", "llm"), ("critic", "llm"), ("finder", "embedding")]):
        made = command(
            "models", "init", "--dir", place / "models", "--name", name, "--kind", kind, "--seed", at
        )
        assert made.returncode == 0, made.stderr
    shutil.copy(ROOT / "examples/live/config.yaml", place / "config.yaml")
    line = [sys.executable, "-m", "gswarm", "serve", "--config", "config.yaml", "--port", "0", "--quiet"]
    server = subprocess.Popen(line, cwd=place, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    first = server.stdout.readline().strip()
    assert first.startswith("Listening on http"), first
    yield first.removeprefix("Listening on ") + "/v1"
    server.terminate()
    assert server.wait(LIMIT) == 0


def test_openai(door: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=door, api_key="none", timeout=LIMIT)
    assert {model.id for model in client.models.list()} == {"writer", "critic", "finder"}
    messages = [{"role": "user", "content": HELLO}]
    answer = client.chat.completions.create(model="writer", messages=messages, max_tokens=8, logprobs=True)
    assert answer.model == "writer"
    assert answer.usage.completion_tokens == 8
    assert len(answer.choices[0].logprobs.content) == 8
    stream = client.chat.completions.create(
        model="critic", messages=messages, max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[-1].usage.completion_tokens == 8
    assert any(chunk.choices and chunk.choices[0].delta.content for chunk in chunks)
    texts = client.embeddings.create(model="finder", input=["a", "b"], encoding_format="float")
    tokens = client.embeddings.create(model="finder", input=[[1, 2, 3]])
    assert len(texts.data) == 2
    assert len(tokens.data[0].embedding) == len(texts.data[0].embedding)
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="nobody", messages=messages)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(model="writer", messages=messages, max_tokens=10**6)
    assert long.value.code == "context_length_exceeded"
    assert long.value.param == "max_tokens"


def test_litellm(door: str) -> None:
    litellm = pytest.importorskip("litellm")
    messages = [{"role": "user", "content": HELLO}]
    given = {"api_base": door, "api_key": "none", "timeout": LIMIT}
    answer = litellm.completion(model="openai/writer", messages=messages, max_tokens=8, **given)
    assert answer.usage.completion_tokens == 8
    stream = litellm.completion(model="openai/writer", messages=messages, max_tokens=8, stream=True, **given)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    vectors = litellm.embedding(model="openai/finder", input=["a", "b"], encoding_format="float", **given)
    assert len(vectors.data) == 2


def test_langchain(door: str) -> None:
    langchain = pytest.importorskip("langchain_openai")
    chat = langchain.ChatOpenAI(model="writer", base_url=door, api_key="none", max_tokens=8, timeout=LIMIT)
    answer = chat.invoke(HELLO)
    assert answer.content
    assert answer.usage_metadata["output_tokens"] == 8
    assert "".join(chunk.content for chunk in chat.stream(HELLO))
    # Without this it fetches a table of tokens from the internet.
    vectors = langchain.OpenAIEmbeddings(
        model="finder", base_url=door, api_key="none", check_embedding_ctx_length=False
    )
    assert len(vectors.embed_documents(["a", "b"])) == 2


def test_llama_index(door: str) -> None:
    index = pytest.importorskip("llama_index.llms.openai_like")
    llms = pytest.importorskip("llama_index.core.llms")
    model = index.OpenAILike(
        model="writer", api_base=door, api_key="none", is_chat_model=True, max_tokens=8, timeout=LIMIT
    )
    message = llms.ChatMessage(role="user", content=HELLO)
    assert model.chat([message]).message.content
    assert "".join(piece.delta or "" for piece in model.stream_chat([message]))


def test_instructor(door: str) -> None:
    """Own models are held to the schema; what they cannot be held to is refused by name."""
    instructor = pytest.importorskip("instructor")
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    short = (str, pydantic.Field(max_length=12))
    rank = (int, pydantic.Field(ge=1, le=10))
    shape = pydantic.create_model("Place", name=short, rank=rank, old=(bool, ...))
    client = instructor.from_openai(
        openai.OpenAI(base_url=door, api_key="none", timeout=LIMIT), mode=instructor.Mode.JSON_SCHEMA
    )
    given = {"model": "writer", "messages": [{"role": "user", "content": HELLO}], "max_retries": 0}
    place = client.chat.completions.create(response_model=shape, max_tokens=200, **given)
    assert 1 <= place.rank <= 10
    assert len(place.name) <= 12
    odd = pydantic.create_model("Odd", name=(str, pydantic.Field(pattern="^a+$")))
    with pytest.raises(Exception, match="response_format"):
        client.chat.completions.create(response_model=odd, max_tokens=8, **given)


def test_openai_agents(door: str) -> None:
    agents = pytest.importorskip("agents")
    openai = pytest.importorskip("openai")
    agents.set_tracing_disabled(True)
    model = agents.OpenAIChatCompletionsModel(
        model="writer", openai_client=openai.AsyncOpenAI(base_url=door, api_key="none", timeout=LIMIT)
    )
    settings = agents.ModelSettings(max_tokens=8)
    agent = agents.Agent(name="Keeper", instructions="Be brief.", model=model, model_settings=settings)
    assert agents.Runner.run_sync(agent, HELLO, max_turns=1).final_output
