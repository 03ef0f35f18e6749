"""What Warren tells people to do is done here, to the letter, and leads where they want to go."""

import asyncio
import os
import re
import shlex
import signal
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import free_port, start_program
from tests.system.test_up import line_with, running, short_run, stop

import warren
from warren_schemas.config import TrainConfig
from warren_schemas.events import WaitingEnded, WaitingStarted

pytestmark = several_waits


def on_model(base: str) -> TrainConfig:
    return TrainConfig.model_validate({**short_run().model_dump(), "model": {"base": base}})


async def do(command: str, home: Path, port: int) -> tuple[str, str]:
    """Run a command as the message has it; what it says, and what it complains about."""
    name, *words = shlex.split(command)
    assert name == "warren"
    variables = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
    variables |= {"WARREN_HOME": str(home), "WARREN_URL": f"http://127.0.0.1:{port}"}
    process = await start_program(sys.executable, "-m", "warren", *words, environment=variables)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    return out.decode(), err.decode()


async def reason_of(run: warren.Run) -> str:
    async for event in run.events():
        if isinstance(event.body, WaitingStarted):
            return event.body.reason
    raise AssertionError("it did not wait")


async def until_it_goes_on(run: warren.Run) -> None:
    async for event in run.events():
        if isinstance(event.body, WaitingEnded):
            return


async def test_a_gateway_that_is_not_there_is_started_as_told(tmp_path: Path) -> None:
    port = free_port()
    _, complaint = await do("warren runs ls", tmp_path, port)
    (told, *_) = re.findall(r"`(warren [^`]+)`", complaint)
    assert told == "warren up"
    async with running(*shlex.split(told)[1:], "--port", str(port), home=tmp_path) as process:
        following = await line_with(process, "warren train")
        assert following.split()[-3:] == ["warren", "train", "examples/guess.yaml"]
        said, complaint = await do("warren runs ls", tmp_path, port)
        assert complaint == ""
        (again,) = re.findall("(warren train .+)", said)
        assert (await do(f"{again} --dry-run", tmp_path, port))[1] == ""


async def test_a_base_model_that_is_missing_is_brought_as_told(tmp_path: Path) -> None:
    port = free_port()
    async with running("up", "--port", str(port), home=tmp_path) as process:
        await line_with(process, "warren train")
        key = (tmp_path / "api-key").read_text()
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            run = await client.train(on_model("warren/tiny-lora"))
            reason = await reason_of(run)
        assert reason.startswith("no trainer offers warren/tiny-lora (1 online with warren/tiny)")
        await stop(process, signal.SIGINT)
    (told,) = re.findall("again with: warren (.+)", reason)
    words = shlex.split(told)
    async with running(*words, home=None) as process:
        assert "warren/tiny" in await line_with(process, "✓ sampler")
        await line_with(process, "warren train")
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            offers = {w.role: set(w.offers) for w in await client.workers()}
            assert offers["sampler"] == offers["trainer"] == {"warren/tiny", "warren/tiny-lora"}
            await (await client.run(run.id)).result()


async def test_a_trainer_that_is_busy_is_freed_as_told(tmp_path: Path) -> None:
    port = free_port()
    async with running("up", "--port", str(port), home=tmp_path) as process:
        await line_with(process, "warren train")
        key = (tmp_path / "api-key").read_text()
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            endless = short_run().model_dump()
            endless["limits"] |= {"steps": 1_000_000, "stop_at_reward": None}
            first = await client.train(TrainConfig.model_validate(endless))
            second = await client.train(short_run())
            reason = await reason_of(second)
            assert f"busy: guess ({first.id}) has it; wait until it ends" in reason
            (told,) = re.findall("with: (warren .+)", reason)
            assert (await do(told, tmp_path, port))[1] == ""
            await until_it_goes_on(second)
            assert (await second.result()).episodes > 0
        await stop(process, signal.SIGINT)
