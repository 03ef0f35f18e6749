"""The parts of a decision, one by one."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.factories import make_heartbeat
from tests.unit.coordinator.world import World, config

from warren_broker.topology import interact
from warren_gateway.coordinator import decisions, waiting
from warren_gateway.coordinator.learning.batches import MICRO_BATCH_BYTES, Datum, token_batches
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.rollouts.admission import n_groups_wanted
from warren_gateway.coordinator.state.observed import TrainedRun
from warren_gateway.coordinator.state.plan import plan
from warren_schemas.control import Heartbeat, HeldModel, WorkerRole
from warren_schemas.episode import EpisodePurpose, StartEpisode
from warren_schemas.events import Phase
from warren_schemas.ids import ModelId, RunId
from warren_schemas.transcript import Tokens
from warren_up.advice import StartAgain


def tokens(n_prompt: int, n_sampled: int) -> Tokens:
    n = n_prompt + n_sampled
    mask_T = np.r_[np.zeros(n_prompt), np.ones(n_sampled)].astype(np.uint8)
    return Tokens(
        ids_T=np.arange(n, dtype=np.int32),
        mask_T=mask_T,
        logprobs_T=np.where(mask_T, -0.5, 0).astype(np.float32),
        versions_T=np.where(mask_T, 3, -1).astype(np.int32),
    )


@pytest.mark.parametrize(
    ("n_admitted", "n_published", "staleness", "wanted"),
    [(0, 0, 0, 4), (4, 0, 0, 0), (4, 1, 0, 4), (0, 0, 2, 12), (36, 9, 2, 4), (40, 10, 2, 0)],
)
def test_admission_keeps_to_the_rule(
    n_admitted: int, n_published: int, staleness: int, wanted: int
) -> None:
    assert wanted == n_groups_wanted(
        n_admitted=n_admitted,
        n_steps_published=n_published,
        n_steps_total=10,
        groups_per_step=4,
        max_staleness=staleness,
    )


@given(st.lists(st.tuples(st.integers(1, 40_000), st.integers(1, 40_000)), min_size=1, max_size=12))
def test_micro_batches_keep_every_token_in_order_and_fit(shapes: list[tuple[int, int]]) -> None:
    sequences = [tokens(p, s) for p, s in shapes]
    data = [Datum(t, t.mask_T * np.float32(i + 1)) for i, t in enumerate(sequences)]

    batches = token_batches(data)

    assert np.array_equal(
        np.concatenate([b.ids_N for b in batches]), np.concatenate([d.tokens.ids_T for d in data])
    )
    for batch in batches:
        assert batch.lengths_B.size == 1 or batch.ids_N.size * 13 <= MICRO_BATCH_BYTES
        assert np.all((batch.weights_N != 0) == (batch.mask_N == 1))


def test_the_plan_holds_what_the_config_asks_for() -> None:
    whole = config(sft={"steps": 3}, evaluation={"episodes": 4})

    assert [s.phase for s in plan(whole)] == [
        Phase.OPENING, Phase.SFT, Phase.EVALUATION, Phase.TRAINING, Phase.EVALUATION,
        Phase.CLOSING,
    ]  # fmt: skip
    assert [s.phase for s in plan(config())] == [Phase.OPENING, Phase.TRAINING, Phase.CLOSING]


def test_a_silent_trainer_loses_the_lease_and_its_answers_count_no_more() -> None:
    world = World(config(), random.Random(0))
    world.decide()
    first = world.state.lease.epoch
    world.kill_trainer()

    world.decide()

    assert world.state.lease.epoch == first + 1
    assert world.state.lease.holder == "trainer-1"


def test_a_trainer_that_no_longer_names_the_lease_loses_it_at_once() -> None:
    world = World(config(), random.Random(0))
    world.decide()
    world.decide()
    beat = world.alive(WorkerRole.TRAINER)[0]

    lost = trainer_lease.watch(world.state, [beat.model_copy(update={"models": ()})])

    assert lost
    assert world.state.lease.holder is None


@pytest.mark.parametrize("is_broker_away", [False, True])
def test_a_lease_ends_when_nobody_is_heard_unless_nobody_can_be(is_broker_away: bool) -> None:
    world = World(config(), random.Random(0))
    world.decide()
    world.state.observed.is_broker_away = is_broker_away
    world.state.now_s += 2 * trainer_lease.SILENCE_S

    wanted = decisions.wants_trainer(world.state, lambda role: [])

    assert wanted is not is_broker_away


def test_a_missing_environment_is_named_with_what_is_there() -> None:
    environments = [{"name": "gess"}]
    world = World(config(environments=environments), random.Random(0), environments=("guess",))

    reason = waiting.missing(world.state, lambda role: _of(world, role))

    assert reason is not None
    assert reason.startswith(
        "no env worker offers gess (1 online with guess); did you mean guess? If not, start one with: "
    )


def test_a_model_that_takes_a_whole_trainer_takes_none_before_its_environment_is_there() -> None:
    def nobody_plays(role: WorkerRole | None) -> list[Heartbeat]:
        return [beat for beat in _of(world, role) if beat.role is not WorkerRole.ENVIRONMENT]

    world = World(config(model={"base": "tiny", "update": {"kind": "full"}}), random.Random(0))
    assert not decisions.wants_trainer(world.state, nobody_plays)
    reason = waiting.missing(world.state, nobody_plays) or ""
    assert reason.startswith("no env worker offers guess (none is online)")
    assert decisions.wants_trainer(world.state, lambda role: _of(world, role))
    world = World(config(), random.Random(0))
    assert decisions.wants_trainer(world.state, nobody_plays)


def test_a_trainer_that_is_busy_is_told_with_who_has_it_unless_that_is_somebody_else() -> None:
    world = World(config(model={"base": "tiny", "update": {"kind": "full"}}), random.Random(0))
    theirs, mine = ModelId("model_7"), ModelId("model_8")
    world.state.observed.trained_runs = {
        theirs: TrainedRun(RunId("run_7"), "secret", "bob"),
        mine: TrainedRun(RunId("run_8"), "older", "me"),
    }

    def reason(*models: ModelId) -> str:
        held = tuple(HeldModel(model=model, epoch=1) for model in models)
        (idle,) = world.alive(WorkerRole.TRAINER)
        busy = idle.model_copy(update={"models": held, "in_flight": len(held)})
        alive = [*world.alive(WorkerRole.SAMPLER), *world.alive(WorkerRole.ENVIRONMENT), busy]
        return waiting.missing(world.state, lambda role: [b for b in alive if b.role == role]) or ""

    assert reason(mine) == (
        "every trainer that offers tiny is busy: older (run_8) has it; wait until it ends, or cancel"
        " it with: warren runs cancel run_8, or start another trainer with:"
        " warren gpu-worker --base-model tiny"
    )
    assert "busy: another user's run has it; wait until it ends, or start" in reason(theirs)
    assert "busy: older (run_8) and another user's run have it; wait" in reason(theirs, mine)
    assert "secret" not in reason(theirs, mine) and "run_7" not in reason(theirs, mine)
    why = "no env worker offers chess"
    world.state.observed.trained_runs = {
        theirs: TrainedRun(RunId("run_7"), "secret", "bob", why),
        mine: TrainedRun(RunId("run_8"), "older", "me", why),
    }
    assert f"busy: older (run_8, which waits itself: {why}) has it; wait" in reason(mine)
    assert why not in reason(theirs)
    world.state.observed.advice = StartAgain(("warren", "up"), ("tiny",))
    assert reason(theirs).endswith("another user's run has it; wait until it ends")
    assert "gpu-worker" not in reason(mine)


def test_a_trainer_that_is_drained_is_told_of_beside_those_that_are_busy() -> None:
    world = World(config(), random.Random(0))
    (idle,) = world.alive(WorkerRole.TRAINER)
    full = idle.model_copy(update={"in_flight": idle.capacity})
    drained = idle.model_copy(
        update={"worker": "t9", "offers": (), "drained_offers": idle.offers, "is_draining": True}
    )

    def alive(role: WorkerRole | None) -> list[Heartbeat]:
        return [full, drained] if role is WorkerRole.TRAINER else _of(world, role)

    assert (waiting.missing(world.state, alive) or "").endswith(
        ", or an admin has one take work again with: warren workers undrain t9"
    )


def test_under_warren_up_what_is_missing_comes_with_the_same_command_and_more() -> None:
    given = StartAgain(("warren", "up", "--port", "9"), ("warren/tiny", "a b"))
    models = [WorkerRole.SAMPLER, WorkerRole.TRAINER]
    told = {given.start(role, "x/y").rpartition(": ")[2] for role in models}
    assert told == {
        "warren up --port 9 --base-model warren/tiny --base-model 'a b' --base-model x/y"
    }
    named = StartAgain(("warren", "up", "--base-model=z"), ("z",))
    assert named.start(WorkerRole.TRAINER, "x").endswith("warren up --base-model=z --base-model x")
    dead = StartAgain(("warren", "up"), ("warren/tiny",)).start(WorkerRole.TRAINER, "warren/tiny")
    assert dead.endswith("start it again with: warren up")
    assert named.start(WorkerRole.TRAINER, "z").endswith("again with: warren up --base-model=z")
    assert "warren up --port 9 --env module:Class" in given.start(WorkerRole.ENVIRONMENT, "chess")
    assert "--max-models" in (given.more_capacity("x", is_full=False) or "")


def test_a_worker_that_is_still_starting_offers_nothing_yet() -> None:
    world = World(config(), random.Random(0))
    starting = make_heartbeat(offers=())

    reason = waiting.missing(
        world.state, lambda role: [starting] if role is starting.role else _of(world, role)
    )

    assert reason is not None
    assert reason.startswith(
        "no env worker offers guess (1 online with nothing yet); wait for what is still loading, or"
        " start one with: warren env-worker"
    )


def test_a_missing_worker_is_reported_once_and_only_after_a_while() -> None:
    world = World(config(), random.Random(0))
    world.state.now_s = 100.0
    waiting.report(world.state, lambda role: [])
    assert world.state.waiting.reason is None

    world.state.now_s = 100.0 + waiting.PATIENCE_S
    waiting.report(world.state, lambda role: [])
    waiting.report(world.state, lambda role: [])

    assert world.state.waiting.reason is not None
    assert "warren gpu-worker --base-model tiny" in world.state.waiting.reason
    sent = [item for items in world.state.change.posts.values() for item in items]
    assert len(sent) == 1


def _of(world: World, role: WorkerRole | None) -> list[Heartbeat]:
    return [beat for beat in world.alive(role) if role is not WorkerRole.TRAINER or beat]


def test_an_own_environment_waits_for_a_worker_of_the_runs_owner() -> None:
    world = World(config(environments=[{"name": "mine", "workers": "own"}]), random.Random(0))
    shared = make_heartbeat(offers=("mine",))

    def reason(*workers: Heartbeat) -> str | None:
        def alive(role: WorkerRole | None) -> Sequence[Heartbeat]:
            return workers if role is WorkerRole.ENVIRONMENT else _of(world, role)

        return waiting.missing(world.state, alive)

    bobs, mine = (shared.model_copy(update={"owner": owner}) for owner in ("bob", "me"))
    waits = reason(shared, bobs)
    assert waits is not None
    assert waits.startswith("no env worker of your own offers mine (none is online); start one")
    assert "--gateway" in waits
    assert "env worker" not in (reason(shared, bobs, mine) or "")


def test_a_shared_environment_that_only_an_own_worker_offers_is_explained() -> None:
    world = World(config(environments=[{"name": "mine"}]), random.Random(0))
    own = make_heartbeat(offers=("mine",), owner="me")

    def alive(role: WorkerRole | None) -> Sequence[Heartbeat]:
        return [own] if role is WorkerRole.ENVIRONMENT else _of(world, role)

    reason = waiting.missing(world.state, alive)
    assert reason is not None
    assert "workers: own" in reason


def test_episodes_of_an_own_environment_start_at_the_owners_queue() -> None:
    world = World(config(environments=[{"name": "mine", "workers": "own"}]), random.Random(0))
    assert episodes.admit(world.state, EpisodePurpose.TRAIN, 1) == 1
    ((queue, items),) = world.state.change.posts.items()
    assert queue == interact("mine", "me")
    assert {item.spec.owner for item in items if isinstance(item, StartEpisode)} == {"me"}
