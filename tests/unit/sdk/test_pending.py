"""A forgotten `await` is told as what it is."""

import asyncio
import warnings

import pytest
from tests.support.fake_gateway import KEY

import warren

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def quiet() -> None:  # what is never awaited is the matter here
    warnings.simplefilter("ignore", RuntimeWarning)


def test_using_a_run_that_was_not_awaited() -> None:
    run = warren.connect(NOWHERE, KEY).train({"model": {"base": "x"}, "environments": []})
    with pytest.raises(warren.NotAwaited, match=r"client.train\(…\) was not awaited") as caught:
        _ = run.id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert caught.value.hint and "await client.train(…)" in caught.value.hint
    assert "warren.sync" in caught.value.hint


def test_looping_over_runs_that_were_not_awaited() -> None:
    runs = warren.connect(NOWHERE, KEY).runs()
    with pytest.raises(warren.NotAwaited):
        for _ in runs:  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
            pass


def test_it_tells_what_it_is() -> None:
    runs = warren.connect(NOWHERE, KEY).runs()
    assert repr(runs) == "<client.runs(…), not awaited yet>"
    assert not hasattr(runs, "_repr_html_")
    runs.close()


async def test_it_is_a_coroutine_for_tasks_and_timeouts() -> None:
    async with warren.connect(NOWHERE, KEY, retry_s=0.0) as client:
        task = asyncio.create_task(client.runs())
        assert "runs" in repr(task)
        with pytest.raises(warren.GatewayUnreachable):
            await task
        with pytest.raises(warren.GatewayUnreachable):
            await asyncio.gather(client.runs())
