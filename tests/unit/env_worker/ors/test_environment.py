"""Episodes at an ORS server that fails in every way that the protocol knows."""

import asyncio
import base64
import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from tests.support.fake_ors import FakeOrs, Fault
from tests.support.patience import PATIENCE_S

from warren.environment import ConfigError, Context, NotReplayable, StepResult
from warren.observation import PromptTokens
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.ors.server import OrsFailed
from warren_env_worker.host.refusal import blame
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, ServiceGrant, acting
from warren_schemas.episode import FailureKind

KEY = "WARREN_SECRET_ORS"


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


LOOK, OPEN = call("look", place=0), call("open", code="1")


async def opened(url: str, index: int = 3, **config: Any) -> Ors:
    environment = Ors(url, "Vault", **config)
    environment.context = Context.derive(1)
    await environment.reset(index, environment.context)
    return environment


def texts(result: StepResult) -> list[str]:
    assert not isinstance(result.observation, str | PromptTokens)
    return [shown.content for shown in result.observation]


async def play(server: FakeOrs, *actions: str, **config: Any) -> list[StepResult]:
    async with server.serving() as url:
        environment = await opened(url, **config)
        try:
            return [await environment.step(action) for action in actions]
        finally:
            await environment.close()


async def test_calls_are_made_in_their_order_and_rewards_of_a_turn_are_added() -> None:
    server = FakeOrs()
    results = await play(server, LOOK + LOOK, OPEN + LOOK)
    assert [(r.reward, r.done) for r in results] == [(0.5, False), (1.0, True)]
    assert texts(results[0]) == ["look 1 of 3", "look 2 of 3"]
    assert texts(results[1]) == ["open 3 of 3"]  # after the end, nothing is called
    assert server.deleted == ["session-1"]
    created = next(body for path, _, body in server.asked if path == "/create")
    assert created == {"split": "train", "index": 3, "env_name": "Vault"}
    assert server.paths()[-2:] == ["/delete", "/delete_session"]


async def test_what_the_policy_gets_wrong_is_said_to_it() -> None:
    wrong = [call("lok"), call("look", place=9), call("look", place="\ud800"), "<tool_call>{", LOOK]
    results = await play(FakeOrs(faults=deque(["refused"])), call("look"), *wrong)
    said = [texts(result)[0] for result in results]
    assert said[0] == "Error: the server refuses these arguments"
    assert said[1] == "Error: there is no tool 'lok'; did you mean look?"
    assert said[2] == "Error: no such place"
    assert said[3].startswith("Error: look: ")
    assert all(result.reward is None for result in results[:-1])
    assert results[-1].metrics == {"tool_calls": 1.0, "tool_errors": 4.0, "parse_errors": 1.0}


async def test_words_without_a_call_cut_the_episode_or_go_to_the_terminal_tool() -> None:
    (cut,) = await play(FakeOrs(), "It is 42.")
    assert (cut.truncated, cut.done, cut.reward) == (True, False, None)
    terminal = {"name": "submit", "arg": "answer", "description": "Ends it."}
    server = FakeOrs(terminal_tool=terminal)
    (last,) = await play(server, "<think>look</think> It is 42.")
    assert (last.done, last.reward) == (True, 0.5)
    asked = [body for path, _, body in server.asked if path == "/vault/call"]
    assert asked == [{"name": "submit", "input": {"answer": "It is 42."}}]


@pytest.mark.parametrize("fault", ["busy", "starting", "after its number"])
async def test_a_call_that_can_be_told_apart_runs_once_in_one_session(fault: Fault) -> None:
    server = FakeOrs(faults=deque([fault, fault]))
    results = await play(server, LOOK, OPEN)
    assert [result.reward for result in results] == [0.25, 1.0]
    assert server.paths().count("/create") == 1
    assert server.paths().count("/vault/call") == 4


@pytest.mark.parametrize("fault", ["before it runs", "before its number", "proxy", "unavailable"])
async def test_where_nobody_knows_whether_a_call_ran_the_session_is_made_anew(fault: Fault) -> None:
    server = FakeOrs()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(LOOK)
        server.faults.append(fault)
        second = await environment.step(LOOK)
        assert texts(second) == ["look 2 of 3"]  # and not the third
        assert server.sessions["session-2"] == ["look", "look"]
        await environment.close()


async def test_a_server_that_loses_each_session_at_a_call_fails_the_episode() -> None:
    server = FakeOrs(faults=deque(["unavailable", "unavailable", "unavailable"]))
    with pytest.raises(OrsFailed, match="lost the session 3 times"):
        await play(server, LOOK)
    assert server.paths().count("/create") == server.paths().count("/vault/call") == 3


