"""What a remote worker of one owner may do, and above all what not."""

from collections.abc import Callable, Collection

import pytest
from tests.support.factories import (
    make_group_scored,
    make_heartbeats_requested,
    make_run_logged,
    make_score_group,
)
from tests.support.interacting import said, spec, start

from warren_broker.errors import NotAllowed
from warren_broker.topology import (
    CANCELLATIONS,
    DEAD,
    HEARTBEAT_REQUESTS,
    POLICIES,
    RUNS,
    WORKERS,
    Address,
    Home,
    Topic,
    WorkQueue,
    compare,
    generate,
    home,
    interact,
    owned,
    results,
    run_events,
    run_log,
    sampler_home,
    train,
    trainer,
    trajectories,
)
from warren_gateway.budgets.budget import Budget
from warren_gateway.remote.declared_queues import DeclaredQueues, SessionQueues
from warren_gateway.remote.issued import Issued
from warren_gateway.remote.owner_grants import OwnerGrants
from warren_gateway.store.store import StoreUnavailable
from warren_schemas.codec.wire import decode, encode
from warren_schemas.control import EpisodeCancelled, Heartbeat, RunEnded, WorkerRole
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind, Generate, StartEpisode
from warren_schemas.events import LogComponent
from warren_schemas.group_scoring import GroupScored, ScoreGroup
from warren_schemas.ids import EpisodeId, ModelId, RunId, WorkerId
from warren_schemas.transcript import ChatMessage, Transcript

Make = Callable[[StartEpisode], Item]

OURS = interact("letters", "ann")
SPEC = spec(owner="ann")


async def nothing_owned(_: Collection[str]) -> Collection[str]:
    return ()


def queues_of(owner: str, *, limit: int = 10) -> SessionQueues:
    budget = Budget("queues of remote env workers", per_owner=limit, total=100)
    return DeclaredQueues(budget).of_session(owner)


def grants(issued: Issued | None = None, owner: str = "ann", worker: str = "env_1") -> OwnerGrants:
    return OwnerGrants(queues_of(owner), worker, issued or Issued(), nothing_owned)


async def shown(of: OwnerGrants, item: Item, source: WorkQueue | Home = OURS) -> OwnerGrants:
    """The same grants, after the worker was shown this item."""
    body = encode([item])
    assert await of.show(source, body) == (body,)
    return of


def turn_of_policy(item: StartEpisode, worker: str = "env_1") -> Generate:
    return Generate(
        envelope=item.envelope,
        spec=item.spec,
        transcript=Transcript(messages=(ChatMessage(role="user", content="a"),)),
        turn=0,
        home=worker,
    )


def end_of(item: StartEpisode) -> EpisodeEnded:
    return EpisodeEnded(
        envelope=item.envelope,
        spec=item.spec,
        transcript=Transcript(),
        outcome=Failed(kind=FailureKind.LOST, reason="x"),
        worker="env_1",
        started_s=1.0,
        ended_s=2.0,
    )


def beat(**changes: object) -> Heartbeat:
    fields: dict[str, object] = {
        "envelope": Envelope(),
        "worker": WorkerId("env_1"),
        "role": WorkerRole.ENVIRONMENT,
        "offers": ("letters",),
        "interval_s": 2.0,
        "capacity": 1,
        "in_flight": 0,
        "owner": "ann",
    }
    return Heartbeat.model_validate(fields | changes)


@pytest.mark.parametrize(
    "source",
    [
        interact("letters"),
        interact("letters", "bob"),
        compare("letters"),
        compare("letters", "bob"),
        compare("warren/chat", "ann"),
        WorkQueue(f"{owned('ann')}elsewhere.letters"),
        home("env_1", "letters"),
        home("env_2", "letters", "ann"),
        home("env_1", "letters", "bob"),
        Home(f"{owned('ann')}home.env_1.letters", fallback=interact("letters", "bob")),
        WorkQueue(f"{owned('ann')}interact.letters", max_messages=1),
        generate("tiny"),
        sampler_home("sampler_1", "tiny"),
        train("model_1", 1),
        trainer("gpu_1"),
        results("model_1"),
        DEAD,
        WORKERS,
        POLICIES,
    ],
    ids=str,
)
def test_only_what_is_the_owners_own_may_be_taken_from(source: WorkQueue | Home | Topic) -> None:
    with pytest.raises(NotAllowed):
        grants().consume(source)
    if source is not WORKERS:
        with pytest.raises(NotAllowed):
            grants().declare(source)


