"""Episodes of an `async` class whose process ends: what waits is cut short, and says nothing of it."""

import asyncio
from collections.abc import Generator

import pytest
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S

from warren.environment import Context, Env, StepResult
from warren_env_worker.foreign.package_process import ProcessLost
from warren_env_worker.host.call_status import SharedCallStatus
from warren_env_worker.host.child.caller import Caller
from warren_env_worker.host.child.live_episodes import LiveEpisodes
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.protocol import Call, Observed, Refused
from warren_env_worker.host.request import start_of
from warren_env_worker.permissions.granting import granted
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import TRUSTING

SLOT = 7
FIRST, SECOND = 1, 2


class Odd(BaseException):
    """No `except Exception` catches it."""


ODD = {"odd": Odd, "cancelled": asyncio.CancelledError}


class Waiting(Env):
    """Waits for ever in `step` and in `close`, but raises what is `ODD` at its word."""

    name = "waiting"
    waits = asyncio.Event()

    async def reset(self, task: object, ctx: Context) -> str:
        return "ready"

    async def step(self, action: str) -> StepResult:
        if action in ODD:
            raise ODD[action]
        await self._wait()
        return StepResult("never")

    async def close(self) -> None:
        await self._wait()

    async def _wait(self) -> None:
        self.waits.set()
        await asyncio.Event().wait()


class Unlisted(Waiting):
    """Its package's process is lost as it lists the tasks."""

    async def tasks(self, split: str) -> None:
        raise ProcessLost("the process was lost")


@pytest.fixture
def caller() -> Generator[Caller]:
    status = SharedCallStatus()
    yield Caller(status, is_async=True, limits_s={})
    status.close()


@pytest.fixture
def episodes(caller: Caller) -> LiveEpisodes:
    Waiting.waits = asyncio.Event()
    return LiveEpisodes(Waiting, caller, TaskCache(Waiting))


async def begin(episodes: LiveEpisodes) -> None:
    of = spec("waiting")
    answer = await episodes.take(Call(FIRST, SLOT, start_of(of, granted(TRUSTING, of))))
    assert isinstance(answer, Observed)


async def cancelled_while_it_waits(task: "asyncio.Task[object]") -> bool:
    async with asyncio.timeout(PATIENCE_S):
        await Waiting.waits.wait()
        task.cancel()
        await asyncio.wait({task})
    return task.cancelled()


async def test_a_step_that_is_cancelled_ends(
    episodes: LiveEpisodes, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(episodes)
    step = asyncio.create_task(episodes.take(Call(SECOND, SLOT, actions=("wait",))))
    assert await cancelled_while_it_waits(step)
    assert not caplog.records


async def test_a_close_that_is_cancelled_ends(
    episodes: LiveEpisodes, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(episodes)
    close = asyncio.create_task(episodes.close(Call(SECOND, SLOT, closes=True)))
    assert await cancelled_while_it_waits(close)
    assert not caplog.records


@pytest.mark.parametrize("action", ODD)
async def test_whatever_user_code_raises_is_an_answer(episodes: LiveEpisodes, action: str) -> None:
    await begin(episodes)
    async with asyncio.timeout(PATIENCE_S):
        answer = await episodes.take(Call(SECOND, SLOT, actions=(action,)))
    assert isinstance(answer, Refused)
    assert answer.kind is FailureKind.ENVIRONMENT_ERROR
    assert "longer" not in answer.reason


async def test_a_process_that_is_lost_as_it_lists_tasks_is_told_without_an_episode(
    caller: Caller, caplog: pytest.LogCaptureFixture
) -> None:
    of = spec("waiting")
    episodes = LiveEpisodes(Unlisted, caller, TaskCache(Unlisted))
    answer = await episodes.take(Call(FIRST, SLOT, start_of(of, granted(TRUSTING, of))))
    assert isinstance(answer, Refused)
    assert answer.kind is FailureKind.LOST
    assert caplog.messages == ["the process was lost; the host asks again, a few times at most"]
