"""Which policies of a client's model stay for the samplers that were opened, and to which of them samplers move on."""

from dataclasses import dataclass

import pytest
from sqlmodel import Session
from tests.unit.coordinator.test_clients import World, optim_step

from warren_gateway.coordinator.clients.sampled_versions import (
    MOST_SAMPLED,
    SILENT_S,
    sampled_versions,
)
from warren_gateway.coordinator.state.client import UNDELIVERED_S, Asked
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.tables import Model, Run, SnapshotRow, TinkerSampler, TinkerSession
from warren_gateway.trainable.asking import Wanted
from warren_schemas.training import KEEP_POLICIES, PublishPolicy

SESSION = "session_1"


@dataclass
class Clients(World):
    """A model with a session of Tinker's protocol."""

    def __post_init__(self) -> None:
        super().__post_init__()
        with Session(self.engine) as session, session.begin():
            now_s = store_time_s(session)
            row = TinkerSession(id=SESSION, owner="me", created_s=now_s, seen_s=now_s)
            session.add(row)

    def save(self, n: int = 1, *, is_live: bool = False, name: str | None = None) -> None:
        """New weights for samplers, so many times; a `snapshot` is for one that is opened then."""
        for _ in range(n):
            self.ask(optim_step())
            asked = Asked(name=name, opens_sampler=name is None and not is_live)
            self.ask(Wanted(PublishPolicy(is_live=is_live), asked))
            self.turn()
            self.answer()

    def take_over(self) -> None:
        """Another coordinator, and another trainer, which applies all of the log again."""
        self.version = 0
        self.load()
        self.answer()

    def kept(self) -> tuple[int, ...]:
        """What the newest op asks trainers to keep, beside the newest."""
        bodies = [body for _, body in self.log()]
        return [body for body in bodies if isinstance(body, PublishPolicy)][-1].keep

    def open(self, version: int, used_s: float = 0.0) -> None:
        with Session(self.engine) as session, session.begin():
            row = TinkerSampler(
                id=f"{SESSION}:sample:{version}",
                session_id=SESSION,
                base_model="tiny",
                policy={},
                model_id=self.model,
                version=version,
                created_s=0.0,
                used_s=used_s,
            )
            session.add(row)

    def sampled(self) -> frozenset[int]:
        with Session(self.engine) as session:
            return sampled_versions(session, self.model)

    def live(self) -> tuple[int | None, str | None]:
        with Session(self.engine) as session:
            model = session.get_one(Model, self.model)
            return model.live_version, model.live_url


@pytest.fixture
def world() -> Clients:
    return Clients()


def test_a_version_stays_until_its_sampler_can_be_opened_no_more(world: Clients) -> None:
    """Also where another coordinator has taken the model over meanwhile."""
    world.save()
    world.take_over()
    world.save(KEEP_POLICIES + 1)
    assert 1 in world.kept()
    with Session(world.engine) as session, session.begin():
        session.get_one(Run, world.run).client_until_s = None  # as if its client were there
    world.turn(after_s=UNDELIVERED_S + 1.0)
    world.save()
    assert 1 not in world.kept()


def test_a_version_stays_for_its_sampler_until_the_session_ends(world: Clients) -> None:
    world.save()
    world.open(1)
    world.save()
    assert world.state.client.unopened.keys() == {2}
    world.take_over()
    world.save(KEEP_POLICIES + 1)
    assert 1 in world.kept()
    with Session(world.engine) as session, session.begin():
        session.get_one(TinkerSession, SESSION).finished_s = 1.0
    world.save()
    assert 1 not in world.kept()


def test_a_silent_session_holds_nothing(world: Clients) -> None:
    world.open(1)
    assert world.sampled() == {1}
    with Session(world.engine) as session, session.begin():
        session.get_one(TinkerSession, SESSION).seen_s -= SILENT_S + 1.0
    assert world.sampled() == frozenset()


def test_of_many_samplers_those_that_were_used_last_hold_their_versions(world: Clients) -> None:
    for version in range(1, MOST_SAMPLED + 3):
        world.open(version, used_s=1000.0 if version == 1 else version)
    assert world.sampled() == {1, *range(4, MOST_SAMPLED + 3)}


def test_versions_with_a_name_take_no_place_of_others(world: Clients) -> None:
    world.save(name="w")
    world.open(1)
    world.open(2)
    assert world.sampled() == {2}
    world.save()
    assert world.kept() == (1, 2)
    with Session(world.engine) as session, session.begin():
        session.delete(session.get_one(SnapshotRow, (world.model, "w")))
    assert world.sampled() == {1, 2}


def test_samplers_move_on_to_what_is_published_for_such_ones(world: Clients) -> None:
    """And its files stay, however much is published for others."""
    world.save()
    assert world.live() == (None, None)
    world.save(is_live=True)
    world.save(KEEP_POLICIES + 1, name="w")
    assert world.live() == (2, "file:///v2")
    world.take_over()
    world.save(name="w")
    assert world.live() == (2, "file:///v2")
    assert 2 in world.kept()
    world.save(is_live=True)
    world.save(name="w")
    newest = world.version - 1
    assert world.live() == (newest, f"file:///v{newest}")
    assert 2 not in world.kept()
