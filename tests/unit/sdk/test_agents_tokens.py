"""Agents that ask in tokens, played without a model: a token is a byte then."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warren import Agent, AgentEnv, OtherModel
from warren.agents.conversation import Message, Question
from warren.agents.dialects.dialect import Refusal
from warren.agents.dialects.tokens import TokensDialect
from warren.agents.history import History
from warren.agents.live import LiveAgent
from warren.environment import ChatMessage, Context, Env, PromptTokens, Sampled, StepResult
from warren.testing import play

Body = dict[str, Any]
ROUTE = "/inference/v1/generate"


def bytes_of(words: str) -> list[int]:
    return [*words.encode()]


class Asks(AgentEnv):
    """Posts bodies, one after the other, and keeps what it is told."""

    def __init__(self, *bodies: Body, path: str = ROUTE, **headers: str) -> None:
        self.bodies, self.path, self.headers = bodies, path, headers
        self.told: list[tuple[int, str]] = []

    async def run(self, task: None, agent: Agent) -> float:
        headers = {"Authorization": f"Bearer {agent.api_key}", **self.headers}
        async with aiohttp.ClientSession(headers=headers) as session:
            for body in self.bodies:
                path = ROUTE if "token_ids" in body else "/v1/chat/completions"
                url = agent.root_url + (self.path if path == ROUTE else path)
                async with session.post(url, json=body) as response:
                    self.told.append((response.status, await response.text()))
        return 1.0

    @property
    def answers(self) -> list[Body]:
        assert [status for status, _ in self.told] == [200] * len(self.told), self.told
        return [json.loads(text) for _, text in self.told]


def asking(words: str, **more: object) -> Body:
    return {"model": "m", "token_ids": bytes_of(words), **more}


CHAT: Body = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}],
    "return_token_ids": True,
}


def loud(shown: Sequence[ChatMessage]) -> str:
    """The last message again, in capitals."""
    return shown[-1].content.upper()


@pytest.mark.parametrize("path", [ROUTE, f"/v1{ROUTE}"])
def test_tokens_are_answered_with_tokens(path: str) -> None:
    params = {"temperature": 0.3, "max_tokens": 9, "stop_token_ids": [2], "logprobs": 1, "n": 1}
    more = {"sampling_params": params, "cache_salt": None, "priority": 3, "return_token_ids": True}
    agent = Asks(asking("ab", **more), path=path)
    play(agent, loud)
    (told,) = agent.answers
    (choice,) = told["choices"]
    assert (choice["token_ids"], choice["finish_reason"]) == (bytes_of("AB"), "stop")
    assert [each["token"] for each in choice["logprobs"]["content"]] == [
        "token_id:65",
        "token_id:66",
    ]
    assert (told["request_id"], told["prompt_token_ids"]) == ("gen-1", bytes_of("ab"))
    assert told["usage"]["total_tokens"] == 4


def test_what_extends_the_recorded_tokens_shows_the_new_ones_alone() -> None:
    agent = Asks(asking("ab"), asking("abABc"), asking("abABcCd"), asking("abABx"), asking("y"))
    episode = play(agent, loud)
    assert [message.content for message in episode.messages if not message.is_action] == [
        "ab", "c", "d", "x", "y",
    ]  # fmt: skip
    assert [result.after for result in episode.results] == [1, 2, 1, 0, None]


def test_an_action_that_nothing_new_follows_is_where_a_branch_ends() -> None:
    """Two actions with no token between them could not be told apart in the record."""
    agent = Asks(asking("ab"), asking("abAB"))
    episode = play(agent, loud)
    assert episode.results[0].after == 0
    assert [message.content for message in episode.messages] == ["ab", "AB", "abAB", "ABAB"]


def test_tokens_go_on_from_what_was_said_in_a_chat() -> None:
    agent = Asks(CHAT, asking("hiHI!"))
    episode = play(agent, loud)
    assert agent.answers[0]["choices"][0]["token_ids"] == bytes_of("HI")
    assert episode.results[0].after == 1
    assert [message.content for message in episode.messages] == ["hi", "HI", "!", "!"]


def test_a_chat_does_not_go_on_from_tokens() -> None:
    episode = play(Asks(asking("hi"), CHAT), loud)
    assert episode.results[0].after == 0


def test_a_stream_tells_the_tokens_and_then_their_number() -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}, "request_id": "mine"}
    agent = Asks(asking("ab", **options))
    play(agent, loud)
    events = [line.removeprefix("data: ") for line in agent.told[0][1].split("\n\n") if line]
    first, last = json.loads(events[0]), json.loads(events[1])
    assert (first["request_id"], first["choices"][0]["token_ids"]) == ("mine", bytes_of("AB"))
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 2)
    assert events[2:] == ["[DONE]"]


def test_tokens_that_are_asked_again_with_their_key_are_sampled_once() -> None:
    keyed = {"Idempotency-Key": "one"}
    agent = Asks(asking("ab"), asking("ab"), **keyed)
    episode = play(agent, loud)
    assert len(episode.results) == 1
    first, second = agent.answers
    assert first["choices"] == second["choices"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"token_ids": []}, "token_ids"),
        ({"token_ids": [-1]}, "token_ids"),
        (asking("a", toolz=1), "toolz: unknown key"),
        (asking("a", sampling_params={"toolz": 1}), "toolz: unknown key"),
        (asking("a", sampling_params={"n": 2}), "n: a policy that acts gives one answer"),
        (asking("a", sampling_params={"logprobs": 5}), "logprobs"),
        (asking("a", output_mode="text"), "output_mode: answers are told in tokens"),
        (asking("a", content_parts=[{"type": "image"}]), "images are shown in chats"),
    ],
)
def test_what_cannot_be_answered_in_tokens_is_refused_with_a_sentence(
    body: Body, sentence: str
) -> None:
    agent = Asks(body, CHAT)
    play(agent, loud)
    status, text = agent.told[0]
    assert status == 400
    assert sentence in json.loads(text)["error"]["message"]


def test_a_prompt_of_too_many_tokens_is_refused_before_they_are_looked_at() -> None:
    body: Body = {"token_ids": [-1] * 500_001}
    with pytest.raises(Refusal) as raised:
        TokensDialect().read(body, LiveAgent())
    assert raised.value.status == 413
    assert raised.value.message == "token_ids: there are 500001; a prompt has 500000 at most"


class Rewards(AgentEnv):
    def __init__(self, **more: object) -> None:
        self.more = more

    async def run(self, task: None, agent: Agent) -> None:
        ids: list[str] = []
        async with aiohttp.ClientSession(headers={"x-api-key": agent.api_key}) as session:
            for words in ("a", "b"):
                body = asking(words, **self.more)
                async with session.post(agent.root_url + ROUTE, json=body) as response:
                    ids.append(_id_of(await response.text()))
        agent.reward(0.5, ids[0])
        agent.reward(0.25, ids[1])


def _id_of(told: str) -> str:
    """Of an answer, or of the first event of a stream."""
    return json.loads(told.split("\n")[0].removeprefix("data: "))["id"]


@pytest.mark.parametrize("more", [{}, {"request_id": "mine"}, {"request_id": "1", "stream": True}])
def test_an_answer_in_tokens_is_rewarded_by_its_id(more: Body) -> None:
    assert [result.reward for result in play(Rewards(**more), loud).results] == [0.5, 0.25]


class Judged(Asks):
    def other_models(self) -> Mapping[str, OtherModel]:
        return {"judge": OtherModel(self.url)}

    async def reset(self, task: None, ctx: Context) -> Any:
        app = web.Application()
        app.router.add_post(ROUTE, self._judge)
        self.server = TestServer(app)
        await self.server.start_server()
        self.url = str(self.server.make_url("/v1"))
        return await super().reset(task, ctx)

    async def close(self) -> None:
        await super().close()
        await self.server.close()

    async def _judge(self, request: web.Request) -> web.Response:
        return web.json_response({"judged": (await request.json())["token_ids"]})


def test_tokens_for_another_model_go_to_the_root_of_its_server() -> None:
    agent = Judged(CHAT, {**asking("ab"), "model": "judge"})
    episode = play(agent, loud)
    assert agent.answers[1] == {"judged": bytes_of("ab")}
    assert len(episode.results) == 1


class Native(Env):
    """An environment that shows tokens and sees them."""

    sees_tokens = True

    def reset(self, task: None, ctx: Context) -> PromptTokens:
        return PromptTokens(bytes_of("ab"))

    def step(self, action: str) -> StepResult:
        if self.sampled.prompt_ids == bytes_of("ab"):
            return StepResult(PromptTokens(bytes_of("c")))
        return StepResult(reward=float(self.sampled.prompt_ids == bytes_of("abABc")), done=True)


def test_an_environment_shows_tokens_and_sees_those_that_were_sampled() -> None:
    assert play(Native(), loud).reward == 1.0


class OutOfRange(Native):
    def reset(self, task: None, ctx: Context) -> PromptTokens:
        return PromptTokens([256])


def test_without_a_model_there_are_no_other_tokens() -> None:
    with pytest.raises(ValueError, match="tokens are bytes of UTF-8; 256 is none"):
        play(OutOfRange(), loud)


@pytest.mark.parametrize(
    ("ids", "after", "n_known"),
    [
        ("ab", 0, 0),
        ("abA", 0, 0),
        ("abAc", 1, 3),
        ("abAcCd", 2, 5),
        ("abAxCd", 1, 3),
        ("xbAcC", 0, 0),
    ],
)
def test_tokens_go_on_from_the_last_action_that_they_extend(
    ids: str, after: int, n_known: int
) -> None:
    """Capitals are the policy's."""
    history = History()
    for turn, (prompt, said) in enumerate((("ab", "A"), ("abAc", "C")), 1):
        sampled = Sampled(prompt_ids=bytes_of(prompt), ids=bytes_of(said))
        history.note(in_tokens(prompt), Message("assistant", said), turn, sampled)
    place = history.place_of(in_tokens(ids))
    assert (place.after, place.n_known) == (after, n_known)


def in_tokens(words: str) -> Question:
    return Question((), ids=tuple(bytes_of(words)))
