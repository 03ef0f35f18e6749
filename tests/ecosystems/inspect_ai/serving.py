"""The environment `inspect_ai` on the real package, for tests."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.ecosystems.installing import install
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer, Observed
from warren_schemas.episode import TaskRef

CLASS = "warren_env_worker.environments.inspect_ai.environment:InspectAi"
TASKS = Path(__file__).with_name("tasks") / "small.py"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    install("inspect_ai", tmp_path_factory.mktemp("home"), TASKS.parent)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(installed: None) -> AsyncGenerator[Host]:
    """One for all tests of a module: the package is imported once."""
    async with hosting(CLASS) as host:
        yield host


def episode(host: Host, task: str, /, **config: object) -> Player:
    of = {"task": f"{TASKS}@{task}", **config}
    asked = TaskRef(index=0)
    return Player(host, spec("inspect_ai", environment_config=of, task=asked, max_turns=100))


def call(name: str, **arguments: object) -> str:
    said = json.dumps({"name": name, "arguments": arguments})
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
