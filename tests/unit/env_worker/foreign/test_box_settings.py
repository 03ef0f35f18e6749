"""Settings of Harbor, Inspect and AndroidWorld that would have no effect are refused; boxes are no larger than allowed."""

from collections.abc import Mapping

import pytest

from warren.environment import ConfigError
from warren_env_worker.environments.android_world.environment import AndroidWorld
from warren_env_worker.environments.harbor.environment import Harbor
from warren_env_worker.environments.inspect_ai.environment import InspectAi
from warren_env_worker.foreign.box.bubblewrap import USUAL, USUAL_DISK_MIB
from warren_env_worker.permissions.permissions import TRUSTED, Permissions, acting
from warren_schemas.isolation.agent_box import Box

SMALL = Box(memory_mib=256, processes=64)
LIMITED = Permissions(is_trusted=True, agent_box=SMALL)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"sandbox": "docker", "box": USUAL}, "box"),
        ({"sandbox": "podman", "disk_mib": 64}, "disk_mib"),
        ({"sandbox": "docker", "skip_run_lines": True}, "skip_run_lines"),
        ({"agent": "terminus-2", "max_calls": 4}, "max_calls"),
        ({"agent": "terminus-2", "command_s": 4.0}, "command_s"),
        ({"agent": "terminus-2", "result_chars": 4}, "result_chars"),
    ],
)
def test_what_would_have_no_effect_in_harbor_is_refused(
    config: Mapping[str, object], key: str
) -> None:
    with acting(TRUSTED), pytest.raises(ConfigError, match=rf"{key}: .*leave it out"):
        Harbor("tasks", **config)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("sandbox", [None, "docker"])
def test_a_box_that_inspect_does_not_use_is_refused(sandbox: str | None) -> None:
    with acting(TRUSTED), pytest.raises(ConfigError, match=r"box, disk_mib: .*leave it out"):
        InspectAi("mine/task", sandbox=sandbox, box=USUAL, disk_mib=64)  # pyright: ignore[reportArgumentType]


def test_weights_of_no_score_would_make_every_reward_of_inspect_0() -> None:
    with acting(TRUSTED):
        assert InspectAi("mine/task", weights={"includes": 0.5}).weights == {"includes": 0.5}
        with pytest.raises(ConfigError, match=r"weights: name at least one score, or leave it out"):
            InspectAi("mine/task", weights={})


def test_combinations_of_android_world_need_a_seed() -> None:
    with acting(TRUSTED), pytest.raises(ConfigError, match="combinations: no effect without seed"):
        AndroidWorld(["http://phone.example.org"], combinations=2)


def test_without_a_size_a_box_is_as_large_as_usual_or_as_allowed() -> None:
    with acting(TRUSTED):
        assert Harbor("tasks").disk_mib == USUAL_DISK_MIB
    with acting(LIMITED):
        assert Harbor("tasks").disk_mib == SMALL.memory_mib
        assert InspectAi("mine/task").disk_mib == SMALL.memory_mib  # which has no box at all
        with pytest.raises(ConfigError, match="disk_mib: 512 is more than"):
            Harbor("tasks", disk_mib=512)
