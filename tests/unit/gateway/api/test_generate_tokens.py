"""Tokens in, tokens out, with a sampler that answers by rote; the real one: tests/system."""

from typing import Any

import aiohttp
import pytest
from tests.support.gateway import Gateway
from tests.support.rote_sampler import BASE, asking, ignored, post

from warren_schemas.openai import OpenAIError

__all__ = ["asking", "ignored"]

TOKENS: dict[str, Any] = {"model": BASE, "token_ids": [7, 7, 9]}


async def generated(
    client: aiohttp.ClientSession, params: dict[str, Any] | None = None, **changes: Any
) -> tuple[int, dict[str, Any]]:
    asked = TOKENS | {"sampling_params": params or {}} | changes
    return await post(client, "/inference/v1/generate", asked)


async def test_tokens_are_answered_with_tokens_logprobs_and_versions(asking: Gateway) -> None:
    status, body = await generated(asking.ann, {"n": 2, "logprobs": 0, "top_k": -1})
    assert (status, body["model"]) == (200, BASE)
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    choice = body["choices"][0]
    assert (choice["token_ids"], choice["versions"]) == ([8, 1], [0, 0])
    assert choice["finish_reason"] == "stop"
    told = [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]
    assert told == [("token_id:8", -0.5), ("token_id:1", -0.25)]
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


async def test_logprobs_come_for_those_who_ask_and_a_request_keeps_its_id(asking: Gateway) -> None:
    status, body = await generated(asking.ann, request_id="mine")
    assert (status, body["request_id"]) == (200, "mine")
    assert body["choices"][0]["logprobs"] is None
    ids = {(await generated(asking.ann))[1]["request_id"] for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [-1]}, "token_ids.0"),
        ({"token_ids": "?"}, "token_ids"),
        ({"sampling_params": {"temperature": 3}}, "sampling_params.temperature"),
        ({"sampling_params": {"seed": 1}}, "sampling_params.seed"),
        ({"stream": True}, "stream"),
        ({"features": {}}, "features"),
    ],
)
async def test_what_does_not_fit_the_schema_is_told_with_its_place(
    asking: Gateway, changes: dict[str, Any], param: str
) -> None:
    status, body = await generated(asking.ann, **changes)
    told = OpenAIError.model_validate(body).error
    assert (status, told.type, told.param) == (400, "invalid_request_error", param)


async def test_of_an_unknown_model_the_caller_is_told(asking: Gateway) -> None:
    for model in ("nobody/knows", "run_0@1"):
        status, body = await generated(asking.ann, model=model)
        assert (status, body["error"]["code"]) == (404, "model_not_found")
