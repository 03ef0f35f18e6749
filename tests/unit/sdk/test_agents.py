"""The endpoint that agents call, played without a model: dialects, tools, streams, keys and refusals."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any, cast

import aiohttp
import openai
import pytest

from warren import Agent, AgentEnv
from warren.agents.conversation import Answer, Message, Question
from warren.agents.endpoint import endpoint
from warren.agents.environment import AgentFailed
from warren.agents.history import History
from warren.agents.live import EpisodeOver, LiveAgent, Repeat
from warren.environment import ChatMessage, Sampled
from warren.testing import Policy, play

CALL = 'x\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA, "strict": True}}
Body = dict[str, Any]


def saying(*words: str) -> Policy:
    answers: Iterator[str] = iter(words)
    return lambda _: next(answers)


def roles(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.role for message in messages]


class OpenAI(AgentEnv):
    """Calls a tool twice by chat completions, the second time streamed, and then by Responses."""

    async def run(self, task: None, agent: Agent) -> float:
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:
            messages: list[Any] = [{"role": "user", "content": "hi"}]
            first = await client.chat.completions.create(
                model="m", messages=messages, tools=[ADD], parallel_tool_calls=True
            )
            said: Any = first.choices[0].message
            assert said.tool_calls
            assert first.choices[0].finish_reason == "tool_calls"
            result: Any = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "7"}
            stream = await client.chat.completions.create(
                model="m", messages=[*messages, said, result], tools=[ADD], stream=True
            )
            text = "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
            assert text == "seven"
            await self.respond(client)
        return 1.0

    async def respond(self, client: openai.AsyncOpenAI) -> None:
        tool: Any = {"type": "function", "name": "add", "parameters": SCHEMA, "strict": True}
        first = await client.responses.create(model="m", input="hi", tools=[tool])
        call: Any = first.output[-1]
        assert (call.type, call.name, call.arguments) == ("function_call", "add", '{"a": 1}')
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "7"}
        async with client.responses.stream(
            model="m", input=[result], previous_response_id=first.id, tools=[tool]
        ) as stream:
            kinds = [event.type async for event in stream]
            assert kinds[0] == "response.created"
            assert (await stream.get_final_response()).output_text == "seven"


def test_openai_s_client_calls_tools_and_streams() -> None:
    episode = play(OpenAI(), saying(CALL, "seven", CALL, "seven"))
    assert episode.reward == 1.0
    assert [result.after for result in episode.results] == [1, 0, 3, None]
    assert roles(episode.messages) == ["system", "user", "assistant", "tool", "assistant"] * 2
    assert '"name": "add"' in episode.messages[0].content


class Anthropic(AgentEnv):
    """Calls a tool by Anthropic's Messages; the answer to its result is streamed."""

    async def run(self, task: None, agent: Agent) -> float:
        tools = [{"name": "add", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}]
        body: Body = {"model": "m", "max_tokens": 9, "tools": tools}
        asked: list[Body] = [{"role": "user", "content": "hi"}]
        async with aiohttp.ClientSession(headers={"x-api-key": agent.api_key}) as session:
            url = f"{agent.root_url}/v1/messages"
            async with session.post(url, json={**body, "messages": asked}) as response:
                told: Body = await response.json()
            call = told["content"][1]
            assert (told["stop_reason"], call["name"], call["input"]) == (
                "tool_use",
                "add",
                {"a": 1},
            )
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "7"}
            asked += [
                {"role": "assistant", "content": told["content"]},
                {"role": "user", "content": [result]},
            ]
            streamed: Body = {**body, "messages": asked, "stream": True}
            async with session.post(url, json=streamed) as response:
                events = (await response.text()).split("\n\n")
        assert [event.splitlines()[0] for event in events if event] == [
            "event: message_start", "event: content_block_start", "event: content_block_delta",
            "event: content_block_stop", "event: message_delta", "event: message_stop",
        ]  # fmt: skip
        assert '"text":"seven"' in events[2]
        return 1.0


