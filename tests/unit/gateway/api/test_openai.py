"""The OpenAI-compatible routes, with a sampler that answers by rote; the real one: tests/system."""

import asyncio
import json
from io import BytesIO
from typing import Any

import aiohttp
import pytest
from sqlmodel import Session, select
from tests.support.gateway import Gateway, heartbeat
from tests.support.rote_sampler import BASE, asking, ignored, post, step

from warren_broker.courier import Courier
from warren_broker.inbox import listen, receive
from warren_broker.topology import CANCELLATIONS, generate, interact
from warren_gateway.api import openai_stream
from warren_gateway.inference import questions
from warren_gateway.inference.questions import ENVIRONMENT
from warren_gateway.store.tables import Model
from warren_schemas.control import EpisodeCancelled, WorkerRole
from warren_schemas.episode import Generate
from warren_schemas.openai import OpenAIError

__all__ = ["asking", "ignored"]

CHAT: dict[str, Any] = {"model": BASE, "messages": [{"role": "user", "content": "?"}]}
TEXT: dict[str, Any] = {"model": BASE, "prompt": "?"}
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}


def said(content: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


async def chat(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/chat/completions", CHAT | changes)


async def text(client: aiohttp.ClientSession, **changes: Any) -> tuple[int, dict[str, Any]]:
    return await post(client, "/v1/completions", TEXT | changes)


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
    asking: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_stream, "PING_S", 0.01)
    monkeypatch.setattr(openai_stream, "ANSWER_S", 0.5)
    lines = await streamed(asking.ann, "/v1/chat/completions", CHAT | said("never"))
    assert lines[0] == ": waiting"
    told = OpenAIError.model_validate_json(lines[-1].removeprefix("data: "))
    assert told.error.code == "deadline"


async def test_a_stream_that_fails_at_once_has_its_status(asking: Gateway) -> None:
    status, body = await chat(asking.ann, stream=True, **said("fail context_length"))
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


async def test_tools_are_told_and_calls_are_read(asking: Gateway) -> None:
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    status, body = await chat(asking.ann, tools=[ADD], **said(f"say Well.\n{call}"))
    choice = body["choices"][0]
    assert (status, choice["finish_reason"]) == (200, "tool_calls")
    assert choice["message"]["content"] == "Well."
    (made,) = choice["message"]["tool_calls"]
    assert (made["type"], made["function"]["name"]) == ("function", "add")
    assert json.loads(made["function"]["arguments"]) == {"a": 1}

    history = [choice["message"], {"role": "tool", "tool_call_id": made["id"], "content": "3"}]
    messages = [
        {"role": "developer", "content": "Be brief."},
        *history,
        *said("repeat")["messages"],
    ]
    _, body = await chat(asking.ann, tools=[ADD], messages=messages)
    repeated = body["choices"][0]["message"]["content"]
    assert repeated.startswith("system:Be brief.\n\n# Tools")
    assert '"name": "add", "description": "Add."' in repeated
    assert f"assistant:Well.\n{call}|tool:3|user:repeat" in repeated


@pytest.mark.parametrize(
    "words",
    [
        '<tool_call>{"name": "subtract", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "add"',
    ],
)
async def test_what_is_no_call_of_a_tool_on_offer_stays_as_it_was_said(
    asking: Gateway, words: str
) -> None:
    _, body = await chat(asking.ann, tools=[ADD], **said(f"say {words}"))
    choice = body["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", words)
    assert choice["message"]["tool_calls"] is None


async def test_without_tools_nothing_is_told_and_nothing_read(asking: Gateway) -> None:
    call = '<tool_call>{"name": "add", "arguments": {}}</tool_call>'
    for changes in ({}, {"tools": [ADD], "tool_choice": "none"}):
        _, body = await chat(asking.ann, **changes, **said(f"say {call}"))
        assert body["choices"][0]["message"]["content"] == call
        _, body = await chat(asking.ann, **changes, **said("repeat"))
        assert body["choices"][0]["message"]["content"] == "user:repeat"


async def test_a_trained_policy_is_named_by_its_run_and_seen_by_its_owner(asking: Gateway) -> None:
    run = await asking.submit()
    await asking.store.transact(lambda session: publish(session, run))
    for name, version in ((run, 2), (f"{run}@1", 1), (f"{run}@0", 0)):
        status, body = await chat(asking.ann, model=name, return_token_ids=True)
        assert (status, body["choices"][0]["versions"]) == (200, [version, version])
    assert await models(asking.ann) == [BASE, run, f"{run}@2"]
    assert await models(asking.bob) == [BASE]
    for client, name in (
        (asking.bob, run),
        (asking.ann, f"{run}@3"),
        (asking.ann, f"{run}@x"),
        (asking.ann, f"{run}@"),
        (asking.ann, "nobody/knows"),
    ):
        status, body = await chat(client, model=name)
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        async with client.get(f"/v1/models/{name.replace('/', '%2F')}") as response:
            assert response.status == 404


async def models(client: aiohttp.ClientSession) -> list[str]:
    async with client.get("/v1/models") as response:
        names = [model["id"] for model in (await response.json())["data"]]
    for name in names:
        async with client.get(f"/v1/models/{name.replace('/', '%2F')}") as response:
            assert (await response.json())["id"] == name
    return names


async def test_a_pinned_version_lies_beside_the_newest(gateway: Gateway) -> None:
    run = await gateway.submit()
    await gateway.store.transact(lambda session: publish(session, run))
    served = gateway.parts.served
    newest, first = [await served.policy("ann", name) for name in (run, f"{run}@1")]
    assert (newest.url, newest.pinned) == ("file:///store/model/policies/v2", False)
    assert (first.url, first.pinned) == ("file:///store/model/policies/v1", True)


def publish(session: Session, run: str) -> None:
    model = session.exec(select(Model).where(Model.run_id == run)).one()
    model.policy_version, model.policy_url = 2, "file:///store/model/policies/v2"
    session.add(model)


MISFITS: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages.0.content.0.type",
    ),
    ({"temperature": 3.0}, "temperature"),
    ({"temperature": -1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"n": 0}, "n"),
    ({"n": 65}, "n"),
    ({"max_tokens": 0}, "max_tokens"),
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


