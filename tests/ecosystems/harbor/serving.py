"""The environment `harbor` on the real package, for tests."""

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from tests.ecosystems.installing import install
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_schemas.episode import TaskRef

CLASS = "warren_env_worker.environments.harbor.environment:Harbor"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    install("harbor", tmp_path_factory.mktemp("home"), Path(__file__).with_name("agents"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(installed: None) -> AsyncGenerator[Host]:
    """One for all tests of a module: the package is imported once."""
    async with hosting(CLASS) as host:
        yield host


def episode(host: Host, folder: Path, **config: object) -> Player:
    of: Mapping[str, object] = {"path": str(folder), **config}
    return Player(host, spec("harbor", environment_config=of, task=TaskRef(index=0), max_turns=100))


def shell(command: str) -> str:
    said = json.dumps({"name": "shell", "arguments": {"command": command}})
    return f"<tool_call>\n{said}\n</tool_call>"


def text(answer: Answer) -> str:
    assert isinstance(answer, Observed), answer
    return answer.messages[-1][1]


async def ended(player: Player, *actions: str) -> Answer:
    answer = await player.reset()
    for action in actions:
        assert isinstance(answer, Observed), answer
        answer = await player.step(action)
    return answer