def test_anthropic_s_messages_call_tools_and_stream() -> None:
    episode = play(Anthropic(), saying(CALL, "seven"))
    assert [result.after for result in episode.results] == [1, None]
    assert roles(episode.messages) == ["system", "user", "assistant", "tool", "assistant"]


OWN_WORDS: Body = {"strict": True, "citations": None, "cache_control": "x"}
"""Of a tool, though blocks have keys of these names as well."""


class Cites(AgentEnv):
    """Calls a tool whose arguments are named like marks at blocks, and sends the marks, too."""

    async def run(self, task: None, agent: Agent) -> float:
        tools = [{"name": "add", "input_schema": {"properties": OWN_WORDS}, "strict": True}]
        asked: list[Body] = [{"role": "user", "content": "hi"}]
        async with aiohttp.ClientSession(headers={"x-api-key": agent.api_key}) as session:
            url, body = f"{agent.root_url}/v1/messages", {"model": "m", "tools": tools}
            async with session.post(url, json={**body, "messages": asked}) as response:
                said: list[Body] = (await response.json())["content"]
            assert said[-1]["input"] == OWN_WORDS
            marked = [{**block, "cache_control": None} for block in said]
            result = {"type": "tool_result", "tool_use_id": said[-1]["id"], "content": "7"}
            asked += [{"role": "assistant", "content": marked}]
            asked += [{"role": "user", "content": [{**result, "cache_control": {"type": "x"}}]}]
            async with session.post(url, json={**body, "messages": asked}) as response:
                assert response.status == 200
        return 1.0


def test_keys_of_a_tool_are_no_marks_and_stay() -> None:
    call = f"<tool_call>{json.dumps({'name': 'add', 'arguments': OWN_WORDS})}</tool_call>"
    episode = play(Cites(), saying(call, "seven"))
    assert [result.after for result in episode.results] == [1, None]
    assert json.dumps(OWN_WORDS) in episode.messages[0].content


class Developer(AgentEnv):
    """Is told what to do by a message of its input, and perhaps by instructions, which don't carry over."""

    def __init__(self, instructions: str | None) -> None:
        self.instructions = instructions

    async def run(self, task: None, agent: Agent) -> float:
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:
            told: Any = [
                {"role": "developer", "content": "Be short."},
                {"role": "user", "content": "hi"},
            ]
            first = await client.responses.create(
                model="m", input=told, instructions=self.instructions
            )
            await client.responses.create(model="m", input="again", previous_response_id=first.id)
        return 1.0


@pytest.mark.parametrize("instructions", [None, "Once."])
def test_a_response_goes_on_from_all_that_was_said_but_instructions(
    instructions: str | None,
) -> None:
    shown: list[list[str]] = []

    def policy(messages: Sequence[ChatMessage]) -> str:
        shown.append([message.content for message in messages])
        return "hello"

    play(Developer(instructions), policy)
    once = [] if instructions is None else [instructions]
    assert shown == [[*once, "Be short.", "hi"], ["Be short.", "hi", "hello", "again"]]


class Refused(AgentEnv):
    """Posts a body with a key, and keeps what it is told."""

    told: tuple[int, Body]

    def __init__(self, path: str, body: Body, key: str | None = None) -> None:
        self.path, self.body, self.key = path, body, key

    async def run(self, task: None, agent: Agent) -> float:
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {self.key or agent.api_key}"}
            url = f"{agent.root_url}{self.path}"
            async with session.post(url, json=self.body, headers=headers) as response:
                self.told = response.status, await response.json()
            await self.ask(agent)
        return 1.0

    async def ask(self, agent: Agent) -> None:
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}]
            )


