"""What each item does to the episodes that a worker knows: duplicates, gaps, attempts, deadlines, runs."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.support.claims import HeldClaim
from tests.support.factories import make_tokens
from tests.support.forked_hosts import hosting
from tests.support.interacting import BASE_MODEL, RUN, demonstration, said, spec, start
from tests.support.patience import PATIENCE_S

from warren_broker.inbox import Claim
from warren_broker.successors import Destination
from warren_broker.topology import generate, trajectories
from warren_env_worker.interactions import Interactions
from warren_env_worker.rubrics import REFERENCE as RUBRIC
from warren_env_worker.rubrics import Rubrics
from warren_env_worker.run_notices import RunNotices
from warren_env_worker.successor import Successor, Taken
from warren_schemas.config import Sampling
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodeSpec,
    Failed,
    FailureKind,
    Generate,
    StopReason,
)
from warren_schemas.ids import EpisodeId, WorkerId


class Worker:
    """A worker without a broker: what it publishes is confirmed at once."""

    def __init__(self, interactions: Interactions, published: "asyncio.Queue[Successor]") -> None:
        self.interactions = interactions
        self.published = published

    def take(self, item: Taken) -> HeldClaim[Taken]:
        claim = HeldClaim(item)
        self.interactions.take(claim)
        return claim

    async def successor(self) -> Successor:
        return await asyncio.wait_for(self.published.get(), PATIENCE_S)

    async def generated(self) -> Generate:
        item = (await self.successor()).item
        assert isinstance(item, Generate), item
        return item

    async def ended(self) -> EpisodeEnded:
        item = (await self.successor()).item
        assert isinstance(item, EpisodeEnded), item
        return item

    async def failed(self) -> Failed:
        outcome = (await self.ended()).outcome
        assert isinstance(outcome, Failed), outcome
        return outcome


@asynccontextmanager
async def working(
    class_name: str = "Letters", name: str = "letters", *, capacity: int = 8
) -> AsyncGenerator[Worker]:
    published: asyncio.Queue[Successor] = asyncio.Queue()

    def publish(address: Destination, item: Item, claims: Sequence[Claim[Taken]]) -> None:
        assert isinstance(item, Generate | EpisodeEnded)
        published.put_nowait(Successor(address, item))
        for claim in claims:
            claim.done()

    async with hosting(class_name) as host, hosting(RUBRIC) as rubrics:
        worker = WorkerId("env_1")
        interactions = Interactions(
            worker, {name: host}, publish, RunNotices(), Rubrics(rubrics), capacity=capacity
        )
        yield Worker(interactions, published)


def right(item: Generate) -> str:
    return item.transcript.messages[-1].content


async def test_an_episode_from_start_to_end() -> None:
    async with working() as worker:
        begun = start()
        claim = worker.take(begun)
        assert claim.fate == "held"
        last = await worker.successor()
        assert last.address == generate(BASE_MODEL)
        for turn in range(3):
            item = last.item
            assert isinstance(item, Generate)
            assert (item.turn, item.home, item.spec) == (turn, "env_1", begun.spec)
            assert item.envelope.id != begun.envelope.id
            claim = worker.take(said(item, right(item)))
            last = await worker.successor()
            assert claim.fate == "done"
        item = last.item
        assert last.address == trajectories(RUN)
        assert isinstance(item, EpisodeEnded)
        assert item.outcome == Completed(reward=3.0, metrics={"right": 1.0})
        assert [turn.reward for turn in item.transcript.turns] == [1.0, 1.0, 1.0]
        assert (item.envelope.run, item.envelope.episode, item.worker) == (RUN, "ep_1", "env_1")
        assert worker.interactions.n_live == 0
        assert worker.interactions.n_done == 1


async def test_an_image_travels_with_the_transcript() -> None:
    async with working("Painted", "painted") as worker:
        worker.take(start(of=spec("painted")))
        (message,) = (await worker.generated()).transcript.messages
        assert [image.media_type for image in message.images] == ["image/jpeg"]


async def test_max_turns_truncate() -> None:
    async with working() as worker:
        worker.take(start(of=spec(max_turns=1)))
        worker.take(said(await worker.generated(), "x"))
        outcome = (await worker.ended()).outcome
        assert outcome == Completed(reward=0.0, stop=StopReason.MAX_TURNS, metrics={"right": 0.0})
        assert worker.interactions.n_live == 0


async def test_row_25_an_episode_is_cut_at_its_tokens_in_total() -> None:
    async with working() as worker:
        worker.take(start(of=spec(sampling=Sampling(max_total_tokens=6))))
        for n_tokens in (5, 6):
            step = said(await worker.generated(), "x")
            tokens = make_tokens(n_tokens)
            transcript = step.transcript.model_copy(update={"tokens": tokens})
            worker.take(step.model_copy(update={"transcript": transcript}))
        outcome = (await worker.ended()).outcome
        assert isinstance(outcome, Completed)
        assert outcome.stop is StopReason.MAX_TOTAL_TOKENS


async def test_demonstrations_force_the_action() -> None:
    async with working() as worker:
        worker.take(start(of=demonstration("letters")))
        first = await worker.generated()
        assert first.forced_action is not None
        worker.take(said(first, first.forced_action))
        assert (await worker.generated()).forced_action is not None


async def test_a_twin_gets_the_same_successor() -> None:
    async with working() as worker:
        begun = start()
        worker.take(begun)
        first = await worker.generated()
        duplicate = worker.take(begun)
        assert (await worker.generated()) is first
        assert duplicate.fate == "done"
        step = said(first, "a")
        worker.take(step)
        second = await worker.generated()
        worker.take(said(first, "another sample of the same turn"))
        assert (await worker.generated()) is second


async def test_a_twin_that_comes_while_the_first_is_at_work_waits_for_its_answer() -> None:
    async with working() as worker:
        begun = start()
        claims = [worker.take(begun), worker.take(begun)]
        await worker.generated()
        assert [claim.fate for claim in claims] == ["done", "done"]
        assert worker.published.empty()


async def test_a_twin_of_the_last_turn_gets_the_same_end() -> None:
    async with working() as worker:
        worker.take(start(of=spec(environment_config={"n_turns": 1})))
        last = said(await worker.generated(), "a")
        worker.take(last)
        ended = await worker.ended()
        worker.take(last)
        assert (await worker.ended()).envelope == ended.envelope


async def test_older_turns_and_attempts_are_dropped() -> None:
    async with working() as worker:
        begun, again = start(), start(attempt=2)
        worker.take(begun)
        first = await worker.generated()
        worker.take(said(first, "a"))
        await worker.generated()
        assert worker.take(begun).fate == "done"
        worker.take(again)
        assert (await worker.generated()).envelope.attempt == 2
        assert worker.take(said(first, "a")).fate == "done"
        assert worker.published.empty()
        assert worker.interactions.n_live == 1


async def test_a_newer_attempt_settles_what_the_older_one_holds() -> None:
    async with working() as worker:
        old = worker.take(start())
        new = worker.take(start(attempt=2))
        assert old.fate == "done"
        assert (await worker.generated()).envelope.attempt == 2
        assert new.fate == "done"
        assert worker.published.empty()


async def test_a_step_of_a_lost_worker_moves_in() -> None:
    async with working() as first, working() as second:
        first.take(start())
        item = await first.generated()
        first.take(said(item, right(item)))
        item = await first.generated()
        second.take(said(item, right(item)))
        moved = await second.generated()
        assert moved.turn == 2
        assert moved.spec.n_recoveries_left == item.spec.n_recoveries_left - 1
        second.take(said(moved, right(moved)))
        outcome = (await second.ended()).outcome
        assert outcome == Completed(reward=3.0, metrics={"right": 1.0})


async def test_an_episode_that_went_away_and_comes_back_is_rebuilt() -> None:
    async with working() as first, working() as second:
        first.take(start(of=spec(environment_config={"n_turns": 4})))
        item = await first.generated()
        for _ in range(2):
            second.take(said(item, right(item)))
            item = await second.generated()
        first.take(said(item, right(item)))
        item = await first.generated()
        assert item.turn == 3
        first.take(said(item, right(item)))
        outcome = (await first.ended()).outcome
        assert isinstance(outcome, Completed)
        assert outcome.reward == 4.0


async def test_a_step_with_another_history_is_not_taken_by_our_live_environment() -> None:
    """Two samplers answered one turn; the duplicate's next step comes to us after its home died."""
    async with working() as worker, working() as other:
        config = {"n_turns": 3}
        worker.take(start(of=spec(environment_config=config)))
        first = await worker.generated()
        worker.take(said(first, right(first)))
        await worker.generated()
        other.take(said(first, "wrong"))
        theirs = await other.generated()
        worker.take(said(theirs, right(theirs)))
        item = await worker.generated()
        worker.take(said(item, right(item)))
        outcome = (await worker.ended()).outcome
        assert isinstance(outcome, Completed)
        assert outcome.reward == 2.0