async def test_a_pinned_version_that_is_gone_is_not_found(asking: Gateway) -> None:
    run = await asking.submit()
    await asking.store.transact(lambda session: publish(session, run))
    status, body = await chat(asking.ann, model=f"{run}@1", **said("fail policy_unavailable"))
    assert (status, body["error"]["code"]) == (404, "model_not_found")


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


async def test_more_than_can_wait_is_refused(
    asking: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MAX_WAITING", 3)
    status, body = await chat(asking.ann, n=4)
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (await chat(asking.ann, n=3))[0] == 200


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_caller_that_leaves_lets_the_samplers_stop(
    asking: Gateway, ignored: asyncio.Queue[Generate], is_stream: bool
) -> None:
    async with listen(asking.broker, CANCELLATIONS, EpisodeCancelled) as inbox:
        waiting = asyncio.create_task(chat(asking.ann, n=2, stream=is_stream, **said("never")))
        asked = {(await ignored.get()).envelope.episode for _ in range(2)}
        waiting.cancel()
        await asyncio.wait([waiting])
        cancelled: set[object] = set()
        async with asyncio.timeout(60):
            while cancelled != asked:
                for claim in await anext(inbox):
                    cancelled.add(claim.item.envelope.episode)
                    claim.done()
    assert asking.parts.questions.n_waiting == 0
    assert (await chat(asking.ann))[0] == 200


async def test_what_was_begun_by_a_caller_who_left_is_finished(gateway: Gateway) -> None:
    """Only where the route says so does a request end with its caller."""
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    newest = gateway.parts.runs.newest

    async def slowly(*arguments: Any) -> Any:
        begun.set()
        await go_on.wait()
        done.set()
        return await newest(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway.parts.runs, "newest", slowly)
        leaving = asyncio.create_task(gateway.ann.get("/v1/runs"))
        await asyncio.wait_for(begun.wait(), 60)
        leaving.cancel()
        await asyncio.wait([leaving])
        async with gateway.bob.get("/v1/workers") as response:  # the loss was noticed by now
            assert response.status == 200
        go_on.set()
        await asyncio.wait_for(done.wait(), 60)


async def test_an_answer_that_took_the_shared_queue_is_taken_and_its_twin_dropped(
    asking: Gateway,
) -> None:
    courier = Courier(asking.broker)
    async with receive(asking.broker, generate("other/base"), Generate, prefetch=1) as inbox:
        registry = asking.parts.registry
        registry.hear(heartbeat("sampler_2", WorkerRole.SAMPLER, "other/base"))
        waiting = asyncio.create_task(chat(asking.ann, model="other/base"))
        (claim,) = await anext(inbox)
        await courier.send(interact(ENVIRONMENT), step(claim.item, "by the shared queue"))
        await courier.send(interact(ENVIRONMENT), step(claim.item, "a twin"))
        claim.done()
    status, body = await waiting
    assert status == 200
    assert body["choices"][0]["message"]["content"] == "by the shared queue"
    assert (await chat(asking.ann))[0] == 200


async def test_a_gateway_that_stops_answers_those_who_wait(
    asking: Gateway, ignored: asyncio.Queue[Generate]
) -> None:
    waiting = asyncio.create_task(chat(asking.ann, **said("never")))
    await ignored.get()
    asking.parts.questions.stop()
    for status, body in (await waiting, await chat(asking.ann)):
        assert (status, body["error"]["code"]) == (503, "stopping")