HI: Body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("path", "body", "key", "status", "sentence"),
    [
        ("/v1/chat/completions", HI, "wep_other", 401, "this key belongs to no episode"),
        ("/v1/messages", HI, "wep_other", 401, "this key belongs to no episode"),
        ("/v1/chat/completions", {**HI, "n": 2}, None, 400, "n: a policy that acts gives one"),
        ("/v1/chat/completions", {**HI, "toolz": 1}, None, 400, "toolz: unknown key"),
        ("/v1/chat/completions", {"model": "m"}, None, 400, "messages"),
        ("/v1/messages", {**HI, "messages": []}, None, 400, "messages"),
        ("/v1/responses", {"model": "m", "input": "x", "previous_response_id": "resp_9"}, None, 404,
         "this episode has no response resp_9"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused_with_a_sentence(
    path: str, body: Body, key: str | None, status: int, sentence: str
) -> None:
    agent = Refused(path, body, key)
    play(agent, saying("hello"))
    assert agent.told[0] == status
    assert sentence in agent.told[1]["error"]["message"]


def test_an_answer_without_a_word_is_an_empty_text() -> None:
    agent = Refused("/v1/chat/completions", HI)
    play(agent, saying("", "hello"))
    assert agent.told[1]["choices"][0]["message"]["content"] == ""


class Ended(AgentEnv):
    """Asks once more with the key of an episode that is over."""

    def __init__(self, before: list[str]) -> None:
        self.before = before

    async def run(self, task: None, agent: Agent) -> float:
        await Refused.ask(cast("Refused", self), agent)
        (await endpoint()).close(agent.api_key, "the episode has ended")
        with pytest.raises(
            openai.APIStatusError, match="the episode of this key has ended"
        ) as told:
            await Refused.ask(cast("Refused", self), agent)
        self.before.append(str(told.value.status_code))
        return 1.0


def test_the_key_of_an_episode_that_is_over_is_refused() -> None:
    told: list[str] = []
    play(Ended(told), saying("hello"))
    assert told == ["410"]


class Silent(AgentEnv):
    async def run(self, task: None, agent: Agent) -> float:
        return 1.0


def test_an_agent_that_never_asks_has_failed() -> None:
    with pytest.raises(AgentFailed, match="never called the model"):
        play(Silent(), saying())


class Asks(AgentEnv):
    """Asks once, and is done with what it was made with."""

    def __init__(self, result: Any = None, reward: Any = None) -> None:
        self.result = result
        self.given = reward

    def run(self, task: None, agent: Agent) -> Any:
        """Not `async`; what it returns must be awaited."""
        return self.later(agent)

    async def later(self, agent: Agent) -> Any:
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:
            message: Any = {"role": "user", "content": "?"}
            await client.chat.completions.create(model="m", messages=[message])
        if self.given is not None:
            agent.reward(self.given)
        return self.result


class WithAttributes(AgentEnv):
    """Names for its own use, which say nothing of how it is played."""

    _task = _next = _played = _agent = _live = _play = _history = _endpoint = "mine"

    async def run(self, task: None, agent: Agent) -> float:
        self._task = self._next = self._agent = "mine still"
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:
            for _ in range(2):
                await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "hi"}]
                )
        return 1.0


def test_attributes_of_a_subclass_are_its_own() -> None:
    assert play(WithAttributes(), saying("a", "b")).reward == 1.0


def test_a_plain_run_may_return_what_must_be_awaited() -> None:
    assert play(Asks(result={"a": 1, "b": 0.5}), saying("x")).reward == 1.5
    assert play(Asks(result=True, reward=1), saying("x")).reward == 2.0


@pytest.mark.parametrize(
    ("result", "told"), [("yes", "str"), ([1.0], "list"), ({"a": "1"}, "str for 'a'"), ({1: 1.0}, "float for 1")]
)  # fmt: skip
def test_a_result_that_is_no_reward_is_told(result: object, told: str) -> None:
    with pytest.raises(AgentFailed, match=f"named numbers or None; it returned {told}"):
        play(Asks(result=result), saying("x"))


def test_a_reward_that_is_no_number_is_told_where_it_is_given() -> None:
    with pytest.raises(TypeError, match=r"agent.reward\(\) takes a number; it got str"):
        play(Asks(reward="1"), saying("x"))