async def test_a_recovery_counts_though_a_step_of_the_last_home_comes_before_ours() -> None:
    """It had answered the step by which the episode moved, and died before that was acked."""
    async with working() as first, working() as second:
        first.take(start(of=spec(environment_config={"n_turns": 4})))
        item = await first.generated()
        unacked = said(item, right(item))
        first.take(unacked)
        theirs = await first.generated()
        second.take(unacked)
        ours = await second.generated()
        second.take(said(theirs, right(theirs)))
        following = await second.generated()
        assert following.spec.n_recoveries_left == ours.spec.n_recoveries_left
        assert following.spec.n_recoveries_left == theirs.spec.n_recoveries_left - 1


async def test_recoveries_are_counted_down() -> None:
    async with working() as first, working() as second:
        first.take(start(of=spec(n_recoveries_left=0)))
        item = await first.generated()
        first.take(said(item, "a"))
        await first.generated()
        second.take(said(item, "a"))
        assert (await second.failed()).kind is FailureKind.LOST


@pytest.mark.parametrize(
    ("class_name", "name"), [("Fickle", "fickle"), ("Unreplayable", "unreplayable")]
)
async def test_what_is_not_replayable_fails_when_it_moves(class_name: str, name: str) -> None:
    async with working(class_name, name) as first, working(class_name, name) as second:
        first.take(start(of=spec(name)))
        second.take(said(await first.generated(), "a"))
        failure = await second.failed()
        assert failure.kind is FailureKind.NOT_REPLAYABLE
        assert failure.retryable


