"""What the client of a model asks for at the gateway that drives it comes from memory, where nothing else can stand before it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from sqlalchemy import Engine
from sqlmodel import Session, col, select
from tests.support.databases import memory_engine
from tests.support.factories import make_token_batch

from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator import decisions, records
from warren_gateway.coordinator.clients import looking
from warren_gateway.coordinator.clients.reading import MOST_BODIES
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.mailbox import MOST_REQUESTS, Mailbox
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.store.tables import OpRow
from warren_gateway.trainable.asking import Wanted, wanted
from warren_gateway.trainable.creating import insert_model
from warren_gateway.trainable.submitting import insert_request
from warren_gateway.usage.limits import DEFAULT_LIMITS
from warren_schemas.codec.wire import decode
from warren_schemas.config import PpoLoss
from warren_schemas.http.trainable import CreateModel, PublishAsked, SaveStateAsked
from warren_schemas.ids import RunId, WorkerId
from warren_schemas.training import ForwardBackward, Op, OpBody, OptimStep

T = TypeVar("T")
ME = Viewer("me")


@dataclass
class World:
    """A model that a trainer holds, and its coordinator."""

    engine: Engine = field(default_factory=memory_engine)
    run: RunId = field(init=False)
    model: str = field(init=False)
    state: CoordinatorState = field(init=False)
    n_reads: int = 0
    """How often the store was asked."""

    def __post_init__(self) -> None:
        with self.session() as session, session.begin():
            made = insert_model(session, ME, CreateModel(base_model="tiny"), DEFAULT_LIMITS)
            self.run, self.model = RunId(made.run.id), made.model.id
        self.load()

    def session(self) -> Session:
        return Session(self.engine, expire_on_commit=False)

    def load(self) -> None:
        """Another coordinator takes the run over."""
        with self.session() as session, session.begin():
            self.state = records.load(session, self.run, 1.0)
        self.state.lease.epoch += 1
        trainer_lease.grant(self.state, WorkerId("trainer_1"))
        trainer_lease.opened(self.state)
        self._decide()

    def ask(self, asked: Wanted, sequence: int | None) -> Arrived:
        with self.session() as session, session.begin():
            arrived = insert_request(session, ME, self.model, asked, None, sequence).arrived
        assert arrived is not None
        return arrived

    async def look(self, *new: Arrived | None, is_control_changed: bool = False) -> None:
        """None: of which the store knows."""
        mailbox = Mailbox()
        for one in new:
            mailbox.put_request(one)
        mail = await mailbox.take(0.0)
        mail.is_control_changed = is_control_changed
        await looking.look(self.state, self._transact, mail)
        self._decide()

    async def _transact(self, work: Callable[[Session], T]) -> T:
        self.n_reads += 1
        with self.session() as session, session.begin():
            return work(session)

    def _decide(self) -> None:
        decisions.decide(self.state, lambda _: ())
        if not (change := self.state.take_change()).is_empty:
            with self.session() as session, session.begin():
                records.save(session, self.state, change)

    def ops(self) -> list[OpBody]:
        """In the log."""
        with self.session() as session:
            rows = session.exec(select(OpRow).order_by(col(OpRow.number))).all()
            items = [item for row in rows for item in decode(row.body).items]
        return [op.body for op in items if isinstance(op, Op)]

    def rates(self) -> list[float]:
        """Of the steps in the log."""
        return [body.learning_rate for body in self.ops() if isinstance(body, OptimStep)]


@pytest.fixture
def world() -> World:
    return World()


def step(rate: float) -> Wanted:
    return Wanted(OptimStep(learning_rate=rate))


async def test_what_is_in_turn_needs_no_look_into_the_store(world: World) -> None:
    await world.look(world.ask(step(1.0), 1))
    await world.look(world.ask(step(2.0), 2), world.ask(step(3.0), 3))
    assert world.rates() == [1.0, 2.0, 3.0]
    assert world.n_reads == 0


async def test_the_log_has_what_the_store_would_have_told(world: World) -> None:
    """Or a trainer that takes over would apply another op."""
    asked = Wanted(ForwardBackward(loss=PpoLoss(), batch=make_token_batch(3, 5)))
    await world.look(world.ask(asked, 1))
    world.ask(asked, 2)
    await world.look(None)
    first, second = (body.model_dump_json() for body in world.ops())
    assert first == second
    assert world.n_reads == 1


@pytest.mark.parametrize(
    "asked", [wanted(PublishAsked()), wanted(SaveStateAsked(name="it"))], ids=["publish", "save"]
)
async def test_what_depends_on_what_is_kept_is_looked_at_with_it(
    world: World, asked: Wanted
) -> None:
    await world.look(world.ask(asked, 1))
    assert world.n_reads == 1


async def test_one_whose_number_is_not_next_is_looked_at_with_what_is_missing(world: World) -> None:
    lost, second = world.ask(step(1.0), 1), world.ask(step(2.0), 2)
    await world.look(second)
    assert world.rates() == [1.0, 2.0]
    await world.look(lost, second)
    assert world.rates() == [1.0, 2.0], "they come late, and twice"


async def test_one_without_a_number_is_looked_at(world: World) -> None:
    """Nothing says whether it is new."""
    one = world.ask(step(1.0), None)
    await world.look(one)
    await world.look(one)
    assert world.rates() == [1.0]
    assert world.n_reads == 2


async def test_more_than_the_log_has_room_for_waits_in_the_store(world: World) -> None:
    n = MOST_REQUESTS + 2 * MOST_BODIES
    asked = [world.ask(step(float(number)), number) for number in range(1, n + 1)]
    await world.look(*asked)
    assert sum(one.body is not None for one in world.state.client.arrived) <= MOST_BODIES
    assert world.rates() == [float(number) for number in range(1, MOST_BODIES + 1)]


@pytest.mark.parametrize("seed", range(12))
async def test_each_is_applied_once_whatever_is_lost_or_comes_twice(seed: int) -> None:
    world, rng, said = World(), random.Random(seed), list[Arrived]()
    for number in rng.sample(range(1, 25), 24):
        said.append(world.ask(step(float(number)), number))
        told = [one for one in said[-3:] if rng.random() < 0.6]
        await world.look(*told, is_control_changed=rng.random() < 0.1)
        if rng.random() < 0.1:
            world.load()
    await world.look(None)
    assert world.rates() == [float(number) for number in range(1, 25)]
