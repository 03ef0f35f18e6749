"""Programs in boxes on env workers: what a policy makes of them, and what they leave: nothing."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest
from tests.support.hosting import Player, child_pids, hosting, observed, refused
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S
from tests.support.processes import descendants, until_dead

from warren.errors import ConfigurationError
from warren_env_worker.host.host import Host
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.permissions.policy_file import policy_of
from warren_schemas.episode import FailureKind
from warren_schemas.isolation.agent_box import Box
from warren_schemas.operator_policy import TRUSTING, AgentRules, OperatorPolicy

AGENTS = "tests.support.boxed_agents"
MOST = Box(memory_mib=128, processes=16)
BOXING = OperatorPolicy(agents=AgentRules(box=MOST))


async def begun(host: Host) -> tuple[Player, list[int]]:
    """An episode whose program has asked, and all processes of its box."""
    player = Player(host, spec("lasting"))
    await observed(player.reset())
    boxes = [pid for child in child_pids() for pid in descendants(child)]
    assert len(boxes) >= 4, "bubblewrap, process 1, the program, what it left, and who asks"
    return player, boxes


async def test_a_program_s_end_leaves_nothing_of_its_box() -> None:
    async with hosting(f"{AGENTS}:Lasting") as host:
        player, pids = await begun(host)
        async with asyncio.timeout(PATIENCE_S):
            ended = await observed(player.step("?"))
            assert (ended.reward, ended.is_over) == (0.5, True)
            for pid in pids:
                await until_dead(pid)


async def test_a_closed_episode_leaves_nothing_of_its_box() -> None:
    async with hosting(f"{AGENTS}:Lasting") as host:
        player, pids = await begun(host)
        host.close(player.slot)
        for pid in pids:
            await until_dead(pid)


async def test_a_killed_worker_leaves_nothing_of_its_boxes() -> None:
    async with hosting(f"{AGENTS}:Lasting") as host:
        _, pids = await begun(host)
        for child in child_pids():
            os.kill(child, signal.SIGKILL)
        for pid in pids:
            await until_dead(pid)


@pytest.mark.parametrize("trusts_configs", [False, True])
async def test_a_policy_puts_every_program_into_a_box(
    trusts_configs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose class asks for none fails where it takes more than the policy's."""
    policy = BOXING.model_copy(update={"trusts_configs": trusts_configs})
    (tmp_path / "outside").write_text("")
    monkeypatch.setenv("OUTSIDE", "x")
    alone = f'[ ! -e {tmp_path}/outside -a -z "$OUTSIDE" ]'
    config = {"script": f"{alone} && echo 1 > $WARREN_REWARD"}
    async with hosting(f"{AGENTS}:Unboxed", policy=policy) as host:
        player = Player(host, spec("unboxed", environment_config=config))
        await observed(player.reset())
        assert (await observed(player.step("?"))).reward == 1.0
        large = {"script": "for n in {1..40}; do sleep 600 & done; wait"}
        player = Player(host, spec("unboxed", environment_config=large))
        await observed(player.reset())
        failure = await refused(player.step("?"))
    assert failure.kind is FailureKind.ENVIRONMENT_ERROR
    assert "bash ran more than the 16 processes and threads of its box" in failure.reason


async def test_a_class_that_asks_for_less_gets_that() -> None:
    async with hosting(f"{AGENTS}:Boxed", policy=BOXING) as host:
        large = {"script": "for n in {1..40}; do sleep 600 & done; wait"}
        player = Player(host, spec("boxed", environment_config=large))
        await observed(player.reset())
        assert "12 processes" in (await refused(player.step("?"))).reason


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Hungry", r"memory_mib 4096 \(at most 128\), processes 64 \(at most 16\)$"),
        ("Online", r"allows its agents: network host \(endpoint alone\)$"),
    ],
)
async def test_a_class_that_asks_for_more_than_a_policy_allows_is_not_hosted(
    name: str, told: str
) -> None:
    with pytest.raises(EnvironmentUnusable, match=told):
        async with hosting(f"{AGENTS}:{name}", policy=BOXING) as host:
            await host.start()


async def test_a_machine_without_bubblewrap_hosts_no_class_with_a_box(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentUnusable, match=r"bwrap is not installed \(Debian: bubblewrap\)"):
        async with hosting(f"{AGENTS}:Boxed") as host:
            await host.start()
    path = tmp_path / "policy.yaml"
    path.write_text(json.dumps({"trusts_configs": True, "agents": {"box": {}}}))
    with pytest.raises(ConfigurationError) as refused:
        policy_of(path, otherwise=TRUSTING)
    assert refused.value.details == ("agents.box: bwrap is not installed (Debian: bubblewrap)",)


async def test_a_machine_that_forbids_namespaces_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As a container does."""
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(
        EnvironmentUnusable, match=r"no box works here: bwrap: No permissions .*user namesp"
    ):
        async with hosting(f"{AGENTS}:Boxed") as host:
            await host.start()


async def test_a_class_whose_folder_holds_warren_s_keys_is_not_hosted() -> None:
    with pytest.raises(EnvironmentUnusable, match="a program sees its own folder, and / holds"):
        async with hosting(f"{AGENTS}:Keyholder") as host:
            await host.start()