async def test_items_past_their_deadline_fail() -> None:
    async with working() as worker:
        worker.take(start(deadline_s=time.time() - 1))
        assert (await worker.failed()).kind is FailureKind.DEADLINE
        assert worker.interactions.n_live == 0


async def test_an_unknown_environment_fails_for_good() -> None:
    async with working() as worker:
        worker.take(start(of=spec("lettres")))
        failure = await worker.failed()
        assert (failure.kind, failure.retryable) == (FailureKind.UNKNOWN_ENVIRONMENT, False)


async def test_a_failing_environment_fails_the_episode_with_its_transcript() -> None:
    async with working("Hostile", "hostile") as worker:
        worker.take(start(of=spec("hostile")))
        worker.take(said(await worker.generated(), "evil"))
        ended = await worker.ended()
        assert isinstance(ended.outcome, Failed)
        assert ended.outcome.kind is FailureKind.ENVIRONMENT_ERROR
        assert ended.transcript.actions == ["evil"]
        assert worker.interactions.n_live == 0


async def test_what_nobody_can_read_fails_its_own_episode() -> None:
    async with working("Unheard", "unheard") as worker:
        worker.take(start(of=spec("unheard")))
        failure = await worker.failed()
        assert failure.kind is FailureKind.ENVIRONMENT_ERROR
        assert failure.reason.startswith("its environment sent what can't be read: ")


async def test_what_needs_capacity_is_what_opens_an_environment_more() -> None:
    async with working() as worker:
        first, late = start("ep_1"), start("ep_2", deadline_s=1.0)
        needs_capacity = worker.interactions.needs_capacity
        assert needs_capacity(first)
        assert not needs_capacity(late)
        worker.take(first)
        item = await worker.generated()
        assert not needs_capacity(said(item, "a"))
        assert not needs_capacity(first)
        for _ in range(3):
            worker.take(said(item, "a"))
            after = (await worker.successor()).item
            item = after if isinstance(after, Generate) else item
        assert not needs_capacity(said(item, "a"))
        assert needs_capacity(start("ep_1", attempt=2))
        worker.interactions.end_run(RUN)
        assert not needs_capacity(start("ep_1", attempt=2))


async def test_transcripts_that_no_message_can_carry_fail() -> None:
    async with working("Verbose", "verbose") as worker:
        worker.take(start(of=spec("verbose", max_turns=100)))
        for _ in range(5):
            worker.take(said(await worker.generated(), "a"))
        worker.take(said(await worker.generated(), "x" * 60_000))
        assert "characters; 1000000 can be sent" in (await worker.failed()).reason


async def test_rewards_that_add_up_to_infinity_fail() -> None:
    async with working("Generous", "generous") as worker:
        worker.take(start(of=spec("generous", max_turns=2)))
        worker.take(said(await worker.generated(), "a"))
        worker.take(said(await worker.generated(), "a"))
        assert (await worker.failed()).kind is FailureKind.INVALID_REWARD


