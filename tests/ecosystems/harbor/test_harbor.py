"""Tasks of Harbor in boxes, on the real package: their agents, their verdicts, and what is none."""

import json
from pathlib import Path

import pytest
from tests.ecosystems.harbor.serving import CLASS, ended, episode, host, installed, shell, text
from tests.ecosystems.harbor.task_folders import DOCKERFILE, write_task
from tests.support.hosting import hosting
from tests.support.patience import PATIENCE_S

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed, Refused
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

__all__ = ["host", "installed"]
pytestmark = [
    pytest.mark.ecosystem_all,
    pytest.mark.server,
    pytest.mark.asyncio(loop_scope="module"),
]
ERROR, CONFIG = FailureKind.ENVIRONMENT_ERROR, FailureKind.ENVIRONMENT_CONFIG


@pytest.mark.shows("Harbor", "tasks", "tools", "several turns")
async def test_a_task_is_solved_in_its_box(host: Host, tmp_path: Path) -> None:
    player = episode(host, write_task(tmp_path))
    begun = await player.reset()
    assert isinstance(begun, Observed)
    assert begun.category == "sums"
    assert begun.messages[-1][1] == "Write the sum of numbers.txt into answer.txt."
    assert "Run a command in the task's container" in begun.messages[0][1]
    assert text(await player.step(shell("pwd; cat numbers.txt; echo $UNIT"))) == (
        "/app\n3\n4\napples\n"
    )
    assert text(await player.step(shell("sleep 1000 & echo 7 > answer.txt; exit 3"))) == (
        "\n[exit code 3]"
    )
    last = await player.step("Done.")
    assert isinstance(last, Observed)
    assert (last.is_over, last.reward) == (True, 1.0)
    assert last.metrics == {"reward": 1.0, "agent_error": 0.0}


async def test_what_is_not_solved_gets_no_reward(host: Host, tmp_path: Path) -> None:
    answer = await ended(episode(host, write_task(tmp_path)), "I don't know.")
    assert isinstance(answer, Observed)
    assert (answer.is_over, answer.reward) == (True, 0.0)


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ("exit 1", "RewardFileNotFoundError"),
        ("touch /logs/verifier/reward.txt", "RewardFileEmptyError"),
        ("echo well > /logs/verifier/reward.txt", "VerifierOutputParseError"),
        ("echo nan > /logs/verifier/reward.txt", "VerifierOutputParseError"),
        ('echo \'{"reward": "1"}\' > /logs/verifier/reward.json', "VerifierOutputParseError"),
        ("sleep 1000", "VerifierTimeoutError"),
    ],
)
async def test_a_verdict_that_is_not_valid_is_a_failure(
    host: Host, tmp_path: Path, tests: str, reason: str
) -> None:
    limit_s = 2.0 if "sleep" in tests else PATIENCE_S
    folder = write_task(tmp_path, tests=f"#!/bin/bash\n{tests}\n", verifier_s=limit_s)
    answer = await ended(episode(host, folder), "Done.")
    assert isinstance(answer, Refused), answer
    assert answer.kind is ERROR
    assert reason in answer.reason


async def test_several_rewards_are_parts_and_one_counts(host: Host, tmp_path: Path) -> None:
    given = '#!/bin/bash\necho \'{"tests": 0.5, "style": 1}\' > /logs/verifier/reward.json\n'
    folder = write_task(tmp_path, tests=given)
    counted = await ended(episode(host, folder, reward="tests"), "Done.")
    missing = await ended(episode(host, folder), "Done.")
    assert isinstance(counted, Observed)
    assert counted.reward == 0.5
    assert counted.metrics == {"tests": 0.5, "style": 1.0, "agent_error": 0.0}
    assert isinstance(missing, Refused)
    assert missing.kind is CONFIG
    assert "the tests gave tests, style, and none called reward" in missing.reason


async def test_a_reward_that_is_named_must_be_there(host: Host, tmp_path: Path) -> None:
    """Also where there is but one, which counts where none is named."""
    given = "#!/bin/bash\necho '{\"style\": 0.25}' > /logs/verifier/reward.json\n"
    folder = write_task(tmp_path, tests=given)
    only = await ended(episode(host, folder), "Done.")
    missing = await ended(episode(host, folder, reward="tests"), "Done.")
    assert isinstance(only, Observed)
    assert only.reward == 0.25
    assert isinstance(missing, Refused)
    assert missing.kind is CONFIG
    assert "reward: the tests gave style, and none called tests; name one" in missing.reason


async def test_an_agent_that_used_up_its_time_is_graded(host: Host, tmp_path: Path) -> None:
    """Of its commands: that of the model does not count."""
    folder = write_task(tmp_path, agent_s=3.0)
    answer = await ended(episode(host, folder), shell("echo 7 > answer.txt; sleep 1000"))
    assert isinstance(answer, Observed)
    assert answer.reward == 1.0
    assert answer.metrics["agent_error"] == 1.0


