"""The `warren` command as users run it: a process of its own against a real server."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.fake_gateway import (
    COMPLETED,
    COSTS,
    KEY,
    RUNNING,
    FakeGateway,
    evaluation,
    fake_gateway,
    step,
)
from tests.support.patience import PATIENCE_S
from tests.support.processes import start_program

from warren_schemas.check import RunCheck
from warren_schemas.events import RunOutcome, RunState, StateChanged
from warren_schemas.http import Problem, QueueView, RunResult

CONFIG_TEXT = "name: guess\nmodel: {base: warren/tiny}\nenvironments: [{name: guess}]\n"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Cli:
    """`warren` in a process of its own, with a clean environment."""

    gateway: FakeGateway
    folder: Path
    key: str = KEY

    async def start(
        self, *arguments: str, stdout: int = asyncio.subprocess.PIPE
    ) -> asyncio.subprocess.Process:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
        mine = {
            "WARREN_URL": self.gateway.url,
            "WARREN_API_KEY": self.key,
            "WARREN_HOME": str(self.folder),
        }
        command = [sys.executable, "-m", "warren", *arguments]
        return await start_program(
            *command, environment=environment | mine, folder=self.folder, stdout=stdout
        )

    async def __call__(self, *arguments: str) -> Ended:
        return await ended(await self.start(*arguments))


async def ended(process: asyncio.subprocess.Process) -> Ended:
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    text = err.decode()
    assert "Traceback" not in text
    return Ended(process.returncode, out.decode(), text)


async def line_with(process: asyncio.subprocess.Process, words: str) -> str:
    """The next line of its output that holds these words."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        while line := (await process.stdout.readline()).decode():
            if words in line:
                return line
    raise AssertionError(f"it ended without {words!r}")


@pytest.fixture
async def gateway() -> AsyncGenerator[FakeGateway]:
    async with fake_gateway() as server:
        yield server


@pytest.fixture
def cli(gateway: FakeGateway, tmp_path: Path) -> Cli:
    (tmp_path / "guess.yaml").write_text(CONFIG_TEXT)
    return Cli(gateway, tmp_path)


async def test_train_follows_a_run_to_its_end(cli: Cli, gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, evaluation(0.3), step(1), step(3), COMPLETED)
    gateway.result = RunResult(reward_before=0.3, reward_after=0.9)
    done = await cli("train", "guess.yaml", "--set", "seed=5")
    assert done.code == 0
    assert "evaluation before: reward 0.300" in done.out
    assert "reward after    0.900" in done.out
    configs = [run.view.config for run in gateway.runs.values()]
    assert [config.seed for config in configs if config] == [5]


async def test_a_failed_run_is_exit_code_1(cli: Cli, gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, StateChanged(state=RunState.FAILED, reason="no groups"))
    done = await cli("train", "guess.yaml")
    assert done.code == 1
    assert "no groups" in done.out


async def test_a_run_that_learned_nothing_is_exit_code_4(cli: Cli, gateway: FakeGateway) -> None:
    nothing = StateChanged(
        state=RunState.COMPLETED,
        outcome=RunOutcome.NOTHING_LEARNED,
        reason="all rewards were 0.000",
    )
    gateway.script = (RUNNING, step(3), nothing)
    gateway.result = RunResult(outcome=nothing.outcome, remark=nothing.reason)
    done = await cli("train", "guess.yaml")
    assert done.code == 4
    assert "ended without learning anything" in done.out
    assert "all rewards were 0.000" in done.out


async def test_json_for_programs(cli: Cli, gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, step(1), COMPLETED)
    done = await cli("train", "guess.yaml", "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line.get("kind") for line in lines[:-1]] == [
        "state_changed", "step_completed", "state_changed",
    ]  # fmt: skip
    assert lines[-1]["state"] == "completed"
    assert done.err == ""


async def test_ctrl_c_lets_go_and_says_how_to_come_back(cli: Cli, gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, step(1))
    process = await cli.start("train", "guess.yaml")
    await line_with(process, "step 1/3")
    process.send_signal(signal.SIGINT)
    done = await ended(process)
    (run,) = gateway.runs
    assert done.code == 130
    assert f"warren runs show {run} --follow" in done.out
    assert gateway.runs[run].view.state is RunState.RUNNING

    coming_back = await cli.start("runs", "show", run, "--follow")
    await line_with(coming_back, "step 1/3")
    await gateway.emit(run, step(3), COMPLETED)
    assert (await ended(coming_back)).code == 0


async def test_keeps_trying_when_the_gateway_goes_away(tmp_path: Path) -> None:
    gateway = FakeGateway(script=(RUNNING, step(1)))
    (tmp_path / "guess.yaml").write_text(CONFIG_TEXT)
    async with fake_gateway(gateway):
        process = await Cli(gateway, tmp_path).start("train", "guess.yaml")
        await line_with(process, "step 1/3")
    assert gateway.url in await line_with(process, "trying again")
    async with fake_gateway(gateway):
        await line_with(process, "is back")
        (run,) = gateway.runs
        await gateway.emit(run, step(3), COMPLETED)
        assert (await ended(process)).code == 0


async def test_detach_prints_the_id_alone(cli: Cli, gateway: FakeGateway) -> None:
    done = await cli("train", "guess.yaml", "--detach")
    assert done.code == 0
    assert done.out.split() == list(gateway.runs)