async def test_an_ended_run_is_dropped() -> None:
    async with working() as worker:
        worker.take(start("ep_1"))
        item = await worker.generated()
        waiting = worker.take(start("ep_2"))
        worker.interactions.end_run(RUN)
        assert waiting.fate == "done"
        assert worker.interactions.n_live == 0
        assert worker.take(said(item, "a")).fate == "done"
        assert worker.published.empty()


async def test_a_cancelled_attempt_is_dropped_and_the_next_one_taken() -> None:
    async with working() as worker:
        first = worker.take(start("ep_1"))
        other = worker.take(start("ep_2"))
        cancelled = Envelope(run=RUN, episode=EpisodeId("ep_1"), attempt=1)
        worker.interactions.cancel(cancelled)
        assert first.fate == "done" != other.fate
        assert worker.take(start("ep_1")).fate == "done"
        assert worker.interactions.n_live == 1
        worker.take(start("ep_1", attempt=2))
        assert worker.interactions.n_live == 2


async def test_expired_episodes_are_reaped() -> None:
    async with working() as worker:
        now_s = time.time()
        worker.take(start(deadline_s=now_s + 100))
        worker.take(start("ep_2"))
        worker.interactions.reap(now_s + 50)
        assert worker.interactions.n_live == 2
        worker.interactions.reap(now_s + 200)
        assert worker.interactions.n_live == 1


async def test_an_episode_more_may_be_live_while_the_capacity_is_not_used_up() -> None:
    async with working(capacity=2) as worker:
        items: list[Generate] = []
        for n in range(2):
            assert worker.interactions.free_capacity("letters").is_set()
            worker.take(start(f"ep_{n}", spec(max_turns=1)))
            items.append(await worker.generated())
        assert not worker.interactions.free_capacity("letters").is_set()
        for item in items:
            worker.take(said(item, "a"))
            await worker.ended()
            assert worker.interactions.free_capacity("letters").is_set()


async def test_an_environment_s_own_limit_holds_from_its_first_episode_on() -> None:
    async with working("Scarce", "scarce") as worker:
        free = worker.interactions.free_capacity("scarce")
        worker.take(start("ep_0", spec("scarce")))
        assert not free.is_set()  # its process has not said yet how many there may be
        await worker.generated()
        assert free.is_set()
        worker.take(start("ep_1", spec("scarce")))
        assert not free.is_set()
        await worker.generated()
        assert not free.is_set()


async def test_what_makes_no_sense_goes_to_the_dead() -> None:
    async with working() as worker:
        worker.take(start())
        item = await worker.generated()
        step = said(item, "a")
        without_run = step.model_copy(
            update={"envelope": step.envelope.model_copy(update={"run": None})}
        )
        assert worker.take(without_run).fate.startswith("dead: the envelope names no run")
        gap = step.model_copy(update={"turn": 3})
        assert worker.take(gap).fate == "dead: step 3 carries 1 actions and 0 answers"
        mute = step.model_copy(update={"transcript": item.transcript})
        assert worker.take(mute).fate.startswith("dead: step 1 carries 0 actions")


@pytest.mark.parametrize("seed", range(5))
async def test_however_items_come_each_episode_ends_as_if_each_had_come_once(seed: int) -> None:
    """Duplicates of any age at two workers, in any order; every claim is settled in the end."""
    rng = random.Random(seed)
    async with working() as first, working() as second:
        workers = (first, second)
        pool: list[Taken] = [start(f"ep_{n}", config_of(n)) for n in range(4)]
        ends: dict[str, set[float]] = {}
        claims: list[HeldClaim[Taken]] = []
        for _ in range(400):
            worker = rng.choice(workers)
            claims.append(worker.take(rng.choice(pool)))
            while claims[-1].fate == "held":
                await note(worker, pool, ends)
            while not worker.published.empty():
                await note(worker, pool, ends)
        assert all(claim.fate == "done" for claim in claims)
        assert len(ends) == 4
        assert all(rewards == {2.0} for rewards in ends.values())


def config_of(n: int) -> EpisodeSpec:
    return spec(seed=n, environment_config={"n_turns": 2}, n_recoveries_left=1000)


async def note(worker: Worker, pool: list[Taken], ends: dict[str, set[float]]) -> None:
    item = (await worker.successor()).item
    if isinstance(item, Generate):
        pool.append(said(item, right(item)))
    else:
        assert isinstance(item.outcome, Completed), item.outcome
        ends.setdefault(str(item.envelope.episode), set()).add(item.outcome.reward)
