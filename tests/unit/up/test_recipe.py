"""The examples are valid, and the demo trains what its example says."""

from pathlib import Path

import pytest

from warren.configs import read_config
from warren_up.recipe import guess_config

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_the_demo_is_the_example() -> None:
    assert read_config(EXAMPLES / "guess.yaml") == guess_config()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    assert read_config(path).name == path.stem


def test_options_of_the_demo_reach_the_run() -> None:
    config = guess_config(seed=3, learning_rate=0.0, steps=5)
    assert (config.seed, config.optimizer.learning_rate, config.limits.steps) == (3, 0.0, 5)
    assert config.sft == guess_config().sft