class Parallel(AgentEnv):
    """Asks three things at once, and then what each was worth: by the ids of the answers and of a tool call."""

    async def run(self, task: None, agent: Agent) -> None:
        async with openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client:

            async def said(what: str) -> Any:
                asked: Any = [{"role": "user", "content": what}]
                return await client.chat.completions.create(
                    model="m", messages=asked, tools=[ADD] if what == "call" else openai.omit
                )

            first, second, calls = await asyncio.gather(said("1"), said("2"), said("call"))
            for answer in (second, first):
                agent.reward(float(answer.choices[0].message.content), answer.id)
            agent.reward(0.5, calls.choices[0].message.tool_calls[0].id)
            agent.reward(0.25, calls.id)
            for wrong in ("chatcmpl-4", "chatcmpl-0", "mine"):
                with pytest.raises(ValueError, match=f"no answer with the id '{wrong}'"):
                    agent.reward(1.0, wrong)
            await said("3")
            agent.reward(3.0)


def test_rewards_of_calls_at_once_are_those_of_the_turns_that_are_named() -> None:
    def policy(shown: Sequence[ChatMessage]) -> str:
        words = shown[-1].content
        return CALL if words == "call" else words

    episode = play(Parallel(), policy)
    said = [message.content for message in episode.messages if message.is_action]
    worth = {CALL: 0.75, "1": 1.0, "2": 2.0, "3": 3.0}
    assert [result.reward for result in episode.results] == [worth[each] for each in said]
    assert episode.reward == 6.75


def test_isolation_is_that_of_the_class_that_says_it() -> None:
    class Own(OpenAI):
        isolation = "episode"

    class Derived(Own):
        pass

    class Blocks(OpenAI):
        def run(self, task: None, agent: Agent) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
            return 1.0

    isolations = [each.isolation for each in (OpenAI, Own, Derived, Blocks)]
    assert isolations == ["shared", "episode", "episode", "episode"]


async def asking(live: LiveAgent, repeat: Repeat) -> "asyncio.Task[Answer]":
    task = asyncio.create_task(live.ask(_asked("a"), repeat))
    await asyncio.sleep(0)  # it is in the queue then
    return task


async def n_asked(live: LiveAgent) -> int:
    """Questions that the policy would be asked, of the three that there may be."""
    taking = [asyncio.create_task(live.next_question()) for _ in range(3)]
    await asyncio.sleep(0)
    found = sum(task.done() for task in taking)
    for task in taking:
        task.cancel()
    await asyncio.wait(taking)
    return found


SAME, RETRY = Repeat(b"d"), Repeat(b"d", is_retry=True)


@pytest.mark.parametrize(
    ("hangs_up", "again", "n"),
    [
        (True, SAME, 1),  # its connection broke
        (False, RETRY, 1),  # the client gave it up, and we have not noticed
        (False, SAME, 2),  # two that ask the same at once
        (True, Repeat(b"other"), 2),
    ],
)
async def test_a_question_whose_answer_got_lost_is_asked_once(
    hangs_up: bool, again: Repeat, n: int
) -> None:
    live = LiveAgent()
    first = await asking(live, SAME)
    if hangs_up:
        first.cancel()
        await asyncio.wait({first})
    second = await asking(live, again)
    assert await n_asked(live) == n
    live.end("it is over")
    for task in {first, second} - ({first} if hangs_up else set()):
        with pytest.raises(EpisodeOver, match="it is over"):
            await task


@pytest.mark.parametrize(
    ("messages", "after", "n_known"),
    [
        ("a", 0, 0),
        ("aA", 1, 2),
        ("aAb", 1, 2),
        ("aAbBc", 2, 4),
        ("aAxBc", 1, 2),
        ("xAbB", 0, 0),
    ],
)
def test_a_question_goes_on_from_the_last_answer_that_it_repeats(
    messages: str, after: int, n_known: int
) -> None:
    """Capitals are the policy's."""
    history = History()
    history.note(_asked("a"), _message("A"), 1, Sampled())
    history.note(_asked("aAb"), _message("B"), 2, Sampled())
    place = history.place_of(_asked(messages))
    assert (place.after, place.n_known) == (after, n_known)


def _asked(letters: str) -> Question:
    return Question(tuple(_message(letter) for letter in letters))


def _message(letter: str) -> Message:
    return Message("assistant" if letter.isupper() else "user", letter)