def test_the_owners_own_may_be_taken_from() -> None:
    for source in (OURS, compare("letters", "ann"), home("env_1", "letters", "ann"), RUNS):
        grants().consume(source)
        grants().declare(source)


def test_owners_whose_names_look_alike_share_nothing() -> None:
    owners = ["ann", "ann.interact", "ann@x.org", "ann@x/org", "ANN", "ann ", "a" * 33, "a" * 200]
    assert len({interact("e", owner).name for owner in owners}) == len(owners)
    assert all(len(owned(owner)) <= 40 for owner in owners)


async def test_every_worker_hears_that_heartbeats_are_asked_for() -> None:
    asked = encode([make_heartbeats_requested()])
    grants().declare(HEARTBEAT_REQUESTS)
    grants().consume(HEARTBEAT_REQUESTS)
    assert await grants().show(HEARTBEAT_REQUESTS, asked) == (asked,)


async def test_what_follows_from_an_episode_goes_where_it_belongs() -> None:
    given = start(of=SPEC)
    ann = await shown(grants(), given)
    step = said(turn_of_policy(given), "a")
    await ann.publish(generate("tiny"), encode([turn_of_policy(given)]))
    await ann.publish(sampler_home("sampler_1", "tiny"), encode([turn_of_policy(given)]))
    await ann.publish(trajectories("run_1"), encode([end_of(given)]))
    await ann.publish(OURS, encode([given]))
    await ann.publish(home("env_1", "letters", "ann"), encode([step]))
    ann.declare(generate("tiny"))


def same(item: StartEpisode) -> Item:
    return item


def for_another_home(item: StartEpisode) -> Item:
    return turn_of_policy(item, worker="env_9")


def run_ended(item: StartEpisode) -> Item:
    assert item.envelope.run is not None
    return RunEnded(envelope=Envelope(), ended_run=item.envelope.run, model=ModelId("model_1"))


@pytest.mark.parametrize(
    ("address", "make"),
    [
        (generate("other"), turn_of_policy),
        (sampler_home("sampler_1", "other"), turn_of_policy),
        (sampler_home("sampler_1", "tiny"), end_of),
        (Home("turns.sampler_1.tiny", fallback=interact("letters")), turn_of_policy),
        (trajectories("run_2"), end_of),
        (run_events("run_1"), end_of),
        (interact("letters"), same),
        (interact("letters", "bob"), same),
        (generate("tiny"), for_another_home),
        (generate("tiny"), end_of),
        (train("model_1", 1), end_of),
        (WORKERS, end_of),
        (RUNS, run_ended),
    ],
)
async def test_what_does_not_belong_there_is_refused(address: Address, make: Make) -> None:
    given = start(of=SPEC)
    ann = await shown(grants(), given)
    with pytest.raises(NotAllowed):
        await ann.publish(address, encode([make(given)]))


@pytest.mark.parametrize(
    "changes",
    [
        {"worker": "gpu_1"},
        {"owner": None},
        {"owner": "bob"},
        {"role": "trainer"},
        {"interval_s": 1e9},
        {"models": [{"model": "model_1", "epoch": 1}]},
    ],
    ids=str,
)
async def test_a_worker_speaks_for_itself_alone(changes: dict[str, object]) -> None:
    with pytest.raises(NotAllowed):
        await grants().publish(WORKERS, encode([beat(**changes)]))
    with pytest.raises(NotAllowed):
        await grants().publish(generate("tiny"), encode([beat()]))


async def test_a_heartbeat_of_the_worker_itself_is_heard() -> None:
    ann = grants()
    ann.declare(OURS)
    await ann.publish(WORKERS, encode([beat()]))


