"""What a run uses is counted once, whatever comes twice and whoever is replaced."""

import random
from dataclasses import dataclass, field

import pytest
from sqlmodel import Session, select
from tests.unit.coordinator.world import Trainer, World, config

from warren_gateway.store.tables import UsageRow
from warren_schemas.training import ForwardBackward, Op, OpDone

OP_S = 2.0
EPISODE_S = 0.5
N_TOKENS = 7


@dataclass
class MeteredWorld(World):
    """Each application of an op takes a while, and so does each episode."""

    n_applied: int = 0
    n_tokens: dict[int, int] = field(default_factory=dict[int, int])
    """By number of the op."""

    def _apply(self, trainer: Trainer, op: Op) -> OpDone:
        done = super()._apply(trainer, op)
        n_tokens = N_TOKENS if isinstance(op.body, ForwardBackward) else 0
        self.n_applied += 1
        self.n_tokens[op.number] = n_tokens
        more = {"tokens:sum": float(n_tokens)} if n_tokens else {}
        return done.model_copy(update={"gpu_s": OP_S, "metrics": done.metrics | more})

    def finish_episode(self) -> None:
        n = len(self.stream)
        super().finish_episode()
        for place in range(n, len(self.stream)):
            item = self.stream[place]
            times = item.transcript.times.plus(sampling_gpu_s=EPISODE_S)
            transcript = item.transcript.model_copy(update={"times": times})
            self.stream[place] = item.model_copy(update={"transcript": transcript})

    @property
    def usage(self) -> UsageRow:
        with Session(self.engine) as session:
            return session.exec(select(UsageRow)).one()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_failover_and_no_twin_counts_twice(seed: int) -> None:
    world = MeteredWorld(config(), random.Random(seed))
    state = world.drive(chaos=0.1)
    usage = world.usage
    assert usage.training_gpu_s == OP_S * state.learning.ops.counted
    assert usage.n_tokens_trained == sum(
        n for number, n in world.n_tokens.items() if number <= state.learning.ops.counted
    )
    assert world.n_applied * OP_S >= usage.training_gpu_s
    assert usage.sampling_gpu_s == EPISODE_S * usage.n_episodes
    assert usage.n_episodes == state.rollouts.n_episodes
