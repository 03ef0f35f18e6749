"""Tools in chats in the manner of OpenAI: told in words, and read from words."""

import json

import pytest
from tests.support.gateway import Gateway
from tests.support.openai_asking import chat, said
from tests.support.rote_sampler import asking, ignored

__all__ = ["asking", "ignored"]

ADD = {
    "type": "function",
    "function": {"name": "add", "description": "Add.", "parameters": {"type": "object"}},
}


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
