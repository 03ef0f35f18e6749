"""What the OpenAI-compatible routes refuse, and how they say so."""

import asyncio
from io import BytesIO
from typing import Any

import pytest
from tests.support.gateway import Gateway
from tests.support.openai_asking import chat, said
from tests.support.rote_sampler import asking, ignored

from warren_gateway.budgets.options import BudgetOptions
from warren_schemas.episode import Generate
from warren_schemas.openai import OpenAIError

__all__ = ["asking", "ignored"]


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages.0.content.0.image_url.image_url",
    ),
    ({"temperature": 3.0}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 65}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"repetition_penalty": 1e-300}, "repetition_penalty"),
    ({"stop": [""]}, "stop.0"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"frequency_penalty": 1}, "frequency_penalty"),
]


@pytest.mark.parametrize(("changes", "param"), MISFITS)
async def test_what_does_not_fit_the_schema_is_told_with_its_place(
    asking: Gateway, changes: dict[str, Any], param: str
) -> None:
    status, body = await chat(asking.ann, **changes)
    told = OpenAIError.model_validate(body).error
    assert (status, told.type) == (400, "invalid_request_error")
    assert told.message
    assert told.param == param


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("context_length", 400, "context_length_exceeded"),
        ("invalid_request", 400, "invalid_request"),
        ("sampler_error", 502, "sampler_error"),
        ("policy_unavailable", 503, "policy_unavailable"),
        ("deadline", 504, "deadline"),
    ],
)
async def test_a_failure_of_the_sampler_is_told(
    asking: Gateway, kind: str, status: int, code: str
) -> None:
    got, body = await chat(asking.ann, **said(f"fail {kind}"))
    assert (got, body["error"]["code"]) == (status, code)
    assert "it did not work" in body["error"]["message"]


async def test_a_body_that_is_no_json_or_too_large_is_refused(asking: Gateway) -> None:
    for body, status in ((b"{", 400), (b" " * 2_000_000, 413)):
        async with asking.ann.post("/v1/chat/completions", data=BytesIO(body)) as response:
            assert response.status == status
            assert OpenAIError.model_validate(await response.json()).error.message


async def test_without_a_sampler_the_caller_is_told_at_once(gateway: Gateway) -> None:
    run = await gateway.submit()
    status, body = await chat(gateway.ann, model=run)
    assert (status, body["error"]["code"]) == (503, "no_sampler")


async def test_nobody_without_a_key_is_answered(gateway: Gateway) -> None:
    status, body = await chat(gateway.nobody)
    told = (body["error"]["type"], body["error"]["code"])
    assert (status, *told) == (401, "authentication_error", "invalid_api_key")


@pytest.mark.parametrize("budgets", [BudgetOptions(answers_per_owner=3, answers=5)])
async def test_one_user_s_chats_are_not_all_that_the_gateway_takes(
    asking: Gateway, ignored: asyncio.Queue[Generate]
) -> None:
    status, body = await chat(asking.ann, n=4)
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    hanging = asyncio.create_task(chat(asking.ann, n=3, **said("never")))
    await ignored.get()
    status, body = await chat(asking.ann)
    assert status == 429
    assert (
        "You have 3 pending answers and request 1 more; the limit is 3." in body["error"]["message"]
    )
    assert (await chat(asking.bob, n=2))[0] == 200
    assert (await chat(asking.bob, n=3))[0] == 429  # all together would be 6
    hanging.cancel()
    await asyncio.wait({hanging})
