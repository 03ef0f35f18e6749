"""Whose call it is: a key stands for one episode, at the endpoint where that is live, until it has ended."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.support.patience import PATIENCE_S

from warren.agents.conversation import Answer, Message
from warren.agents.endpoint import Endpoint
from warren.agents.live import LiveAgent
from warren.environment import Sampled

Body = dict[str, Any]
HI = [{"role": "user", "content": "hi"}]
CALLS: Mapping[str, Body] = {
    "/v1/chat/completions": {"model": "m", "messages": HI},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": HI},
    "/inference/v1/generate": {"token_ids": [1, 2]},
}
SAMPLED = Sampled(prompt_ids=[1, 2], ids=[3], logprobs=[-0.5], versions=[7])

in_every_dialect = pytest.mark.parametrize("path", CALLS)


@asynccontextmanager
async def serving() -> AsyncGenerator[Endpoint]:
    endpoint = Endpoint()
    await endpoint.start()
    try:
        yield endpoint
    finally:
        await endpoint.stop()


async def post(
    endpoint: Endpoint, path: str, key: str, body: Body | None = None, **headers: str
) -> tuple[int, str]:
    keys = {"x-api-key": key} if path == "/v1/messages" else {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession(endpoint.address, headers={**keys, **headers}) as session,
        session.post(path, json=body or CALLS[path]) as response,
    ):
        return response.status, await response.text()


async def answered(
    live: LiveAgent, endpoint: Endpoint, path: str, key: str, words: str, **headers: str
) -> str:
    """What a call of this key is told, when this agent's question is answered with these words."""
    async with asyncio.timeout(PATIENCE_S):
        calling = asyncio.create_task(post(endpoint, path, key, None, **headers))
        asked = await live.next_question()
        asked.answer.set_result(Answer(1, Message("assistant", words), SAMPLED))
        status, told = await calling
    assert status == 200, told
    return told


@in_every_dialect
async def test_two_that_are_live_side_by_side_are_asked_by_their_own_keys_alone(path: str) -> None:
    one, other = LiveAgent(), LiveAgent()
    async with serving() as endpoint:
        key, others = endpoint.open(one), endpoint.open(other)
        same = {"Idempotency-Key": "one"}
        await answered(one, endpoint, path, key, "mine", **same)
        told = await answered(other, endpoint, path, others, "theirs", **same)
    assert "mine" not in told
    assert "theirs" in told or path == "/inference/v1/generate"


async def test_an_answer_of_another_episode_is_not_gone_on_from() -> None:
    one, other = LiveAgent(), LiveAgent()
    path = "/v1/responses"
    async with serving() as endpoint:
        key, others = endpoint.open(one), endpoint.open(other)
        assert '"resp_1"' in await answered(one, endpoint, path, key, "mine")
        body = {**CALLS[path], "previous_response_id": "resp_1"}
        status, told = await post(endpoint, path, others, body)
    assert status == 404
    assert "this episode has no response resp_1" in told


@in_every_dialect
async def test_a_key_is_refused_once_its_episode_has_ended(path: str) -> None:
    one, other = LiveAgent(), LiveAgent()
    async with serving() as endpoint:
        key, others = endpoint.open(one), endpoint.open(other)
        endpoint.close(key, "it is over")
        status, told = await post(endpoint, path, key)
        await answered(other, endpoint, path, others, "theirs")
    assert status == 410
    assert "the episode of this key has ended" in told


@in_every_dialect
@pytest.mark.parametrize("kind", ["of another env worker", "of a user", "none"])
async def test_a_key_that_is_not_of_an_episode_here_is_refused(path: str, kind: str) -> None:
    """Env workers of another tenant's have an endpoint of their own."""
    async with serving() as endpoint, serving() as elsewhere:
        endpoint.open(LiveAgent())
        keys = {"of another env worker": elsewhere.open(LiveAgent()), "of a user": "wk_1_abc"}
        status, told = await post(endpoint, path, keys.get(kind, ""))
    assert status == 401
    assert "this key belongs to no episode that is live here" in told
