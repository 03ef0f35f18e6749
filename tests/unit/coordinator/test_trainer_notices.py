"""What a trainer says of how it did an op reaches the run's events."""

import random

from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.learning import steps
from warren_schemas.envelope import Envelope
from warren_schemas.events import WarningRaised
from warren_schemas.training import OpDone, OpResult

NOTICE = "the trainer had no memory for passes of 16384 tokens and goes on with 8192"


def test_a_notice_is_told_and_an_answer_without_one_is_not() -> None:
    world = World(config(), random.Random(0))
    for number, notice in enumerate((None, NOTICE), 1):
        outcome = OpDone(version=0, notice=notice)
        answer = OpResult(
            envelope=Envelope(), model=world.state.model, epoch=1, number=number, outcome=outcome
        )
        steps.note_answer(world.state, answer)
    posted = [item for items in world.state.change.posts.values() for item in items]
    bodies = [getattr(item, "body", None) for item in posted]
    assert [body.message for body in bodies if isinstance(body, WarningRaised)] == [NOTICE]
