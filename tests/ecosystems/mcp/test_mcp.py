"""The environment `mcp` on real servers of the official SDK."""

from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.mcp.serving import (
    CLASS,
    KEY,
    SECRET,
    STDIO,
    call,
    episode,
    failed,
    host,
    http,
    in_ci,
    installed,
    not_in_ci,
    questions,
    servers,
    told,
)
from tests.ecosystems.real_server import RealServer
from tests.support.hosting import hosting

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

__all__ = ["host", "installed", "questions", "servers"]
pytestmark = pytest.mark.server


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
    failed(
        await hung.step(call("hang")), FailureKind.ENVIRONMENT_ERROR, "shop: it can't be reached"
    )


@not_in_ci
@pytest.mark.shows("MCP", "secrets")
async def test_secrets_are_sent_as_headers_and_variables(
    host: Host, questions: str, servers: dict[str, RealServer]
) -> None:
    of = http(servers["keyed"])
    failed(
        await episode(host, questions, of).reset(),
        FailureKind.ENVIRONMENT_ERROR,
        "shop: it can't be reached, or it failed",
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
        "shop: it can't be reached, or it failed",
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
    listed: dict[str, Any] = {
        "services": [{"url": servers["stateless"].url}],
        "data_root": str(Path(questions).parent),
    }
    async with hosting(CLASS, policy=OperatorPolicy.model_validate(listed)) as host:
        for of, kind, reason in (
            (STDIO, FailureKind.ENVIRONMENT_CONFIG, "is not allowed for this run by this"),
            (http(servers["busy"]), FailureKind.ENVIRONMENT_CONFIG, "no service that"),
            (
                http(servers["stateless"]),
                FailureKind.ENVIRONMENT_ERROR,
                "shop: it can't be reached",
            ),
        ):
            failed(await episode(host, questions, of).reset(), kind, reason)
    listed["services"][0]["private"] = True
    listed["commands"] = [{"command": STDIO["command"]}]
    async with hosting(CLASS, policy=OperatorPolicy.model_validate(listed)) as host:
        for of in (STDIO, http(servers["stateless"])):
            shown = await told(episode(host, "questions.jsonl", of), call("price", article="tea"))
            assert shown[1] == ["3"]