async def test_harbor_s_own_agent_solves_a_task(host: Host, tmp_path: Path) -> None:
    """`terminus-2` types into a terminal that lives in the box from call to call."""

    def typed(*keystrokes: str, is_complete: bool = False) -> str:
        commands = [{"keystrokes": f"{keys}\n", "duration": 0.1} for keys in keystrokes]
        told = {"analysis": "", "plan": "", "commands": commands, "task_complete": is_complete}
        return json.dumps(told)

    player = episode(host, write_task(tmp_path), agent="terminus-2")
    assert "Write the sum of numbers.txt" in text(await player.reset())
    shown = await player.step(typed("cd /app", "paste -sd+ numbers.txt"))
    assert "3+4" in text(shown)
    await player.step(typed("echo 7 > answer.txt"))
    assert "Are you sure" in text(await player.step(typed(is_complete=True)))
    last = await player.step(typed(is_complete=True))
    assert isinstance(last, Observed), last
    assert (last.is_over, last.reward) == (True, 1.0)


async def test_a_box_has_walls_and_limits(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the machine")
    folder = write_task(tmp_path / "tasks")
    box = {"memory_mib": 256, "processes": 40}
    eater = (
        "python3 -c 'x = bytearray(1 << 30); x[::4096] = b\"a\" * len(x[::4096]); print(len(x))'"
    )
    player = episode(host, folder, box=box, disk_mib=16)
    await player.reset()
    assert "No such file" in text(await player.step(shell(f"cat {tmp_path}/secret")))
    assert "Read-only" in text(await player.step(shell("touch /usr/x")))
    assert "interfaces 1" in text(await player.step(shell("ls /sys; " + _N_INTERFACES)))
    assert "[exit code 137]" in text(await player.step(shell(eater)))
    assert "No space left" in text(await player.step(shell("yes > big")))
    assert text(await player.step(shell("rm big; echo well"))) == "well\n"


async def test_a_command_that_takes_too_long_is_stopped(host: Host, tmp_path: Path) -> None:
    player = episode(host, write_task(tmp_path), command_s=0.5)
    await player.reset()
    assert text(await player.step(shell("sleep 1000"))) == "\n[stopped after 0.5 s]"


_N_INTERFACES = "python3 -c 'import socket; print(\"interfaces\", len(socket.if_nameindex()))'"


async def test_a_task_whose_box_cannot_be_built_fails_alone(host: Host, tmp_path: Path) -> None:
    broken = write_task(tmp_path / "a", dockerfile=f"{DOCKERFILE}RUN no-such-program\n")
    closed = write_task(tmp_path / "b", more='network_mode = "no-network"')
    composed = write_task(tmp_path / "c")
    (composed / "sum" / "environment" / "docker-compose.yaml").write_text("services: {}\n")
    for folder, config, reason in (
        (broken, {}, "RUN no-such-program"),
        (closed, {"box": {"network": "host"}}, "network_mode='no-network' is not supported"),
        (composed, {}, "it needs docker"),
    ):
        answer = await episode(host, folder, **config).reset()
        assert isinstance(answer, Refused), answer
        assert reason in answer.reason
    assert isinstance(await episode(host, closed).reset(), Observed)
    assert isinstance(await episode(host, broken, skip_run_lines=True).reset(), Observed)


async def test_what_is_not_there_is_refused(host: Host, tmp_path: Path) -> None:
    folder = write_task(tmp_path / "tasks")
    for config, reason in (
        ({"path": str(tmp_path / "none")}, "is no folder on this env worker"),
        ({"path": str(tmp_path)}, "has a task.toml"),
        ({"agent": "no-such-agent"}, "no-such-agent"),
        ({"agent": "no_such_module:Agent"}, "no_such_module"),
        ({"agent_config": {"x": 1}}, "agent_config"),
    ):
        answer = await episode(host, folder, **config).reset()
        assert isinstance(answer, Refused), answer
        assert answer.kind is CONFIG, answer
        assert reason in answer.reason


async def test_without_docker_its_containers_fail_by_name(host: Host, tmp_path: Path) -> None:
    answer = await episode(host, write_task(tmp_path), sandbox="docker").reset()
    assert isinstance(answer, Refused), answer
    assert answer.kind is ERROR


async def test_an_operator_says_where_tasks_lie_and_which_agents_there_are(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks" / "train")
    policy = OperatorPolicy(data_root=str(tmp_path))
    async with hosting(CLASS, policy=policy) as host:
        begun = await episode(host, Path("tasks/{split}")).reset()
        assert isinstance(begun, Observed), begun
        for folder, config, reason in (
            ("/etc", {}, "no such folder below"),
            ("tasks/train", {"agent": "one_word:OneWord"}, "is no agent"),
            ("tasks/train", {"agent": "claude-code"}, "allows shell, terminus-2"),
            ("tasks/train", {"sandbox": "docker"}, "docker is not allowed"),
        ):
            answer = await episode(host, Path(folder), **config).reset()
            assert isinstance(answer, Refused), answer
            assert reason in answer.reason
