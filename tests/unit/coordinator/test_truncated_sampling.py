"""A run that samples with top-p: what its ops tell the trainer, and what is said of its masks."""

import random

import pytest
from tests.unit.coordinator.world import World, config

from warren_schemas.config import TrainConfig
from warren_schemas.events import WarningRaised
from warren_schemas.training import ForwardBackward


def sampled_with(**sampling: object) -> TrainConfig:
    settings = config(limits={"steps": 6}).model_dump(mode="json")
    return TrainConfig.model_validate(settings | {"sampling": sampling})


def played(run: TrainConfig, chaos: float = 0.0) -> World:
    world = World(run, random.Random(1))
    world.drive(chaos)
    return world


def told(world: World) -> list[str]:
    messages = [e.body.message for e in world.events if isinstance(e.body, WarningRaised)]
    return [message for message in messages if "most probable" in message]


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_masks_at_their_bound_are_told_of_once(chaos: float) -> None:
    [message] = told(played(sampled_with(top_p=0.9), chaos))
    assert message.startswith("50.0% of the tokens of this step were sampled from the 256 most")
    assert told(played(sampled_with(top_k=256, top_p=0.9))) == []
    assert told(played(sampled_with(temperature=0.7))) == []


def test_an_op_says_how_its_tokens_were_sampled() -> None:
    world = played(sampled_with(min_p=0.1, repetition_penalty=1.2, temperature=0.7))
    ops = [op.body for op in world.applied.values() if isinstance(op.body, ForwardBackward)]
    assert ops
    for op in ops:
        assert (op.temperature, op.repetition_penalty) == (0.7, 1.2)
        mask = op.batch.sampling_mask
        assert mask is not None
        assert mask.sizes_N.tolist() == [0, 1, 256] * op.batch.lengths_B.size
