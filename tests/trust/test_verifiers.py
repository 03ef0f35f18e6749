"""A taskset is code that a config names: the operator lists it, and what it gets holds nothing that names other code."""

from typing import Any

import pytest
from tests.trust.permitted import permissions

from warren.environment import ConfigError
from warren_env_worker.environments.verifiers.environment import Verifiers, VerifiersV0
from warren_env_worker.permissions.permissions import TRUSTED, acting


@pytest.mark.parametrize(
    ("taskset", "arguments", "told"),
    [
        ("os", {}, "is none that this env worker's operator allows"),
        ("mine.inner", {}, "expected the id of an installed one"),
        ("mine", {"judges": [{"id": "any"}]}, "numbers and texts alone"),
        ("mine", {"task": {"rewards": {"x": {"fn": "os:system"}}}}, "numbers and texts alone"),
        ("mine", {"system_prompt": "/etc/passwd"}, "the path of a file"),
        ("mine", {"id": "harbor"}, "named by `taskset` alone"),
    ],
)
def test_what_would_reach_further_is_refused(
    taskset: str, arguments: dict[str, Any], told: str
) -> None:
    with acting(permissions(functions=["mine:*"])):
        assert Verifiers("mine", {"level": 3}).taskset == "mine"
        for config in ({"arguments": arguments}, {"split_arguments": {"test": arguments}}):
            with pytest.raises(ConfigError, match=told):
                Verifiers(taskset, **config)  # pyright: ignore[reportArgumentType]


def test_v0_takes_any_argument_and_a_trusted_worker_a_prompt_of_its_own() -> None:
    prompt: dict[str, Any] = {"system_prompt": "guess"}
    with acting(permissions(functions=["mine:*"])):
        assert VerifiersV0("mine", prompt | {"id": 3}).arguments.of("train") == {
            "system_prompt": "guess",
            "id": 3,
        }
    with acting(TRUSTED):
        assert Verifiers("mine", prompt).arguments.of("train") == prompt
        with pytest.raises(ConfigError, match="named by `taskset` alone"):
            Verifiers("mine", {"id": "harbor"})