async def test_a_worker_speaks_in_the_logs_of_its_owners_runs_alone() -> None:
    async def first_is_anns(runs: Collection[str]) -> Collection[str]:
        return {run for run in runs if run == "run_1"}

    ann = OwnerGrants(queues_of("ann"), "env_1", Issued(), first_is_anns)

    async def say(run: str, log: str, **changes: object) -> None:
        fields = {"worker": "env_1", "component": LogComponent.ENV_WORKER} | changes
        item = make_run_logged(envelope=Envelope(run=RunId(run)), **fields)
        await ann.publish(run_log(log), encode([item]))

    await say("run_1", "run_1")
    for run, log in (("run_2", "run_2"), ("run_1", "run_2"), ("run_2", "run_1")):
        with pytest.raises(NotAllowed):
            await say(run, log)
    for change in ({"worker": "env_2"}, {"component": LogComponent.COORDINATOR}):
        with pytest.raises(NotAllowed):
            await say("run_1", "run_1", **change)


async def test_nobody_offers_an_environment_whose_queue_it_has_not_declared() -> None:
    """Runs would post to it, and gateways declare it: as many queues as heartbeats can name."""
    with pytest.raises(NotAllowed, match="takes nothing from its queue"):
        await grants().publish(WORKERS, encode([beat()]))


async def test_an_owner_has_so_many_queues_and_no_more() -> None:
    ann = OwnerGrants(queues_of("ann", limit=3), "env_1", Issued(), nothing_owned)
    ann.declare(home("env_1", "letters", "ann"))  # and what it falls back to
    ann.consume(OURS)
    ann.consume(interact("numbers", "ann"))
    for ask in (ann.declare, ann.consume):
        with pytest.raises(NotAllowed, match="one queue too many"):
            ask(interact("words", "ann"))
    ann.declare(RUNS)
    ann.consume(RUNS)


async def test_nobody_answers_for_an_episode_that_he_was_not_given() -> None:
    """Neither another owner's nor a later attempt, nor with a spec of his own making."""
    given, issued = start(of=SPEC), Issued()
    ann, bob = await shown(grants(issued), given), grants(issued, owner="bob")
    with pytest.raises(NotAllowed):
        await bob.publish(trajectories("run_1"), encode([end_of(given)]))
    evil_policy = SPEC.policy.model_copy(update={"url": "file:///etc"})
    evil = SPEC.model_copy(update={"policy": evil_policy})
    for item in (start(of=evil), start(of=SPEC, attempt=2), start("ep_2", SPEC)):
        with pytest.raises(NotAllowed):
            await ann.publish(generate("tiny"), encode([turn_of_policy(item)]))
        with pytest.raises(NotAllowed):
            await ann.give_up(OURS, encode([item]))


async def test_an_episode_that_moved_house_is_still_the_same() -> None:
    moved = start(of=SPEC.model_copy(update={"n_recoveries_left": 2}))
    ann = await shown(grants(), start(of=SPEC))
    await ann.publish(generate("tiny"), encode([turn_of_policy(moved)]))


async def test_what_was_shown_long_ago_is_forgotten_until_it_is_shown_again() -> None:
    issued = Issued(max_issued=2)
    ann = grants(issued)
    for i in range(3):
        await shown(ann, start(f"ep_{i}", SPEC))
    first = start("ep_0", SPEC)
    with pytest.raises(NotAllowed, match="comes again"):
        await ann.publish(trajectories("run_1"), encode([end_of(first)]))
    await shown(ann, first)
    await ann.publish(trajectories("run_1"), encode([end_of(first)]))


async def test_what_can_not_be_read_is_refused_and_may_be_given_up() -> None:
    with pytest.raises(NotAllowed, match="can't be read"):
        await grants().publish(generate("tiny"), b"garbage")
    with pytest.raises(NotAllowed, match="can't be read"):
        await grants().give_up(OURS, b"garbage")
    issued = Issued()
    assert await grants(issued).show(OURS, b"garbage") == (b"garbage",)
    await grants(issued).give_up(OURS, b"garbage")
    with pytest.raises(NotAllowed, match="can't be read"):
        await grants(issued, owner="bob").give_up(interact("letters", "bob"), b"garbage")


async def test_a_bad_item_is_given_up_as_it_came_and_none_is_made_up() -> None:
    """Its neighbours are played, so it goes to the dead letters alone."""
    bad = start("ep_2", SPEC).model_copy(update={"envelope": Envelope.model_construct(attempt=0)})
    body = encode([start("ep_1", SPEC), bad])
    ann = grants()
    assert await ann.show(OURS, body) == (body,)
    (rejected,) = decode(body).rejected
    await ann.give_up(OURS, rejected.body)
    other = Envelope.model_construct(run=RunId("run_of_bob"), attempt=0)
    made_up = decode(encode([bad.model_copy(update={"envelope": other})])).rejected[0].body
    with pytest.raises(NotAllowed, match="not valid"):
        await ann.give_up(OURS, made_up)


