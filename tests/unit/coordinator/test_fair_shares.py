"""Shares of the env workers' places: even, whole, and no more than is there."""

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select
from tests.support.gateway import CONFIG, heartbeat
from tests.unit.coordinator.world import World, config

from warren_broker.memory import open_hub
from warren_gateway.coordinator.rollouts.fair_shares import (
    CAPACITY_IF_UNKNOWN,
    Seen,
    Shares,
    even_share,
    look,
    wanted,
)
from warren_gateway.registry import Registry
from warren_gateway.store.store import Store
from warren_gateway.store.tables import OutboxRow, Run, User
from warren_gateway.usage.limits import DEFAULT_LIMITS
from warren_schemas.codec.wire import decode
from warren_schemas.config import RecordedSource
from warren_schemas.control import WorkerRole
from warren_schemas.ids import RunId

MODEST, GREEDY = RunId("run_modest"), RunId("run_greedy")


@given(st.integers(0, 10_000), st.lists(st.integers(1, 100_000), min_size=1, max_size=20))
def test_capacity_is_shared_evenly_and_none_is_left_unused(capacity: int, wants: list[int]) -> None:
    share = even_share(capacity, wants)
    given_out = sum(min(want, share) for want in wants)
    assert given_out <= capacity
    if sum(wants) <= capacity:
        assert given_out == sum(wants)
    else:
        assert given_out > capacity - len(wants)


async def test_a_greedy_run_leaves_a_modest_one_what_it_wants() -> None:
    async with open_hub() as hub:
        registry = Registry(hub.client("gateway"))
        shares = Shares(registry)
        shares.seen = Seen({MODEST: {"guess": 8}, GREEDY: {"guess": 100_000}})
        assert shares.of(GREEDY) == {"guess": CAPACITY_IF_UNKNOWN - 8}
        registry.hear(heartbeat("w1", WorkerRole.ENVIRONMENT, "guess", "other", capacity=64))
        registry.hear(heartbeat("w2", WorkerRole.ENVIRONMENT, "guess", capacity=32))
        registry.hear(heartbeat("w3", WorkerRole.SAMPLER, "guess", capacity=1000))
        assert shares.of(GREEDY) == {"guess": 64 - 8}
        assert shares.of(MODEST)["guess"] >= 8
        shares.seen = Seen({GREEDY: {"guess": 100_000}})
        assert shares.of(GREEDY) == {"guess": 64}
        assert shares.of(MODEST) == {}


async def test_an_owners_own_workers_have_places_for_his_runs_alone() -> None:
    own = {"environments": [{"name": "guess", "workers": "own"}]}
    async with open_hub() as hub:
        registry = Registry(hub.client("gateway"))
        shares = Shares(registry)
        wants = {MODEST: wanted(config(**own), "ann"), GREEDY: wanted(config(), "bob")}
        shares.seen = Seen(wants)
        registry.hear(heartbeat("w1", WorkerRole.ENVIRONMENT, "guess", capacity=5, owner="ann"))
        registry.hear(heartbeat("w1", WorkerRole.ENVIRONMENT, "guess", capacity=7))
        assert shares.of(MODEST) == {"owned.ann.guess": 5}
        assert shares.of(GREEDY) == {"guess": 7}


def test_a_run_wants_what_its_config_lets_it_have_in_the_air() -> None:
    assert wanted(config(), "ann") == {"guess": 2 * 2 * 4}
    assert wanted(config(limits={"steps": 1, "in_flight": 5}), "ann") == {"guess": 5}
    assert wanted(config().for_replay(RecordedSource(run="run_1")), "ann") == {}


