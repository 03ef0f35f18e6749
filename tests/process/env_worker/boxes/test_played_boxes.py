"""Programs in boxes, played as root and as nobody: what they can do, and what they can't."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.support.boxed_agents import (
    HELD,
    Boxed,
    Online,
    Unboxed,
    failed,
    listening,
    played,
)
from tests.support.patience import several_waits
from tests.support.unprivileged import run_as_nobody

from warren.agents.box.offering import require_boxes
from warren.environment import ConfigError
from warren_schemas.isolation.agent_box import Box

VARIABLE, OUTSIDE = "NOT_FOR_AGENTS", "outside.txt"
SPY = 'python3 -c "$SPIES"'

pytestmark = several_waits


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The worker's folder, which everybody may read, beside a file that nobody in a box may."""
    monkeypatch.setenv(VARIABLE, "x")
    with TemporaryDirectory(dir="/tmp") as found:
        Path(found).chmod(0o755)
        own = Path(found) / "own"
        own.mkdir()
        (own / "agent.txt").write_text("I am an agent")
        (Path(found) / OUTSIDE).write_text("I am not")
        monkeypatch.chdir(own)
        yield own


async def at_work() -> None:
    agent = Boxed("echo 0.5 > $WARREN_REWARD; cat agent.txt; echo to the log >&2")
    ended = await played(agent)
    assert (ended.reward, ended.done, agent.output) == (0.5, True, "I am an agent")
    assert (await played(Boxed("touch /tmp/x /dev/shm/x"))).reward is None


async def shut_in() -> None:
    outside = os.path.join(os.path.dirname(os.getcwd()), OUTSIDE)
    async with listening() as port:
        tried: dict[str, str | int] = {"file": outside, "port": port, "variable": VARIABLE}
        agent = Boxed(SPY, tried)
        await played(agent)
        assert agent.output.strip() == HELD
        free = Unboxed(SPY, tried)
        await played(free, max_box=Boxed.box)
        assert free.output.strip() == HELD
        online = Online(f"curl -s -w '%{{http_code}}' 127.0.0.1:{port}")
        await played(online)
        assert online.output.strip() == "204"


async def limited() -> None:
    assert await failed(Boxed('for n in 1 2 3; do python3 -c "$HOARDS" & done; wait')) == (
        "bash took more memory than the 96 MiB of its box (memory_mib), with all that it started"
    )
    assert "more memory" in await failed(Boxed("head -c 200M /dev/zero > /tmp/x; sleep 600"))
    hidden = "for n in 1 2 3 4 5; do head -c 30M /dev/zero > /dev/shm/$n; done; sleep 600"
    assert "more memory" in await failed(Boxed(hidden))
    empty = 'python3 -c \'n = 0\nwhile True: open(f"/tmp/{n}", "x").close(); n += 1\''
    assert "more memory" in await failed(Boxed(empty))
    assert await failed(Boxed("for n in {1..40}; do sleep 600 & done; wait")) == (
        "bash ran more than the 12 processes and threads of its box (processes)"
    )
    assert await failed(Boxed("kill -9 $$")) == "bash was killed by SIGKILL"
    assert await failed(Boxed("echo sorry; exit 3")) == "bash ended with exit code 3: sorry"


async def deceiving() -> None:
    """What it does to process 1, or puts in the place of its reward."""
    assert (await played(Boxed("kill -9 1; kill -STOP 1; echo 1 > $WARREN_REWARD"))).reward == 1.0
    assert (await played(Boxed("mkfifo $WARREN_REWARD"))).reward is None
    assert "no number" in await failed(Boxed("ln -s /etc/passwd $WARREN_REWARD"))


async def everything() -> None:
    await at_work()
    await shut_in()
    await limited()
    await deceiving()


async def test_a_program_in_a_box_reaches_its_endpoint_and_gives_a_reward() -> None:
    await at_work()


async def test_a_program_in_a_box_sees_nothing_else() -> None:
    await shut_in()


async def test_what_breaks_a_limit_is_told() -> None:
    await limited()


async def test_process_1_and_the_reward_are_not_to_be_deceived() -> None:
    await deceiving()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_boxes_without_rights() -> None:
    require_boxes(Box())  # what is imported late is imported now
    run_as_nobody(everything)


async def test_a_folder_with_warren_s_keys_is_not_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARREN_HOME", str(folder / ".warren"))
    with pytest.raises(ConfigError, match="holds Warren's keys; give the agent a folder"):
        await played(Boxed("true"))
    monkeypatch.chdir("/")
    with pytest.raises(ConfigError, match="/ holds Warren's keys"):
        await played(Boxed("true"))


async def test_a_program_that_there_is_not_says_so() -> None:
    class Missing(Boxed):
        command = ("no-such-program",)

    assert "no-such-program can't be started: No such file" in await failed(Missing(""))


async def test_a_path_that_is_not_there_says_so() -> None:
    class Blind(Boxed):
        box = Box(readable=("/no/such/path",))

    assert "can't be put into a box: bwrap: Can't find source path /no/such/path" in await failed(
        Blind("")
    )