async def test_what_nobody_could_read_long_ago_is_forgotten_until_it_is_shown_again() -> None:
    ann = grants(Issued(max_issued=1))
    for body in (b"one", b"two"):
        await ann.show(OURS, body)
    with pytest.raises(NotAllowed):
        await ann.give_up(OURS, b"one")
    await ann.give_up(OURS, b"two")


async def test_only_the_ends_of_own_runs_are_told() -> None:
    async def owned_runs(runs: Collection[str]) -> Collection[str]:
        return {run for run in runs if run == "run_1"}

    ends = [
        RunEnded(envelope=Envelope(), ended_run=RunId(run), model=ModelId("m"))
        for run in ("run_1", "run_2")
    ]
    ann = OwnerGrants(queues_of("ann"), "env_1", Issued(), owned_runs)
    (told,) = await ann.show(RUNS, encode(ends))
    assert decode(told).items == [ends[0]]
    assert await ann.show(RUNS, encode(ends[1:])) == ()
    assert await ann.show(RUNS, b"garbage") == ()


async def test_only_the_cancellations_of_own_episodes_are_told() -> None:
    async def owned_runs(runs: Collection[str]) -> Collection[str]:
        return {run for run in runs if run == "run_1"}

    cancelled = [
        EpisodeCancelled(envelope=Envelope(run=RunId(run), episode=EpisodeId("ep_1")))
        for run in ("run_1", "run_2")
    ]
    ann = OwnerGrants(queues_of("ann"), "env_1", Issued(), owned_runs)
    ann.consume(CANCELLATIONS)
    (told,) = await ann.show(CANCELLATIONS, encode(cancelled))
    assert decode(told).items == [cancelled[0]]


async def test_a_store_that_is_away_tells_nothing() -> None:
    async def away(_: Collection[str]) -> Collection[str]:
        raise StoreUnavailable("gone")

    ends = [RunEnded(envelope=Envelope(), ended_run=RunId("run_1"), model=ModelId("m"))]
    assert (
        await OwnerGrants(queues_of("ann"), "env_1", Issued(), away).show(RUNS, encode(ends)) == ()
    )


def group_of(owner: str) -> ScoreGroup:
    asked = make_score_group()
    return asked.model_copy(
        update={"spec": asked.spec.model_copy(update={"owner": owner, "environment": "letters"})}
    )


def answer_to(asked: ScoreGroup) -> GroupScored:
    return make_group_scored(envelope=asked.envelope, spec=asked.spec)


async def test_the_answer_about_a_group_that_was_shown_goes_to_the_results_of_its_model() -> None:
    asked = group_of("ann")
    of = await shown(grants(), asked)
    answer = encode([answer_to(asked)])
    await of.publish(results(asked.spec.policy.model), answer)
    for elsewhere in (results("another"), trajectories(asked.envelope.run or ""), OURS):
        with pytest.raises(NotAllowed, match="does not belong"):
            await of.publish(elsewhere, answer)


async def test_a_group_goes_back_to_where_groups_are_compared_and_an_episode_does_not() -> None:
    asked, ours = group_of("ann"), compare("letters", "ann")
    of = await shown(grants(), asked, ours)
    await of.publish(ours, encode([asked]))
    for elsewhere in (OURS, compare("letters"), compare("letters", "bob")):
        with pytest.raises(NotAllowed, match="does not belong"):
            await of.publish(elsewhere, encode([asked]))
    begun = start(of=SPEC)
    await shown(of, begun)
    with pytest.raises(NotAllowed, match="does not belong"):
        await of.publish(ours, encode([begun]))


async def test_nothing_is_said_about_a_group_that_was_not_shown() -> None:
    asked = group_of("ann")
    with pytest.raises(NotAllowed, match="was not given"):
        await grants().publish(results(asked.spec.policy.model), encode([answer_to(asked)]))
    of = await shown(grants(), asked)
    other = answer_to(asked).model_copy(update={"spec": asked.spec.model_copy(update={"seed": 99})})
    with pytest.raises(NotAllowed, match="was not given"):
        await of.publish(results(asked.spec.policy.model), encode([other]))