async def test_a_call_with_a_number_is_asked_for_again_whatever_the_server_says() -> None:
    server = FakeOrs(faults=deque(["after its number", "unavailable"]))
    results = await play(server, LOOK, OPEN)
    assert [texts(result) for result in results] == [["look 1 of 3"], ["open 2 of 3"]]
    assert server.paths().count("/create") == 1


async def test_a_lost_session_is_played_anew() -> None:
    server = FakeOrs()
    async with server.serving() as url:
        environment = await opened(url)
        first = await environment.step(LOOK + LOOK)
        server.lose_sessions()
        second = await environment.step(LOOK)
        await environment.close()
    assert (texts(first), texts(second)) == (["look 1 of 3", "look 2 of 3"], ["look 3 of 3"])
    assert server.deleted == ["session-2"]


async def test_one_that_answers_otherwise_then_is_a_typed_failure_and_no_reward() -> None:
    server = FakeOrs()
    async with server.serving() as url:
        environment = await opened(url)
        await environment.step(LOOK)
        server.lose_sessions()
        server.is_other = True
        with pytest.raises(NotReplayable, match=r"answered call 1 \(look\) otherwise") as failed:
            await environment.step(OPEN)
        await environment.close()
    refusal = blame(failed.value, "warren_env_worker")
    assert (refusal.kind, refusal.is_retryable) == (FailureKind.NOT_REPLAYABLE, True)


async def test_a_result_that_the_server_forgot_is_a_lost_session() -> None:
    server = FakeOrs(faults=deque(["after its number"]))
    async with server.serving() as url:
        environment = await opened(url)
        server.slow = asyncio.Event()
        stepping = asyncio.create_task(environment.step(LOOK))
        await server.has_run.wait()
        server.lose_sessions()
        server.slow.set()
        assert texts(await stepping) == ["look 1 of 3"]
        await environment.close()


async def test_a_server_that_is_away_fails_the_episode_after_its_patience() -> None:
    server = FakeOrs()
    async with server.serving() as url:
        environment = await opened(url, patience_s=0.01)
        await environment.step(LOOK)
    with pytest.raises(OrsFailed, match="it can't be reached, or it failed"):
        await environment.step(LOOK)
    await environment.close()


async def test_a_session_that_broke_off_as_it_opened_is_deleted() -> None:
    server = FakeOrs(n_cut_openings=1)
    results = await play(server, OPEN)
    assert [result.reward for result in results] == [1.0]
    assert server.deleted == ["session-1", "session-2"]


async def test_a_session_whose_environment_is_starting_is_asked_for_again_and_not_given_up() -> (
    None
):
    server = FakeOrs(n_starting=2)
    results = await play(server, OPEN)
    assert [result.reward for result in results] == [1.0]
    opening = [
        (path, headers["X-Session-ID"]) for path, headers, _ in server.asked if path == "/create"
    ]
    assert opening == [("/create", "session-1")] * 3
    assert server.paths().count("/create_session") == 1
    assert server.deleted == ["session-1"]


async def test_a_session_that_was_forgotten_while_its_environment_started_is_made_anew() -> None:
    server = FakeOrs(n_starting=1, is_forgetful=True)
    results = await play(server, OPEN)
    assert [result.reward for result in results] == [1.0]
    assert server.paths().count("/create_session") == 2


async def test_one_that_is_closed_while_its_environment_starts_is_deleted_at_the_proxy() -> None:
    server = FakeOrs(n_starting=1000)
    async with server.serving() as url:
        environment = Ors(url, "Vault")
        environment.context = Context.derive(1)
        opening = asyncio.create_task(environment.reset(3, environment.context))
        await server.has_refused.wait()
        await environment.close()
        opening.cancel()
        await asyncio.wait({opening})
    assert server.paths()[-2:] == ["/delete", "/delete_session"]


async def test_one_that_never_opens_leaves_no_session() -> None:
    server = FakeOrs(n_cut_openings=1000)
    async with server.serving() as url:
        environment = Ors(url, "Vault", patience_s=0.01)
        environment.context = Context.derive(1)
        with pytest.raises(OrsFailed, match="it can't be reached, or it failed"):
            await environment.reset(3, environment.context)
        await environment.close()
    assert server.deleted
    assert server.sessions == {}


