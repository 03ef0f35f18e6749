"""`warren up` and `warren demo` as users run them: one process, its children, and Ctrl-C."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.built_models import share_models
from tests.support.patience import PATIENCE_S, STOP_S, several_waits
from tests.support.processes import descendants, free_port, start_program, until_dead

import warren
from warren_schemas.config import TrainConfig
from warren_up.recipe import guess_config

pytestmark = several_waits


def short_run() -> TrainConfig:
    """The demo's run, cut down to seconds."""
    config = guess_config(steps=2).model_dump()
    config["sft"] |= {"steps": 2, "episodes_per_step": 8}
    config["evaluation"] |= {"episodes": 16}
    return TrainConfig.model_validate(config)


async def start(*arguments: str, home: Path | None) -> asyncio.subprocess.Process:
    """In this home, unless the arguments say so themselves."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
    where = () if home is None else ("--home", str(home))
    if home is not None:
        share_models(home)
    command = [sys.executable, "-m", "warren", *arguments, *where]
    return await start_program(*command, environment=environment)


async def told_by(*arguments: str, home: Path) -> str:
    """What a command says to a person whose gateway is that of this home."""
    port = (home / "port").read_text()
    url, key = f"http://127.0.0.1:{port}", (home / "api-key").read_text()
    mine = {"WARREN_URL": url, "WARREN_API_KEY": key, "WARREN_HOME": str(home)}
    process = await start_program(
        sys.executable, "-m", "warren", *arguments,
        environment=os.environ | mine, folder=home, stderr=None,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def line_with(process: asyncio.subprocess.Process, words: str) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while line := (await process.stdout.readline()).decode():
            if words in line:
                return line
    assert process.stderr is not None
    raise AssertionError((await process.stderr.read()).decode())


async def stop(process: asyncio.subprocess.Process, signum: signal.Signals) -> str:
    """Its remaining output; fails where it takes too long, complains, or leaves a child behind."""
    below = descendants(process.pid)
    assert below
    process.send_signal(signum)
    out, err = await asyncio.wait_for(process.communicate(), STOP_S)
    assert err == b""
    for pid in below:
        await until_dead(pid)
    return out.decode()


@asynccontextmanager
async def running(
    command: str, *arguments: str, home: Path | None
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Killed where a test leaves it behind."""
    process = await start(command, *arguments, home=home)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_up_serves_a_run_stops_on_ctrl_c_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "port").write_text(str(port))
    async with running("up", "--port", str(port), home=tmp_path) as process:
        told = await line_with(process, "warren train")
        assert f"WARREN_HOME={tmp_path} WARREN_URL=http://127.0.0.1:{port}" in told
        key = (tmp_path / "api-key").read_text()
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            run = await client.train(short_run())
            result = await run.result()
            assert result.updates <= 2
            assert result.reward_after is not None
            newest = (await run.checkpoints()).checkpoints[-1]
            assert newest.version == result.version and newest.size_bytes > 0
            told = await told_by("logs", run.id, home=tmp_path)
            for part in ("coordinator", "trainer", "sampler", "env_worker"):
                assert f"  {part} " in told
            told = await told_by("export", f"{run.id}@{newest.name}", "--to", "out", home=tmp_path)
            assert told == f"out: model, from {newest.url}\n"
            assert (tmp_path / "out" / "model.safetensors").exists()
            assert f"{run.id} is deleted" in await told_by("runs", "delete", run.id, home=tmp_path)
            with pytest.raises(warren.NotFound):
                await client.run(run.id)
            stopped = await client.train(short_run())
        assert "Stopped." in await stop(process, signal.SIGINT)
        assert process.returncode == 0
    async with running("up", "--port", str(port), home=tmp_path) as process:
        await line_with(process, "warren train")
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            result = await (await client.run(stopped.id)).result()
        assert result.reward_after is not None
        await stop(process, signal.SIGTERM)
        assert process.returncode == 0


async def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with running("up", "--port", str(port), home=tmp_path) as process:
            _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 2
    assert err.decode().startswith(f"error: Port {port} on 127.0.0.1 is in use")
    assert "Traceback" not in err.decode()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--base-model", "warren/tini"], "warren/tiny"),
        (["--env", "no_such_module:Chess"], "no_such_module"),
    ],
)
async def test_what_cannot_be_offered_is_told(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    port = str(free_port())
    async with running("up", "--port", port, *arguments, home=tmp_path) as process:
        _, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 2
    assert told in err.decode()
    assert "Traceback" not in err.decode()


@pytest.mark.storm
@pytest.mark.thorough
async def test_the_demos_last_line_is_json(tmp_path: Path) -> None:
    async with running("demo", "--steps", "2", home=tmp_path) as process:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, err) == (0, b"")
    lines = out.decode().splitlines()
    found = json.loads(lines[-1])
    assert found["updates"] <= 2
    assert found["episodes"] >= 1024
    assert found["cpu_s"] > 1.0
    assert any("tensorboard --logdir" in line for line in lines)


async def test_ctrl_c_stops_the_demo(tmp_path: Path) -> None:
    async with running("demo", home=tmp_path) as process:
        await line_with(process, "SFT step 1/150")
        await stop(process, signal.SIGINT)
    assert process.returncode == 130
