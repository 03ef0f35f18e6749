"""Which checkpoints stay. (That the one in use always does, `test_whole_runs` shows.)"""

import pytest

from warren_gateway.coordinator.learning.checkpointing import kept
from warren_gateway.coordinator.state.learning import CheckpointMark
from warren_schemas.config import CheckpointConfig
from warren_schemas.errors import ConfigurationError


def marks(rewards: list[float | None]) -> list[CheckpointMark]:
    """At every tenth step."""
    return [
        CheckpointMark(
            name=f"step-{10 * n:06d}",
            op=n,
            version=10 * n,
            step=10 * n,
            reward=reward,
        )
        for n, reward in enumerate(rewards, 1)
    ]


def versions(names: set[str]) -> list[int]:
    return sorted(int(name.removeprefix("step-")) for name in names)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, [60]),
        ({"keep_last": 3}, [50, 60]),
        ({"keep_every": 20}, [20, 40, 60]),
        ({"keep_best": 1}, [30, 60]),
        ({"keep_best": 2}, [10, 30, 60]),
        ({"keep_best": 9}, [10, 20, 30, 50, 60]),
    ],
)
def test_the_newest_the_round_and_the_best_stay(
    policy: dict[str, int], expected: list[int]
) -> None:
    older = marks([0.5, 0.2, 0.9, None, 0.1, 0.3])
    config = CheckpointConfig(every_steps=10, **policy)
    assert versions(kept(older, config)) == expected


def test_a_rhythm_that_never_meets_a_checkpoint_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="25 is none of 10"):
        CheckpointConfig(every_steps=10, keep_every=25)