async def test_an_episode_that_is_closed_as_it_opens_leaves_no_session() -> None:
    server = FakeOrs(slow_opening=asyncio.Event())
    async with server.serving() as url:
        environment = Ors(url, "Vault")
        environment.context = Context.derive(1)
        opening = asyncio.create_task(environment.reset(3, environment.context))
        await server.has_opened.wait()
        await environment.close()
        assert server.deleted == ["session-1"]
        assert server.slow_opening is not None
        server.slow_opening.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({opening})
        assert opening.exception() is not None
        assert server.sessions == {}


async def test_a_session_that_is_given_up_in_a_call_is_deleted() -> None:
    server = FakeOrs(faults=deque(["before its number"]))
    await play(server, LOOK)
    assert server.deleted == ["session-1", "session-2"]


async def test_an_episode_that_is_closed_in_a_call_leaves_no_session() -> None:
    server = FakeOrs(slow=asyncio.Event())
    async with server.serving() as url:
        environment = await opened(url)
        stepping = asyncio.create_task(environment.step(LOOK))
        await server.has_run.wait()
        await environment.close()
        assert server.deleted == ["session-1"]
        assert server.slow is not None
        server.slow.set()
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({stepping})
        assert stepping.exception() is not None
        assert server.sessions == {}


async def tasks(server: FakeOrs, split: str = "train", **config: Any) -> list[int]:
    async with server.serving() as url:
        return list(await Ors(url, "vault", **config).tasks(split))


async def test_tasks_are_chosen_by_slice_and_by_id() -> None:
    assert await tasks(FakeOrs()) == [0, 1, 2, 3, 4]
    assert await tasks(FakeOrs(), start=-2) == [3, 4]
    assert await tasks(FakeOrs(), start=1, ids=("task-3", "task-1")) == [3, 1]
    unasked = FakeOrs()
    assert await tasks(unasked, start=2, stop=4) == [2, 3]
    assert unasked.asked == []


@pytest.mark.parametrize(
    ("name", "split", "ids", "sentence"),
    [
        ("valt", "train", (), "has no environment valt; did you mean vault"),
        ("vault", "trian", (), "has no split trian; did you mean train"),
        ("vault", "train", ("x",), "no task of train has the id x"),
    ],
)
async def test_what_is_not_there_is_said(
    name: str, split: str, ids: tuple[str, ...], sentence: str
) -> None:
    async with FakeOrs().serving() as url:
        with pytest.raises(ConfigError, match=sentence):
            await Ors(url, name, ids=ids).tasks(split)


async def test_an_id_that_two_tasks_have_names_neither() -> None:
    with pytest.raises(ConfigError, match="2 tasks of train have the id x; choose by start"):
        await tasks(FakeOrs(ids={1: "x", 4: "x"}), ids=("task-2", "x"))


@pytest.mark.parametrize(
    ("server", "id"), [(FakeOrs(), "task-3"), (FakeOrs(tells_specs=False), None)]
)
async def test_a_task_has_the_id_of_its_spec_where_there_is_one(
    server: FakeOrs, id: str | None
) -> None:
    async with server.serving() as url:
        environment = await opened(url)
        await environment.close()
    assert environment.task_id == id


def no_spec(status: int = 200, text: str = "{}") -> FakeOrs:
    return FakeOrs(refuses_specs=lambda: web.Response(status=status, text=text))


NO_SPECS = [no_spec(400), no_spec(422), no_spec(500), no_spec(302), no_spec(), no_spec(text="?")]


