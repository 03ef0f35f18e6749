"""The OpenAI-compatible routes, with a sampler that answers by rote; the real one: tests/system."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.gateway import Gateway, open_gateway
from tests.support.openai_asking import CHAT, TEXT, chat, said, text
from tests.support.rote_sampler import BASE, answering, asking, ignored

from warren_broker.port import Broker
from warren_gateway.inference.sampler_requests import QuestionLimits, SamplerRequests
from warren_gateway.store.store import Store
from warren_gateway.timings import AnswerTimings, StreamTimings
from warren_schemas.episode import Generate
from warren_schemas.openai import OpenAIError

__all__ = ["asking", "ignored"]


async def streamed(client: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> list[str]:
    """The lines of a stream that say something."""
    async with client.post(path, json={**body, "stream": True}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        return [line for line in (await response.text()).split("\n\n") if line]


def data(lines: list[str]) -> list[dict[str, Any]]:
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_a_chat_is_answered_with_tokens_logprobs_and_versions(asking: Gateway) -> None:
    status, body = await chat(asking.ann, n=2, logprobs=True, return_token_ids=True)
    assert status == 200
    assert (body["object"], body["model"]) == ("chat.completion", BASE)
    assert body["prompt_token_ids"] == [2, 45]
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    choice = body["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "a b", "tool_calls": None}
    assert (choice["finish_reason"], choice["token_ids"]) == ("stop", [8, 1])
    assert choice["versions"] == [0, 0]
    told = [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]
    assert told == [("token_id:8", -0.5), ("token_id:1", -0.25)]
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}


async def test_a_text_goes_on_from_words_or_from_tokens(asking: Gateway) -> None:
    status, body = await text(asking.ann, logprobs=1, return_token_ids=True)
    assert (status, body["object"]) == (200, "text_completion")
    assert body["choices"][0]["text"] == "a b"
    assert body["choices"][0]["logprobs"]["tokens"] == ["token_id:8", "token_id:1"]
    assert body["choices"][0]["logprobs"]["token_logprobs"] == [-0.5, -0.25]
    status, body = await text(asking.ann, prompt=[7, 7, 9], return_token_ids=True)
    assert (status, body["prompt_token_ids"]) == (200, [7, 7, 9])
    assert body["choices"][0]["token_ids"] == [8, 1]
    assert body["choices"][0]["logprobs"] is None


async def test_a_stream_brings_each_answer_and_ends(asking: Gateway) -> None:
    asked = {**CHAT, "n": 2, "stream_options": {"include_usage": True}}
    chunks = data(await streamed(asking.ann, "/v1/chat/completions", asked))
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}
    assert {chunk["choices"][0]["index"] for chunk in chunks[:2]} == {0, 1}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "a b"}
    assert chunks[0]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[2]["choices"], chunks[2]["usage"]["completion_tokens"]) == ([], 4)
    (chunk,) = data(await streamed(asking.ann, "/v1/completions", TEXT))
    assert chunk["choices"][0]["text"] == "a b"


async def test_a_stream_that_waits_says_so_and_tells_what_went_wrong(
    store: Store, broker: Broker, tmp_path: Path, ignored: asyncio.Queue[Generate]
) -> None:
    questions = SamplerRequests(broker, QuestionLimits(answer_s=0.5))
    often = StreamTimings(answers=AnswerTimings(ping_s=0.01))
    async with (
        open_gateway(store, broker, tmp_path, sampler_requests=questions, timings=often) as gateway,
        answering(gateway, ignored),
    ):
        lines = await streamed(gateway.ann, "/v1/chat/completions", CHAT | said("never"))
    assert lines[0] == ": waiting"
    told = OpenAIError.model_validate_json(lines[-1].removeprefix("data: "))
    assert told.error.code == "deadline"


async def test_a_stream_that_fails_at_once_has_its_status(asking: Gateway) -> None:
    status, body = await chat(asking.ann, stream=True, **said("fail context_length"))
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")
