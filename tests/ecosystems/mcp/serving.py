"""Real servers of the official SDK, and episodes of the environment `mcp` on them."""

import json
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.real_server import RealServer
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec
from tests.support.processes import free_port

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind

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
    virtual_environments.folder("mcp").parent.mkdir()
    virtual_environments.folder("mcp").symlink_to(ROOT / ".venv-mcp")
    virtual_environments.note_installed("mcp")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, RealServer]]:
    """By kind, all at once: each takes seconds to start."""
    folder = tmp_path_factory.mktemp("servers")
    kinds = ("stateless", "sessions", "busy", "cut", "busy_lists", "endless", "moved", "keyed")
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
