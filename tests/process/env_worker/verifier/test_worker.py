"""What the process that keeps a checker says when a checker dies."""

from collections.abc import AsyncGenerator
from pathlib import Path

import orjson
import pytest
import pytest_asyncio

from warren.host_services.verdict import Verdict
from warren_broker.worker.child import Child

DEATHS = {
    "crash": (Verdict.TIMED_OUT, "crashed, twice"),
    "memory": (Verdict.TIMED_OUT, "MiB of memory"),
    "error": (Verdict.UNPARSEABLE, "TypeError: no algebra"),
}


@pytest_asyncio.fixture
async def child() -> AsyncGenerator[Child]:
    child = await Child.spawn("checker", "tests.support.fatal_checker")
    yield child
    child.kill()
    await child.close()


@pytest.mark.parametrize("answer", DEATHS)
async def test_expressions_that_a_checker_dies_of_answer_for_it(child: Child, answer: str) -> None:
    verdict, reason = DEATHS[answer]
    reply = await _reply(child, "x", answer)
    assert reply["verdict"] == verdict
    assert reason in reply["reason"]


async def test_a_checker_that_somebody_killed_is_asked_again(child: Child, tmp_path: Path) -> None:
    assert await _reply(child, str(tmp_path / "killed"), "y") == {"verdict": "equal"}


async def _reply(child: Child, gold: str, answer: str) -> dict[str, str]:
    await child.send(orjson.dumps([gold, answer]))
    return orjson.loads(await child.receive())
