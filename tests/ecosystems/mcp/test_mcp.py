"""The environment `mcp` on real servers of the official SDK, which are killed in the middle of episodes."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.real_server import RealServer
from tests.support.hosting import Player, child_pids, hosting
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import children, free_port, until_dead

from warren_env_worker.foreign import places
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

pytestmark = pytest.mark.server
in_ci = pytest.mark.ecosystem
not_in_ci = pytest.mark.ecosystem_all
ROOT = Path(__file__).parents[3]
PYTHON = str(ROOT / ".venv-mcp" / "bin" / "python")
PROGRAM = str(Path(__file__).with_name("server.py"))
CLASS = "warren_env_worker.environments.mcp.environment:Mcp"
STDIO = {"kind": "stdio", "command": [PYTHON, PROGRAM, "stdio"]}
SECRET, KEY = "WARREN_SECRET_SHOP", "key-0123456789"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """As `warren env install mcp` does it, in the environment that `make ecosystems` has made."""
    os.environ["WARREN_HOME"] = str(tmp_path_factory.mktemp("home"))
    os.environ[SECRET] = KEY
    places.folder("mcp").parent.mkdir()
    places.folder("mcp").symlink_to(ROOT / ".venv-mcp")
    places.note_installed("mcp")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, RealServer]]:
    """By kind, all at once: each takes seconds to start."""
    folder = tmp_path_factory.mktemp("servers")
    kinds = ("stateless", "sessions", "busy", "moved", "keyed")
    started = {
        kind: RealServer((PYTHON, PROGRAM, kind), free_port(), folder / f"{kind}.log")
        for kind in kinds
    }
    with ExitStack() as stack:
        for server in started.values():
            server.start()
            stack.callback(server.kill)
        yield started


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


@pytest.fixture
def questions(tmp_path: Path) -> str:
    path = tmp_path / "questions.jsonl"
    rows = [{"question": "What do a tea and a coffee cost together?", "answer": "7"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def http(server: RealServer, **config: object) -> dict[str, object]:
    return {"kind": "http", "url": f"{server.url}mcp", **config}


def episode(host: Host, path: str, of: dict[str, Any], **config: object) -> Player:
    config = {"servers": {"shop": of}, "path": path, "patience_s": 20.0, **config}
    secrets = config.pop("secrets", ())
    return Player(
        host, spec("mcp", environment_config=config, secrets=secrets, max_turns=50, seed=1)
    )


def call(name: str, /, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


async def told(player: Player, *actions: str) -> list[list[str]]:
    """What is shown after the reset and after each action."""
    answers = [await player.reset(), *[await player.step(action) for action in actions]]
    return [texts(answer) for answer in answers]


def texts(answer: object) -> list[str]:
    assert isinstance(answer, Observed), answer
    return [message[1] for message in answer.messages]


def failed(answer: object, kind: FailureKind, reason: str) -> None:
    assert isinstance(answer, Refused), answer
    assert answer.kind is kind
    assert reason in answer.reason


@in_ci
@pytest.mark.shows("MCP", "tasks", "tools", "several turns")
async def test_a_question_is_answered_with_tools(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    for of in (STDIO, http(servers["stateless"]), http(servers["sessions"], sessions=True)):
        player = episode(host, questions, of)
        begun, prices, wrong = await told(
            player,
            call("price", article="tea") + call("price", article="coffee"),
            call("price", article="gold") + call("pice") + call("price", n=1),
        )
        assert "Prices are in euros." in begun[0]
        assert "The price of an article." in begun[0]
        assert prices == ["3", "4"]
        assert wrong[:2] == [
            "Error: Error executing tool price: gold is not sold here",
            "Error: there is no tool 'pice'; did you mean price?",
        ]
        assert wrong[2].startswith("Error: Error executing tool price: 1 validation error")
        ended = await player.step("It is \\boxed{7}.")
        assert isinstance(ended, Observed)
        assert (ended.is_over, ended.reward) == (True, 1.0)
        assert (ended.metrics["tool_calls"], ended.metrics["tool_errors"]) == (2.0, 3.0)


@not_in_ci
@pytest.mark.shows("MCP", "images")
async def test_content_of_all_kinds(host: Host, questions: str) -> None:
    player = episode(host, questions, STDIO, result_chars=100)
    kinds = ("audio", "link", "text", "blob", "long", "huge")
    _, *shown = await told(player, *(call("show", kind=kind) for kind in kinds))
    assert shown == [
        ["[audio: 70 bytes of audio/wav, which can't be shown]"],
        ["a file:///a"],
        ["file:///t:\ntold"],
        ["[file:///b: 70 bytes of application/pdf, which can't be shown]"],
        ["x" * 100 + "\n[4900 more characters]"],
        [shown[5][0]],
    ]
    assert shown[5][0].startswith("Error: the result has 4194")
    image = await player.step(call("show", kind="image"))
    assert isinstance(image, Observed)
    assert "image/png" in repr(image.messages)


@not_in_ci
async def test_several_servers_and_chosen_tools(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    both = {"one": STDIO | {"tools": ["put"]}, "two": http(servers["stateless"])}
    begun, shown = await told(
        episode(host, questions, {}, servers=both),
        call("one__put", article="tea") + call("two__price", article="tea") + call("one__price"),
    )
    assert "two__put" in begun[0]
    assert "one__price" not in begun[0]
    assert shown[:2] == ["1 in the basket", "3"]
    assert shown[2].startswith("Error: there is no tool 'one__price'")


@not_in_ci
async def test_the_last_call_is_told_and_the_next_turn_is_the_answer(
    host: Host, questions: str
) -> None:
    player = episode(host, questions, STDIO, max_calls=2)
    _, shown = await told(player, call("put", article="tea") * 3)
    assert shown == [
        "1 in the basket",
        "2 in the basket",
        "Error: there is no call left\n[this was the last call; give your answer now]",
    ]
    ended = await player.step(call("put", article="tea"))
    assert isinstance(ended, Observed)
    assert (ended.is_over, ended.reward) == (True, 0.0)


@not_in_ci
async def test_tools_that_are_added_are_told(host: Host, questions: str) -> None:
    player = episode(host, questions, STDIO)
    begun, taught, sung = await told(player, call("teach"), call("sing"))
    assert "Sing a song." not in begun[0]
    assert taught[0] == "taught"
    assert taught[1].startswith("[the tools have changed]")
    assert "Sing a song." in taught[1]
    assert sung == ["sung"]


@not_in_ci
async def test_a_call_that_takes_too_long_is_told_and_a_server_that_hangs_fails(
    host: Host, questions: str
) -> None:
    player = episode(host, questions, STDIO, call_s=0.5)
    _, late = await told(player, call("wait"))
    assert late == ["Error: it took longer than 0.5 s"]
    ended = await player.step("I don't know.")
    assert isinstance(ended, Observed)
    assert ended.metrics["tool_timeouts"] == 1.0
    hung = episode(host, questions, STDIO, call_s=0.5, patience_s=1.0)
    await hung.reset()
    failed(await hung.step(call("hang")), FailureKind.ENVIRONMENT_ERROR, "shop: it can't be had")


@not_in_ci
@pytest.mark.shows("MCP", "secrets")
async def test_secrets_are_sent_as_headers_and_variables(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    of = http(servers["keyed"])
    failed(
        await episode(host, questions, of).reset(),
        FailureKind.ENVIRONMENT_ERROR,
        "shop: it can't be had, or it failed",
    )
    player = episode(host, questions, of | {"key_variable": SECRET})
    assert (await told(player, call("price", article="tea")))[1] == ["3"]
    given = STDIO | {"variables": {"TOKEN": "SHOP"}}
    player = episode(host, questions, given, secrets=("SHOP",))
    assert (await told(player, call("variable", name="TOKEN")))[1] == [KEY]
    failed(
        await episode(host, questions, given).reset(),
        FailureKind.ENVIRONMENT_CONFIG,
        "servers.shop.variables: SHOP is none",
    )


@not_in_ci
async def test_a_busy_server_is_asked_again_and_a_redirect_is_not_followed(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    busy = episode(host, questions, http(servers["busy"]))
    assert (await told(busy, call("price", article="tea")))[1] == ["3"]
    failed(
        await episode(host, questions, http(servers["moved"])).reset(),
        FailureKind.ENVIRONMENT_ERROR,
        "shop: it can't be had, or it failed",
    )


@not_in_ci
async def test_a_config_that_cannot_be_played_is_refused(host: Host, questions: str) -> None:
    for of, reason in (
        ({"kind": "stdio", "command": ["no-such-program"]}, "there is no such program"),
        (STDIO | {"url": "http://x/"}, "servers"),
        ({"kind": "http", "url": "ftp://x/"}, "url: expected http(s)"),
    ):
        answer = await episode(host, questions, of).reset()
        failed(answer, FailureKind.ENVIRONMENT_CONFIG, reason)


@in_ci
async def test_under_a_policy_what_is_not_listed_is_not_reached(
    questions: str, servers: dict[str, RealServer]
) -> None:
    listed = {
        "services": [{"url": servers["stateless"].url}],
        "data_root": str(Path(questions).parent),
    }
    async with hosting(CLASS, policy=OperatorPolicy.model_validate(listed)) as host:
        for of, kind, reason in (
            (STDIO, FailureKind.ENVIRONMENT_CONFIG, "none that this env worker's operator allows"),
            (http(servers["busy"]), FailureKind.ENVIRONMENT_CONFIG, "no service that"),
            (http(servers["stateless"]), FailureKind.ENVIRONMENT_ERROR, "shop: it can't be had"),
        ):
            failed(await episode(host, questions, of).reset(), kind, reason)
    listed["services"][0]["private"] = True
    listed["commands"] = [{"command": STDIO["command"]}]
    async with hosting(CLASS, policy=OperatorPolicy.model_validate(listed)) as host:
        for of in (STDIO, http(servers["stateless"])):
            shown = await told(episode(host, "questions.jsonl", of), call("price", article="tea"))
            assert shown[1] == ["3"]


@in_ci
@pytest.mark.shows("MCP", "crash and replay", "retries")
async def test_a_killed_server_costs_nothing_where_the_calls_are_answered_as_before(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    put = call("put", article="tea")
    stdio = episode(host, questions, STDIO)
    await told(stdio, put)
    await _kill_stdio_servers()
    assert texts(await stdio.step(put)) == ["2 in the basket"]
    for kind, of in (("stateless", {}), ("sessions", {"sessions": True})):
        player = episode(host, questions, http(servers[kind], **of))
        _, first = await told(player, call("price", article="tea"))
        servers[kind].start_again()
        assert texts(await player.step(call("price", article="tea"))) == first


@not_in_ci
@pytest.mark.shows("MCP", "crash and replay", "retries")
async def test_a_lost_session_that_answers_otherwise_fails_by_its_name(
    host: Host, questions: str
) -> None:
    player = episode(host, questions, STDIO)
    await told(player, call("pid"))
    await _kill_stdio_servers()
    failed(
        await player.step(call("pid")), FailureKind.NOT_REPLAYABLE, "answered action 1 otherwise"
    )
    dying = episode(host, questions, STDIO)
    await dying.reset()
    failed(await dying.step(call("die")), FailureKind.ENVIRONMENT_ERROR, "died 3 times")


@not_in_ci
@pytest.mark.shows("MCP", "crash and replay")
async def test_an_env_worker_that_dies_leaves_no_server_behind_and_another_goes_on(
    questions: str,
) -> None:
    put = call("put", article="tea")
    async with hosting(CLASS) as lost:
        player = episode(lost, questions, STDIO)
        await told(player, put)
        ours = [_fork_server(), *children(_fork_server()), *_stdio_servers()]
        assert len(ours) == 3
        for pid in child_pids():
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            for pid in ours:
                await until_dead(pid)
        async with hosting(CLASS) as other:
            assert texts(await player.moved_to(other).step(put)) == ["2 in the basket"]


def _fork_server() -> int:
    (host,) = child_pids()
    (server,) = children(host)
    return server


def _stdio_servers() -> list[int]:
    """Children of any thread of the episodes' processes."""
    tasks = [Path(f"/proc/{pid}/task") for pid in children(_fork_server())]
    listed = [path.read_text() for task in tasks for path in task.glob("*/children")]
    return [int(pid) for pids in listed for pid in pids.split()]


async def _kill_stdio_servers() -> None:
    found = _stdio_servers()
    assert len(found) == 1
    os.kill(found[0], signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await until_dead(found[0])