async def test_runs_that_wait_or_have_ended_want_nothing(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")

    def add(session: Session) -> None:
        for run, state, waiting_for in [
            ("going", "running", None),
            ("waiting", "running", "no trainer offers it"),
            ("over", "completed", None),
        ]:
            session.add(
                Run(
                    id=run,
                    owner="me",
                    name="r",
                    config=CONFIG,
                    state=state,
                    waiting_for=waiting_for,
                    n_steps=1,
                    created_s=1.0,
                )
            )

    await store.transact(add)
    seen = await store.transact(lambda session: look(session, Seen(), DEFAULT_LIMITS))
    assert set(seen.wants) == {"going"} and set(seen.limits) == {"me"}
    known = replace(seen, wants={RunId("going"): {"guess": 7}})
    again = await store.transact(lambda session: look(session, known, DEFAULT_LIMITS))
    assert again.wants == known.wants, "nobody reads a config twice"

    def lower(session: Session) -> None:
        going = session.get_one(Run, "going")
        going.config = {**going.config, "limits": {"in_flight": 5}}
        going.limits_number += 1

    await store.transact(lower)
    changed = await store.transact(lambda session: look(session, known, DEFAULT_LIMITS))
    assert changed.wants == {"going": {"guess": 5}}
    await store.close()


def test_a_run_admits_no_more_than_its_share() -> None:
    """Groups are admitted while a place is free, so at most one group goes beyond."""
    algorithm = {"group_size": 4, "groups_per_step": 1000, "max_staleness": 1}
    world = World(
        config(algorithm=algorithm, limits={"steps": 2, "in_flight": 100_000}), random.Random(3)
    )
    world.state.observed.shares = {"guess": 10}
    while not world.episodes:
        world.decide()
        world.read_mail()
    assert sum(group.n_missing for group in world.state.rollouts.groups.values()) == 12


async def test_what_an_owner_may_have_in_flight_is_shared_among_their_runs() -> None:
    ann = DEFAULT_LIMITS.of(User(name="ann", created_s=0.0, limits={"episodes_in_flight": 100}))
    async with open_hub() as hub:
        shares = Shares(Registry(hub.client("gateway")))
        assert shares.of_owner(MODEST) is None
        runs = {MODEST: "ann", GREEDY: "ann", RunId("bobs"): "bob"}
        wants = {run: {"guess": 1000, "other": 1000} for run in runs} | {MODEST: {"guess": 8}}
        shares.seen = Seen(wants, runs, {"ann": ann, "bob": DEFAULT_LIMITS.of(None)})
        assert shares.of_owner(GREEDY) == 92
        assert (shares.of_owner(MODEST) or 0) >= 8
        assert (shares.of_owner(RunId("bobs")) or 0) >= 2000


def test_a_run_admits_no_more_than_its_share_of_its_owners() -> None:
    algorithm = {"group_size": 4, "groups_per_step": 1000, "max_staleness": 1}
    world = World(
        config(algorithm=algorithm, limits={"steps": 2, "in_flight": 100_000}), random.Random(3)
    )
    world.state.observed.owner_share = 10
    while not world.episodes:
        world.decide()
        world.read_mail()
    assert sum(group.n_missing for group in world.state.rollouts.groups.values()) == 8


async def test_a_message_of_new_episodes_fills_a_fraction_of_the_smallest_worker() -> None:
    async with open_hub() as hub:
        registry = Registry(hub.client("gateway"))
        shares = Shares(registry)
        shares.seen = Seen({MODEST: {"guess": 100}})
        registry.hear(heartbeat("w1", WorkerRole.ENVIRONMENT, "guess", capacity=1024))
        registry.hear(heartbeat("w2", WorkerRole.ENVIRONMENT, "guess", "other", capacity=32))
        assert shares.message_sizes_of(MODEST) == {"guess": 16 // 8}
        registry.hear(heartbeat("w3", WorkerRole.ENVIRONMENT, "guess", capacity=1))
        assert shares.message_sizes_of(MODEST) == {"guess": 1}
        assert shares.message_sizes_of(GREEDY) == {}


async def test_a_message_of_new_episodes_leaves_some_for_every_worker() -> None:
    async with open_hub() as hub:
        registry = Registry(hub.client("gateway"))
        shares = Shares(registry)
        shares.seen = Seen({MODEST: {"guess": 200}, GREEDY: {"guess": 100_000}})
        for worker in ("w1", "w2", "w3"):
            registry.hear(heartbeat(worker, WorkerRole.ENVIRONMENT, "guess", capacity=1024))
        assert shares.message_sizes_of(MODEST) == {"guess": 200 // 3 // 2}
        assert shares.message_sizes_of(GREEDY) == {"guess": 1024 // 8}


@dataclass
class Post(World):
    """Notes how many new episodes each message has."""

    n_starts: list[int] = field(default_factory=list[int])

    def _deliver(self) -> None:
        with Session(self.engine) as session:
            for row in session.exec(select(OutboxRow)):
                if row.address == "interact.guess":
                    self.n_starts.append(len(decode(row.body).items))
        super()._deliver()


def test_new_episodes_travel_in_messages_of_that_size() -> None:
    large, small = (Post(config(), random.Random(1)) for _ in range(2))
    small.state.observed.message_sizes = {"guess": 3}
    assert large.drive(0).is_over
    assert small.drive(0).is_over

    assert max(large.n_starts) == 16
    assert set(small.n_starts) <= {1, 2, 3}
    assert sum(small.n_starts) == sum(large.n_starts) >= 6 * 8
