"""The dispatcher beside a child that answers at the worst time."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.support.episodes import environment_side, first_turn, policy
from tests.support.patience import PATIENCE_S
from tests.support.sampler_stage import one_token, settings_of

from warren_broker.memory import open_hub
from warren_gpu_worker.sampler.messages import TurnRequest
from warren_gpu_worker.sampler.supervisor.child_process import Answers, SamplerProcess
from warren_gpu_worker.sampler.supervisor.service import serve_sampler


async def test_a_turn_that_ends_while_the_sampler_stops_does_not_break_it(tmp_path: Path) -> None:
    asked: asyncio.Queue[TurnRequest] = asyncio.Queue()

    class AnswersWhenStopped(SamplerProcess):
        async def ready(self) -> None:
            return

        def submit_turns(self, requests: Iterable[TurnRequest]) -> None:
            for request in requests:
                asked.put_nowait(request)

        async def run(self) -> None:
            self._childless.clear()
            try:
                await asyncio.Event().wait()
            finally:
                answers: Answers = [one_token(asked.get_nowait()) for _ in range(asked.qsize())]
                self._answered(answers)

    async with open_hub(tmp_path) as hub, environment_side(hub) as side:
        broker = hub.client("sampler")
        settings = settings_of({"warren/tiny": str(tmp_path)}, tmp_path)
        serving = asyncio.create_task(
            serve_sampler(broker, settings, make_process=AnswersWhenStopped)
        )
        await side.send([first_turn(policy())])
        async with asyncio.timeout(PATIENCE_S):
            asked.put_nowait(await asked.get())
            serving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await serving
        await broker.close()
