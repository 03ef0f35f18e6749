"""Tools that a server offers by MCP: in pages, refused, and at places where none may be."""

from typing import Any

import pytest
from tests.support.fake_nemo_gym import FakeNemoGym
from tests.unit.env_worker.nemo_gym.test_environment import call, play, row, texts

from warren.environment import StepResult
from warren_env_worker.environments.nemo_gym.connection import GymFailed

ACCESS = {"url_path": "/mcp", "headers": {"X-Token": "t-0"}}


def offering(*answers: dict[str, Any]) -> FakeNemoGym:
    server = FakeNemoGym()
    server.seeded = {"mcp": ACCESS}
    server.told_by_mcp.extend(answers)
    return server


def page(*names: str, **more: str) -> dict[str, Any]:
    return {"result": {"tools": [{"name": name} for name in names], **more}}


async def play_out(server: FakeNemoGym, *actions: str, **params: Any) -> list[StepResult]:
    return await play(server, *actions, "Done.", of=row(expected=0, **params))


async def test_a_list_in_pages_and_what_calls_give() -> None:
    given = {"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    failed = {"content": [{"type": "text", "text": "no"}], "isError": True}
    server = offering(
        page("look", nextCursor="2"),
        page("go"),
        {"result": given},
        {"result": failed},
        {"error": {"code": -32602, "message": "not now"}},
        {"result": {"structuredContent": {"n": 1}}},
    )
    results = await play_out(server, call("look", at="x") + call("go"), call("go") + call("look"))
    assert [told for each in results[:2] for told in texts(each)] == [
        "one\ntwo",
        "Error: no",
        "Error: not now",
        '{"n": 1}',
    ]
    counts = {"tool_calls": 2.0, "tool_errors": 2.0, "parse_errors": 0.0}
    assert results[-1].metrics.items() >= counts.items()
    sent = [(body["method"], body["params"]) for path, body in server.asked if path == "mcp"]
    assert sent[:3] == [
        ("tools/list", {}),
        ("tools/list", {"cursor": "2"}),
        ("tools/call", {"name": "look", "arguments": {"at": "x"}}),
    ]


async def test_a_row_that_forbids_tools_or_names_some_asks_for_none() -> None:
    for of in (row(expected=0, tool_choice="none"), row("add", expected=0)):
        server = offering()
        (result,) = await play(server, "Done.", of=of)
        assert (result.reward, [path for path, _ in server.asked]) == (1.0, ["seed_session", "verify"])  # fmt: skip


async def test_a_server_that_tells_no_tools_fails_the_episode() -> None:
    with pytest.raises(GymFailed, match="does not tell its tools by MCP"):
        await play_out(offering({"error": {"code": -32601, "message": "?"}}))
    with pytest.raises(GymFailed, match="has more than 100 pages"):
        await play_out(offering(*[page(nextCursor="again")] * 101))


@pytest.mark.parametrize(
    "wrong",
    [
        {"url_path": "http://elsewhere/mcp"}, {"url_path": "/../mcp"}, {"url_path": "/mcp?x"}, {"url_path": ""},
        {"headers": {"Authorization": "x"}}, {"headers": {"cookie": "x"}}, {"headers": {"X-Token": "a\r\nb"}}, {"headers": {"X Y": "a"}},
    ],
)  # fmt: skip
async def test_nothing_is_sent_where_a_server_must_not_send_us(wrong: dict[str, Any]) -> None:
    server = offering(page("look"))
    server.seeded = {"mcp": ACCESS | wrong}
    with pytest.raises(GymFailed, match="the answer to seed_session is not of the protocol: mcp"):
        await play_out(server)
    assert [path for path, _ in server.asked] == ["seed_session"]
