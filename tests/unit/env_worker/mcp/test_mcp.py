"""What the policy is told of MCP servers' tools and results, and what of a config may not be reached."""

from typing import Any

import pytest
from tests.trust.permitted import JUDGE, KEY, VALUE, permissions

from warren.environment import ConfigError
from warren_env_worker.environments.mcp.answers import Result
from warren_env_worker.environments.mcp.environment import Mcp
from warren_env_worker.environments.mcp.servers import HttpServer, McpFailed, Reached, StdioServer
from warren_env_worker.environments.mcp.tools import Tools
from warren_env_worker.environments.tool_calls import ToolSpec
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.permissions.service import FAILED


def stdio(name: str, *tools: str) -> Reached:
    return Reached(name, StdioServer(command=("true",), tools=tools), TRUSTED)


def specs(*names: str) -> tuple[ToolSpec, ...]:
    return tuple(ToolSpec(name=name) for name in names)


def test_tools_of_several_servers_have_their_names_before_theirs() -> None:
    one = Tools([stdio("a")])
    one.replace({"a": specs("x", "y")})
    assert [tool.name for tool in one.told] == ["x", "y"]
    two = Tools([stdio("a"), stdio("b", "x")])
    assert two.replace({"a": specs("x"), "b": specs("x", "y")})
    assert [tool.name for tool in two.told] == ["a__x", "b__x"]
    assert two.where("b__x") == ("b", "x")
    assert not two.replace({"b": specs("x", "z")})  # which the policy is not told of


def test_a_tool_that_the_config_names_must_be_there() -> None:
    tools = Tools([stdio("a", "prise")])
    tools.replace({"a": specs("price")})
    with pytest.raises(ConfigError, match=r"servers\.a\.tools: it has no tool prise; did you mean"):
        tools.require_chosen("a")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "text", "text": "no"}], "is_error": True}, "Error: no"),
        ({"structured": {"n": [1]}}, '{"n": [1]}'),
        ({"content": [{"type": "text", "text": "1"}], "structured": {"result": 1}}, "1"),
        ({}, "(nothing)"),
        (
            {"content": [{"type": "new", "x": 1}]},
            "[new: 0 bytes of unknown type, which can't be shown]",
        ),
        ({"content": [{"type": "text", "text": "x" * 99}]}, "x" * 70 + "\n[29 more characters]"),
    ],
)
def test_a_result_is_shown(answer: dict[str, Any], told: str) -> None:
    result = Result.model_validate(answer)
    assert result.error(1.0) is None
    assert result.message(70).content == told


def test_config_is_closed() -> None:
    schema = ConfigSchema(Mcp)
    for server in ({"kind": "stdio"}, {"kind": "http"}, {"kind": "ftp"}, {"url": JUDGE}):
        with pytest.raises(Refusal, match="servers"):
            schema.check({"servers": {"a": server}})
    with pytest.raises(Refusal, match="servers"):
        schema.check({"servers": {"a__b": {"kind": "stdio", "command": ["true"]}}})


async def test_keys_are_sent_where_the_policy_binds_them_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, VALUE)
    local = "http://127.0.0.1:9/mcp"
    fields: dict[str, Any] = {
        "secrets": {"JUDGE": {"owners": ["ann"], "urls": [local]}},
        "services": [{"url": local, "private": True}, {"url": JUDGE}],
    }
    found = permissions(config={"key": KEY}, **fields)
    keyed = HttpServer(url=local, key_variable=KEY, headers={"X-Key": KEY})
    told = await Reached("a", keyed, found).told({})
    assert told["headers"] == {"Authorization": f"Bearer {VALUE}", "X-Key": VALUE}
    assert told["addresses"] == ("127.0.0.1",)
    for server in (
        HttpServer(url=JUDGE, key_variable=KEY),
        HttpServer(url=JUDGE, headers={"X": KEY}),
    ):
        with pytest.raises(ConfigError, match="no secret that this env worker's operator"):
            Reached("a", server, found)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1"])
async def test_no_private_address_is_told_to_the_client(host: str) -> None:
    url = f"http://{host}:9/mcp"
    server = Reached("a", HttpServer(url=url), permissions(services=[{"url": url}]))
    with pytest.raises(McpFailed, match=FAILED):
        await server.told({})


def test_a_command_is_listed_letter_by_letter_and_for_its_owners() -> None:
    command = ("/bin/true", "-m", "notes")
    rule = {"command": command, "owners": ["ann"]}
    Reached("a", StdioServer(command=command), permissions(commands=[rule]))
    for owner, asked in (("bob", command), ("ann", (*command, "-v")), ("ann", command[:2])):
        with pytest.raises(ConfigError, match="is not allowed for this run by this env worker"):
            Reached("a", StdioServer(command=asked), permissions(owner=owner, commands=[rule]))
