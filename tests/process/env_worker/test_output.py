"""What an environment's process prints."""

import os
from pathlib import Path

import pytest
from tests.support.factories import make_run_logged
from tests.support.gateway_fixtures import broker
from tests.support.held_environments import SHORT_S
from tests.support.hosting import Player, hosting, observed, playing, refused
from tests.support.interacting import spec, start

from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.topology import run_log
from warren_env_worker.output.lines import MAX_LINE_BYTES
from warren_env_worker.output.log import log_path
from warren_env_worker.run_notices import RunNotices
from warren_schemas.codec.wire import encode
from warren_schemas.events import LogComponent, RunLogged
from warren_schemas.ids import GroupId, RunId, new_message_id

__all__ = ["broker"]


@pytest.mark.parametrize("class_name", ["Speaker", "SharedSpeaker"])
async def test_what_an_environment_prints_is_kept_apart(
    class_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with hosting(class_name, log_dir=tmp_path) as host:
        await observed((await playing(host)).step("a"))
    kept = log_path(tmp_path, f"tests.support.environments:{class_name}").read_text()
    tag = "[group_1 member 0, train 0] " if class_name == "Speaker" else ""
    worker = f" worker {os.getpid()} "
    words = [line.partition(worker)[2] for line in kept.splitlines()]
    assert words == [f"{tag}printed by Python", f"{tag}printed from below"]
    assert "printed" not in capfd.readouterr().err


async def test_a_shared_process_that_hangs_says_where(tmp_path: Path) -> None:
    async with hosting("Hurried", log_dir=tmp_path) as host:
        player = await playing(host, deed="hang")
        reason = (await refused(player.step("evil"))).reason
    assert "; it waits at " in reason
    assert "time.sleep" in reason


@pytest.mark.parametrize("class_name", ["Startled", "SharedStartled"])
async def test_the_limit_is_told_of_the_call_that_was_late_also_where_it_ends_as_it_is_asked(
    class_name: str, tmp_path: Path
) -> None:
    reference = f"tests.support.held_environments:{class_name}"
    async with hosting(reference, log_dir=tmp_path) as host:
        reason = (await refused((await playing(host)).step("a"))).reason
    assert reason.startswith(f"in step(), a call took longer than {SHORT_S:g} s;")
    assert "raise Limits.step_s of its class" in reason


async def test_the_last_words_of_a_process_are_kept(tmp_path: Path) -> None:
    async with hosting("LastWords", log_dir=tmp_path) as host:
        await refused((await playing(host)).step("a"))
    kept = log_path(tmp_path, "tests.support.environments:LastWords").read_text()
    assert kept.count("[group_1 member 0, train 0] goodbye\n") == 1


@pytest.mark.parametrize(
    ("class_name", "told"),
    [
        ("Speaker", ["printed by Python", "printed from below"]),
        ("SharedSpeaker", []),  # nobody can tell which episode of a shared process has printed
    ],
)
async def test_what_an_episode_prints_goes_to_the_log_of_its_run_and_no_other(
    class_name: str, told: list[str], tmp_path: Path, broker: Broker
) -> None:
    runs = RunId("run_1"), RunId("run_2")
    await broker.declare(*map(run_log, runs))
    async with sending_run_logs(broker, LogComponent.ENV_WORKER, "env_1"):
        notices = RunNotices()
        for number, run in enumerate(runs, start=1):
            notices.begins(start(run=run, of=spec(group=GroupId(f"group_{number}"))))
        async with hosting(class_name, log_dir=tmp_path, make_hearing=notices.hear) as host:
            await observed((await playing(host)).step("a"))
    ours, theirs = [await lines_of(broker, run) for run in runs]
    assert ours == ["plays episodes of letters", *(f"[member 0, train 0] {t}" for t in told)]
    assert theirs == ["plays episodes of letters"]


async def test_a_runs_own_secrets_are_cut_out_of_what_it_is_told(
    tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_SECRET_TOKEN", "hush-hush-1234")
    run = RunId("run_1")
    await broker.declare(run_log(run))
    async with sending_run_logs(broker, LogComponent.ENV_WORKER, "env_1"):
        notices = RunNotices()
        notices.begins(start(run=run))
        async with hosting("Blabber", log_dir=tmp_path, make_hearing=notices.hear) as host:
            player = Player(host, spec("Blabber", secrets=("TOKEN",)))
            await observed(player.reset())
            await refused(player.step("a"))
    told = await lines_of(broker, run)
    assert "[member 0, train 0] printed <TOKEN>" in told
    assert "hush-hush" not in "".join(told)


async def test_a_line_that_was_cut_cannot_be_continued_in_another_runs_log(broker: Broker) -> None:
    runs = RunId("run_1"), RunId("run_2")
    await broker.declare(*map(run_log, runs))
    async with sending_run_logs(broker, LogComponent.ENV_WORKER, "env_1"):
        notices = RunNotices()
        for number, run in enumerate(runs, start=1):
            notices.begins(start(run=run, of=spec(group=GroupId(f"group_{number}"))))
        hear, begun = notices.hear(), b"[group_1 member 0] "
        hear(begun + b"x" * (MAX_LINE_BYTES - len(begun)) + b"[group_2 member 0] for")
        hear(b"ged\n[group_2 member 1] own\n")
    ours, theirs = [await lines_of(broker, run) for run in runs]
    assert [line[:12] for line in ours[1:]] == ["[member 0] x"]
    assert theirs[1:] == ["[member 1] own"]


async def lines_of(broker: Broker, run: RunId) -> list[str]:
    """All that is in the run's log by now."""
    mark = make_run_logged(source="mark", lines=())
    await broker.publish(run_log(run), encode([mark]), message_id=new_message_id())
    lines: list[str] = []
    async with follow(broker, run_log(run), RunLogged, start="first") as inbox:
        async for claims in inbox:
            for claim in claims:
                if claim.item.source == "mark":
                    return lines
                lines += [line.text for line in claim.item.lines]
                claim.done()
    raise AssertionError("the log was deleted")
