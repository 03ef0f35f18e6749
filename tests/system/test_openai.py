"""The OpenAI-compatible routes end to end: OpenAI's own client, HTTP, the queue, a real sampler."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import openai
import pytest
import pytest_asyncio
import torch
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from pydantic import BaseModel
from sqlmodel import Session, select
from tests.support.base_models import tiny_models
from tests.support.gateway import Gateway
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.sampling import nudged, with_weights
from tests.support.sampling_gateway import BASE, sampling_gateway

from warren_gateway.store.tables import Model, Run
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.weights import save_policy
from warren_schemas.openai import GenerateResponse

__all__ = ["tiny_models"]

EOS = 1
WITH_IDS = {"return_token_ids": True}

pytestmark = [pytest.mark.asyncio(loop_scope="module"), several_waits]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Gateway]:
    folder = tmp_path_factory.mktemp("openai")
    async with sampling_gateway(folder, tiny_models[BASE]) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def ann(gateway: Gateway) -> AsyncGenerator[AsyncOpenAI]:
    async with client_of(gateway, gateway.ann.headers["Authorization"]) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def bob(gateway: Gateway) -> AsyncGenerator[AsyncOpenAI]:
    async with client_of(gateway, gateway.bob.headers["Authorization"]) as client:
        yield client


def client_of(gateway: Gateway, authorization: str) -> AsyncOpenAI:
    key = authorization.removeprefix("Bearer ")
    return AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_S)


def extra(answer: BaseModel, name: str) -> list[int]:
    """A field that OpenAI's API doesn't have."""
    return cast("list[int]", (answer.model_extra or {})[name])


async def test_models_are_listed(ann: AsyncOpenAI) -> None:
    assert BASE in [model.id async for model in ann.models.list()]
    assert (await ann.models.retrieve(BASE)).id == BASE
    with pytest.raises(openai.NotFoundError):
        await ann.models.retrieve("nobody/knows")


async def test_a_chat_is_answered_with_its_tokens(
    ann: AsyncOpenAI, tiny_models: dict[str, str]
) -> None:
    answer = await ann.chat.completions.create(
        model=BASE,
        messages=[{"role": "user", "content": "?"}],
        n=3,
        max_tokens=5,
        logprobs=True,
        extra_body=WITH_IDS,
    )
    assert (answer.model, len(answer.choices)) == (BASE, 3)
    prompt = extra(answer, "prompt_token_ids")
    assert prompt == [2, 45]
    n_sampled = 0
    for choice in answer.choices:
        ids = extra(choice, "token_ids")
        n_sampled += len(ids)
        assert choice.message.role == "assistant"
        assert extra(choice, "versions") == [0] * len(ids)
        assert choice.finish_reason == ("stop" if ids[-1] == EOS else "length")
        assert choice.logprobs is not None
        told = choice.logprobs.content or []
        assert [entry.token for entry in told] == [f"token_id:{token}" for token in ids]
        expected = reference_logprobs(tiny_models[BASE], prompt, ids)
        np.testing.assert_allclose([entry.logprob for entry in told], expected, atol=1e-3)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, n_sampled)


def reference_logprobs(folder: str, prompt: list[int], ids: list[int]) -> list[float]:
    """The sampled tokens' logprobs by one plain forward pass."""
    whole = torch.tensor([[*prompt, *ids]])
    with torch.inference_mode():
        logprobs_TV = load_base(folder)(whole).logits[0].log_softmax(-1)
    return [float(logprobs_TV[len(prompt) - 1 + i, token]) for i, token in enumerate(ids)]


