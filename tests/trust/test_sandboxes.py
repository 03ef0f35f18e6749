"""What a config's sandboxes may use of the machine: bounds, the operator's limits, one allowance for all."""

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.trust.permitted import permissions, policy

from warren.environment import ConfigError
from warren.host_services.cells import CellResult, CellStatus
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren_env_worker.environments.math_python import MathPython
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.refusal import Refusal
from warren_env_worker.permissions.permissions import TRUSTED, Permissions, acting
from warren_env_worker.sandbox.allowance import MAX_STARTS
from warren_env_worker.sandbox.opening import MAKERS, Sandboxes
from warren_schemas.episode import FailureKind
from warren_schemas.isolation.kubernetes import Kubernetes
from warren_schemas.operator_policy import MaxSandboxLimits


def limited(permissions: Permissions, **limits: Any) -> SandboxLimits:
    """The limits that hold where a config asks for these."""
    return Sandboxes(
        SandboxSettings.model_validate({"limits": limits}), permissions
    ).settings.limits


@pytest.mark.parametrize("value", [2**62, 1e300, float("inf"), float("nan"), 0, -1])
@pytest.mark.parametrize("name", SandboxLimits.model_fields)
def test_limits_that_no_machine_has_are_a_mistake_in_the_config(name: str, value: float) -> None:
    with pytest.raises(Refusal, match=f"sandbox.limits.{name}") as refused:
        ConfigSchema(MathPython).check({"path": "x", "sandbox": {"limits": {name: value}}})
    assert refused.value.kind is FailureKind.ENVIRONMENT_CONFIG
    with pytest.raises(ValidationError):
        policy(sandbox={"limits": {name: value}})


@pytest.mark.parametrize("name", SandboxLimits.model_fields)
def test_a_config_asks_for_no_more_than_the_operator_allows(name: str) -> None:
    most = MaxSandboxLimits().model_dump()[name]
    assert limited(permissions(), **{name: most}).model_dump()[name] == most
    with pytest.raises(ConfigError, match=f"operator allows: {name} {most + 1:g}"):
        limited(permissions(), **{name: most + 1})
    raised = permissions(sandbox={"limits": {name: most + 1}})
    assert limited(raised, **{name: most + 1}).model_dump()[name] == most + 1
    assert limited(TRUSTED, **{name: most + 1}).model_dump()[name] == most + 1


def test_a_config_that_sets_none_gets_less_where_the_operator_allows_less() -> None:
    small = permissions(sandbox={"limits": {"memory_mib": 64}})
    assert limited(small) == SandboxLimits(memory_mib=64)
    with acting(small):
        assert MathPython("x").settings.limits == SandboxLimits(memory_mib=64)
        with pytest.raises(ConfigError, match="memory_mib 512"):
            MathPython("x", sandbox=SandboxSettings(limits=SandboxLimits(memory_mib=512)))


def test_the_limits_travel_to_the_child_and_without_any_the_defaults_are_the_most() -> None:
    sent = permissions(sandbox={"limits": {"files": 20_000}})
    assert Permissions.unpacked(json.loads(json.dumps(asdict(sent)))) == sent
    assert limited(Permissions()) == SandboxLimits()
    with pytest.raises(ConfigError):
        limited(Permissions(), memory_mib=513)


class Counted:
    """A sandbox that counts how many start, and run, at the same time."""

    tier = "monty"
    keeps_state = False
    is_alive = True
    now = 0
    most = 0

    def __init__(self, settings: SandboxSettings) -> None:
        pass

    async def start(self) -> None:
        await self._count()

    async def run(self, code: str, limit_s: float) -> CellResult:
        await self._count()
        return CellResult(CellStatus.OK, "")

    async def close(self) -> None:
        pass

    async def _count(self) -> None:
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)
        for _ in range(10):
            await asyncio.sleep(0)
        Counted.now -= 1


async def test_settings_that_differ_share_one_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    makers = {**MAKERS, "monty": Counted}
    kinds = [
        Sandboxes(
            SandboxSettings(tier="monty", limits=SandboxLimits(cell_s=1 + n / 100)), TRUSTED, makers
        )
        for n in range(4 * MAX_STARTS)
    ]
    Counted.now = Counted.most = 0
    opened = await asyncio.gather(*(kind.open() for kind in kinds))
    assert Counted.most == MAX_STARTS
    Counted.most = 0
    await asyncio.gather(
        *(kind.run(sandbox, "") for kind, sandbox in zip(kinds, opened, strict=True))
    )
    assert Counted.most == 3


async def test_pods_that_wait_for_a_node_keep_nobody_from_starting_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nexec sleep 1000\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    in_cluster = SandboxSettings(tier="kubernetes", image="python:3.12")
    cluster = Permissions(is_trusted=True, kubernetes=Kubernetes(namespace="boxes"))
    waiting = [
        asyncio.create_task(Sandboxes(in_cluster, cluster).open()) for _ in range(MAX_STARTS + 1)
    ]
    await asyncio.sleep(0)  # each has what it needs to start
    here = Sandboxes(SandboxSettings(tier="monty"), TRUSTED, {**MAKERS, "monty": Counted})
    await here.open()
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


def test_the_page_says_what_the_limits_are() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trust.md").read_text()
    most = MaxSandboxLimits().model_dump()
    for name, default in SandboxLimits().model_dump().items():
        row = f"| `{name}` | {default:,.0f} | {most[name]:,.0f} |"
        assert row in page
