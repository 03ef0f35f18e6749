"""The boxes of agents that are programs, held to the operator's."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.interacting import spec
from tests.trust.permitted import permissions

from warren.agents.box.offering import granted
from warren.environment import ConfigError
from warren_env_worker.host.protocol import Call, pack, unpack
from warren_env_worker.host.request import start_of
from warren_env_worker.permissions.granting import granted as permissions_of
from warren_schemas.isolation.agent_box import Box
from warren_schemas.operator_policy import OperatorPolicy

MOST = Box(memory_mib=512, processes=16, readable=("/opt/tools",))


def test_a_policy_s_box_is_that_of_a_class_without_one_and_bounds_the_others() -> None:
    assert granted(None, MOST) == MOST
    less = Box(memory_mib=64, processes=8, readable=("/opt/tools/bin",))
    assert granted(less, MOST) == less
    assert granted(MOST, MOST) == MOST


def test_without_a_policy_the_class_decides() -> None:
    assert granted(None, None) is None
    large = Box(memory_mib=1 << 20, network="host")
    assert granted(large, None) == large


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"memory_mib": 513}, r"memory_mib 513 \(at most 512\)"),
        ({"processes": 17}, r"processes 17 \(at most 16\)"),
        ({"network": "host"}, r"network host \(endpoint alone\)"),
        ({"readable": ("/opt",)}, r"readable /opt \(not listed\)"),
        ({"readable": ("/opt/tools2",)}, r"readable /opt/tools2 \(not listed\)"),
    ],
)
def test_more_than_the_policy_s_is_refused(more: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=f"operator allows its agents: {told}$"):
        granted(MOST.model_copy(update=more), MOST)
    assert granted(MOST.model_copy(update=more), MOST.model_copy(update=more))


@pytest.mark.parametrize("trusts", [{}, {"trusts_configs": True}])
def test_the_box_travels_to_the_process_of_the_episode(trusts: dict[str, Any]) -> None:
    fields: dict[str, Any] = {**trusts, "agents": {"box": MOST.model_dump()}}
    assert permissions(**fields).agent_box == MOST
    of = spec("agent")
    start = start_of(of, permissions_of(OperatorPolicy.model_validate(fields), of))
    (call,) = unpack(pack([Call(1, 1, start)]))
    assert call.start is not None
    assert call.start.permissions.agent_box == MOST
    assert replace(call.start.permissions, agent_box=None) == replace(
        start.permissions, agent_box=None
    )
    assert permissions(**trusts).agent_box is None