async def test_a_greedy_chat_says_the_same_whole_and_streamed(ann: AsyncOpenAI) -> None:
    whole = await ann.chat.completions.create(
        model=BASE, messages=[{"role": "user", "content": "3+4="}], temperature=0, max_tokens=6
    )
    stream = await ann.chat.completions.create(
        model=BASE,
        messages=[{"role": "user", "content": "3+4="}],
        temperature=0,
        max_tokens=6,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    said = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(said) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


async def test_a_text_goes_on_from_words_and_from_tokens_alike(ann: AsyncOpenAI) -> None:
    from_words = await ann.completions.create(
        model=BASE, prompt="3+4=", temperature=0, max_tokens=6, logprobs=0, extra_body=WITH_IDS
    )
    from_tokens = await ann.completions.create(
        model=BASE,
        prompt=extra(from_words, "prompt_token_ids"),
        temperature=0,
        max_tokens=6,
        extra_body=WITH_IDS,
    )
    stream = await ann.completions.create(
        model=BASE, prompt="3+4=", temperature=0, max_tokens=6, stream=True
    )
    streamed = [choice.text async for chunk in stream for choice in chunk.choices]
    first, second = from_words.choices[0], from_tokens.choices[0]
    assert extra(first, "token_ids") == extra(second, "token_ids")
    assert first.text == second.text == "".join(streamed)
    assert first.logprobs is not None
    assert len(first.logprobs.token_logprobs or []) == len(extra(first, "token_ids"))


async def test_tokens_go_on_as_tokens_with_exact_logprobs(
    gateway: Gateway, tiny_models: dict[str, str]
) -> None:
    prompt = [2, 45, 8]
    asked = {
        "model": BASE,
        "token_ids": prompt,
        "sampling_params": {"n": 3, "max_tokens": 6, "logprobs": 0},
    }
    async with gateway.ann.post("/inference/v1/generate", json=asked) as response:
        told = GenerateResponse.model_validate_json(await response.read())
    for choice in told.choices:
        assert choice.logprobs is not None
        assert set(choice.versions) == {0}
        expected = reference_logprobs(tiny_models[BASE], prompt, list(choice.token_ids))
        logprobs = [entry.logprob for entry in choice.logprobs.content]
        np.testing.assert_allclose(logprobs, expected, atol=1e-3)


async def test_a_trained_policy_is_used_by_its_run_newest_or_pinned(
    gateway: Gateway,
    ann: AsyncOpenAI,
    bob: AsyncOpenAI,
    tiny_models: dict[str, str],
    tmp_path: Path,
) -> None:
    run = await gateway.submit()
    base = load_base(tiny_models[BASE])
    urls = [(tmp_path / f"v{version}").as_uri() for version in (1, 2)]
    for version, url in enumerate(urls, start=1):
        policy = with_weights(base, nudged(base, seed=version))
        await asyncio.to_thread(save_policy, policy, url)
    await gateway.store.transact(lambda session: publish(session, run, 2, urls[1]))
    for name, expected in ((run, 2), (f"{run}@1", 1), (f"{run}@2", 2), (f"{run}@0", 0)):
        answer = await chat(ann, model=name)
        assert set(extra(answer.choices[0], "versions")) == {expected}
    assert {run, f"{run}@2"} <= {model.id async for model in ann.models.list()}
    assert run not in {model.id async for model in bob.models.list()}
    for client, name in ((bob, run), (ann, f"{run}@3")):
        with pytest.raises(openai.NotFoundError) as refused:
            await chat(client, model=name)
        assert refused.value.code == "model_not_found"


def publish(session: Session, run: str, version: int, url: str) -> None:
    model = session.exec(select(Model).where(Model.run_id == run)).one()
    model.policy_version, model.policy_url = version, url
    model.policies = [(step, step) for step in range(1, version + 1)]
    session.get_one(Run, run).step = version
    session.add(model)


async def chat(client: AsyncOpenAI, content: str = "?", **changes: Any) -> ChatCompletion:
    asked: dict[str, Any] = {"model": BASE, "max_tokens": 4, "extra_body": WITH_IDS}
    messages = [{"role": "user", "content": content}]
    create = cast("Callable[..., Awaitable[ChatCompletion]]", client.chat.completions.create)
    return await create(messages=messages, **(asked | changes))


async def test_many_are_answered_at_once(ann: AsyncOpenAI) -> None:
    answers = await asyncio.gather(*(chat(ann, "?" * n) for n in range(1, 17)))
    n_prompts = [len(extra(answer, "prompt_token_ids")) for answer in answers]
    assert n_prompts == [1 + n for n in range(1, 17)]


async def test_tools_reach_the_policy(ann: AsyncOpenAI) -> None:
    tool = {"type": "function", "function": {"name": "add"}}
    bare, told = await chat(ann), await chat(ann, tools=[tool])
    n_bare, n_told = (len(extra(answer, "prompt_token_ids")) for answer in (bare, told))
    assert n_told > n_bare + 100


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"model": "nobody/knows"}, 404, "model_not_found"),
        ({"content": "7" * 600}, 400, "context_length_exceeded"),
        ({"content": "7" * 900_000}, 400, "context_length_exceeded"),
        ({"content": "7" * 10_000_000}, 413, None),
        ({"temperature": 3.0}, 400, "invalid_request"),
        ({"stop": [""]}, 400, "invalid_request"),
        ({"presence_penalty": 0.5}, 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_answered_is_told(
    ann: AsyncOpenAI, changes: dict[str, Any], status: int, code: str | None
) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        await chat(ann, **changes)
    assert refused.value.status_code == status
    assert code is None or refused.value.code == code
    assert refused.value.message


async def test_tokens_that_the_model_does_not_have_are_told(ann: AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await ann.completions.create(model=BASE, prompt=[2, 99_999])
    assert refused.value.code == "invalid_request"


async def test_nobody_without_a_right_key_is_answered(gateway: Gateway) -> None:
    async with client_of(gateway, "Bearer wk_wrong") as stranger:
        with pytest.raises(openai.AuthenticationError):
            await chat(stranger)


async def test_who_leaves_harms_nobody(ann: AsyncOpenAI) -> None:
    leaving = [asyncio.create_task(chat(ann, n=8, max_tokens=500)) for _ in range(4)]
    await chat(ann)  # behind them
    for task in leaving:
        task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    assert (await chat(ann)).choices