@pytest.mark.parametrize("server", NO_SPECS, ids=range(len(NO_SPECS)))
async def test_an_episode_is_played_whatever_the_server_says_of_its_task(
    server: FakeOrs, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.serving() as url:
        for _ in range(2):
            environment = await opened(url)
            assert environment.task_id is None
            result = await environment.step(OPEN)
            await environment.close()
            assert result.done
    said = [each.getMessage() for each in caplog.records if url in each.getMessage()]
    assert len([each for each in said if "does not say what its tasks are called" in each]) == 1
    assert not [each for each in said if "with status" in each], "of each episode"


async def test_a_task_that_was_chosen_by_its_id_is_not_played_without_one() -> None:
    async with no_spec(500).serving() as url:
        environment = Ors(url, "vault", ids=("task-3",))
        environment.context = Context.derive(1)
        (task,) = await environment.tasks("train")
        with pytest.raises(OrsFailed):
            await environment.reset(task, environment.context)
        await environment.close()


async def test_ids_are_listed_where_a_run_names_tasks() -> None:
    async with FakeOrs().serving() as url:
        loader = Ors(url, "vault")
        loader.wants_task_ids = True
        assert [loader.id_of(task) for task in await loader.tasks("train")][:2] == [
            "task-0",
            "task-1",
        ]


@pytest.mark.parametrize("name", ["../admin", "a/b/c", "../b", "..", "", "a b", "%2e%2e"])
def test_no_name_of_an_environment_leads_elsewhere(name: str) -> None:
    with pytest.raises(ValueError, match="as the server lists its environments"):
        Ors("http://127.0.0.1:1/", name)


@pytest.fixture
def permissions() -> Iterator[Permissions]:
    yield Permissions(is_trusted=True, keys=(KeyGrant(KEY, "sk-0123456789", None),))


async def test_a_key_and_secrets_go_along_by_header(permissions: Permissions) -> None:
    server = FakeOrs()
    with acting(permissions):
        await play(server, OPEN, key_variable=KEY, secrets={"TOKEN": KEY})
    assert {headers.get("X-API-Key") for _, headers, _ in server.asked} == {"sk-0123456789"}
    sent = {
        path: headers["X-Secrets"] for path, headers, _ in server.asked if "X-Secrets" in headers
    }
    assert list(sent) == ["/create_session", "/create"]
    assert sent["/create_session"] == sent["/create"]
    assert json.loads(base64.b64decode(sent["/create"])) == {"TOKEN": {"value": "sk-0123456789"}}


async def test_hosts_to_which_a_secret_may_go_on_are_sent_with_it(permissions: Permissions) -> None:
    server, domains = FakeOrs(), {"TOKEN": ("api.example.org",)}
    secrets = {"TOKEN": KEY, "OTHER": KEY}
    with acting(permissions):
        await play(server, OPEN, secrets=secrets, secret_domains=domains)
    sent = next(headers["X-Secrets"] for path, headers, _ in server.asked if path == "/create")
    value = {"value": "sk-0123456789"}
    told = {"TOKEN": value | {"allowed_domains": ["api.example.org"]}, "OTHER": value}
    assert json.loads(base64.b64decode(sent)) == told


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"secret_domains": {"TOKEM": ("a.org",)}}, "secrets has no TOKEM"),
        ({"secret_domains": {"TOKEN": ("a.org",)}, "secrets_in": "body"}, "no effect with secrets_in: body"),
    ],
)  # fmt: skip
def test_hosts_that_would_have_no_effect_are_refused(
    permissions: Permissions, config: dict[str, Any], words: str
) -> None:
    with acting(permissions), pytest.raises(ConfigError, match=words):
        Ors("http://127.0.0.1:1/", "vault", secrets={"TOKEN": KEY}, **config)


def test_under_a_policy_a_secret_may_go_on_only_where_the_worker_may_send_it() -> None:
    url, own, other = "https://ors.example.org/", "api.example.org", "elsewhere.example.org"
    granted = tuple(ServiceGrant(each, False) for each in (url, f"https://{own}/"))
    of_key = KeyGrant(KEY, "sk-0123456789", (url, f"https://{own}/"))
    of_others = ServiceGrant(f"https://{other}/", False)
    for services, words in ((granted, "is no service"), ((*granted, of_others), "send there")):
        with acting(Permissions(services=services, keys=(of_key,))):
            Ors(url, "vault", secrets={"TOKEN": KEY}, secret_domains={"TOKEN": (own,)})
            with pytest.raises(ConfigError, match=rf"secret_domains\.TOKEN: .*{words}"):
                Ors(url, "vault", secrets={"TOKEN": KEY}, secret_domains={"TOKEN": (other,)})


def test_a_form_of_secrets_is_refused_where_there_are_none() -> None:
    with pytest.raises(ConfigError, match="secrets_in has no effect without secrets"):
        Ors("http://127.0.0.1:1/", "vault", secrets_in="header")


async def test_secrets_go_in_the_body_where_the_server_wants_them_there(
    permissions: Permissions,
) -> None:
    server = FakeOrs()
    with acting(permissions):
        await play(server, OPEN, secrets={"TOKEN": KEY}, secrets_in="body")
    (created,) = [body for path, _, body in server.asked if path == "/create"]
    assert created["secrets"] == {"TOKEN": "sk-0123456789"}
    assert not any("X-Secrets" in headers for _, headers, _ in server.asked)


async def test_tasks_are_counted_without_the_key(permissions: Permissions) -> None:
    server = FakeOrs()
    with acting(permissions):
        assert await tasks(server, key_variable=KEY) == [0, 1, 2, 3, 4]
    assert not any("X-API-Key" in headers for _, headers, _ in server.asked)