async def test_dry_run_submits_nothing(cli: Cli, gateway: FakeGateway) -> None:
    done = await cli("train", "guess.yaml", "--dry-run", "--set", "limits.steps=7")
    assert done.code == 0
    assert "steps: 7" in done.out
    assert "# " in done.out and "1,234 episodes" in done.out and "3 MB each (6 MB)" in done.out
    assert "you have no completed run like it" in done.out
    assert not gateway.runs


async def test_dry_run_tells_what_would_not_run(cli: Cli, gateway: FakeGateway) -> None:
    gateway.check = RunCheck(mistakes=("model.base: no such",), notes=(), estimate=COSTS)
    done = await cli("train", "guess.yaml", "--dry-run")
    assert done.code == 2
    assert "model.base: no such" in done.err


async def test_dry_run_without_a_gateway_checks_what_it_can(cli: Cli, gateway: FakeGateway) -> None:
    done = await cli("train", "guess.yaml", "--dry-run", "--url", "http://127.0.0.1:9")
    assert done.code == 0
    assert "# Checked here only: No gateway answers at http://127.0.0.1:9" in done.out


async def test_runs_ls_show_cancel(cli: Cli, gateway: FakeGateway) -> None:
    run = gateway.add_run(RUNNING, step(2))
    assert run in (await cli("runs", "ls")).out
    assert json.loads((await cli("runs", "ls", "--json")).out)["runs"][0]["id"] == run
    assert "2/3" in (await cli("runs", "show", "last")).out
    assert json.loads((await cli("runs", "show", run[-8:], "--json")).out)["id"] == run
    assert "is being cancelled" in (await cli("runs", "cancel", "guess")).out
    assert "ended already" in (await cli("runs", "cancel", run)).out
    assert gateway.runs[run].view.state is RunState.CANCELLED


async def test_a_name_that_fits_several_runs(cli: Cli, gateway: FakeGateway) -> None:
    runs = [gateway.add_run(), gateway.add_run(RUNNING), gateway.add_run()]
    done = await cli("runs", "show", "guess", "--json")
    newest = json.loads(done.out)["id"]
    assert f"'guess' fits 3 runs; took {newest}" in done.err
    done = await cli("runs", "delete", "guess")
    assert done.code == 2
    assert all(run in done.err for run in runs)


async def test_workers_and_queues(cli: Cli, gateway: FakeGateway) -> None:
    gateway.queues = (QueueView(name="interact.guess", n_ready=1234),)
    assert "1,234" in (await cli("queues")).out
    assert "warren up" in (await cli("workers")).out


async def test_doctor_finds_a_healthy_gateway_without_workers(cli: Cli) -> None:
    done = await cli("doctor")
    assert done.code == 0
    assert "accepted" in done.out
    assert "none online" in done.out


async def test_doctor_as_json_with_a_broker_that_is_away(cli: Cli) -> None:
    done = await cli("doctor", "--json", "--broker", "amqp://user:secret@127.0.0.1:9")
    assert done.code == 1
    assert "secret" not in done.out
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert checks["broker"]["level"] == "bad"
    assert checks["gateway"]["level"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["train", "gues.yaml"], 2, "guess.yaml"),
        (["train", "guess.yaml", "--set", "algorithm.group_sise=4"], 2, "group_size"),
        (["train", "guess.yaml", "--set", "seed=many"], 2, "seed"),
        (["train"], 2, "CONFIG"),
        (["train", "guess.yaml", "--sett", "a=b"], 2, "--set"),
        (["trian"], 2, "warren train"),
        (["runs", "show", "run_019aa3b7a1c04e5d90ab17ce21d3"], 2, "warren runs ls"),
        (["runs", "show", "nonsense"], 2, "warren runs ls"),
        (["workers", "--url", "http://127.0.0.1:9"], 3, "http://127.0.0.1:9"),
        (["workers", "--url", "nonsense"], 2, "WARREN_URL"),
        (["workers", "--api-key", "wrong"], 3, "WARREN_API_KEY"),
    ],
)
async def test_mistakes_say_what_to_do(
    cli: Cli, arguments: list[str], code: int, told: str
) -> None:
    done = await cli(*arguments)
    assert (done.code, done.out) == (code, "")
    assert told in done.err


async def test_a_yaml_mistake_names_its_line(cli: Cli) -> None:
    (cli.folder / "guess.yaml").write_text("name: guess\nmodel: {base: [1\n")
    done = await cli("train", "guess.yaml")
    assert done.code == 2
    assert "line" in done.err


async def test_the_gateways_own_refusal_reaches_the_user(cli: Cli, gateway: FakeGateway) -> None:
    refusal = Problem(
        code="invalid_config",
        message="The config can't be run.",
        details=("environments.0: no worker hosts guess",),
        hint="Start one with `warren env-worker`.",
    )
    gateway.problems = [(422, refusal)]
    done = await cli("train", "guess.yaml")
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: The config can't be run.",
        "  environments.0: no worker hosts guess",
        "Start one with `warren env-worker`.",
    ]


async def test_a_reader_that_leaves_early_is_no_error(cli: Cli, gateway: FakeGateway) -> None:
    gateway.script = (RUNNING, *(step(1 + i % 3) for i in range(300)))
    reading, writing = os.pipe()
    process = await cli.start("train", "guess.yaml", "--json", stdout=writing)
    os.close(writing)
    await asyncio.to_thread(os.read, reading, 1)
    os.close(reading)
    (run,) = gateway.runs
    await gateway.emit(run, step(1))  # it may have written all others before
    assert process.stderr is not None
    err = await asyncio.wait_for(process.stderr.read(), PATIENCE_S)
    assert (await process.wait(), err) == (0, b"")
