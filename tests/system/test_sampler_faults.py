"""Turns that can't be taken, are called back, or lose their child, their home or their sampler."""

import asyncio
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.base_models import tiny_models
from tests.support.episodes import ENVIRONMENT, environment_side, first_turn, policy, user
from tests.support.patience import PATIENCE_S
from tests.support.processes import forks_running
from tests.support.sampler_stage import (
    BASE,
    LONG,
    Stage,
    sampler,
    settings_of,
    shared,
    stage,
)

from warren_broker.inbox import Inbox, listen, receive
from warren_broker.memory import open_hub
from warren_broker.topology import WORKERS, home, interact
from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_schemas.config import Sampling
from warren_schemas.control import EpisodeCancelled, Heartbeat, RunEnded, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind, Generate, Step
from warren_schemas.ids import RunId
from warren_schemas.images import Image
from warren_schemas.transcript import ChatMessage

__all__ = ["stage", "tiny_models"]

PICTURE = Image.of(b"\xff\xd8\xff picture")


@shared
@pytest.mark.parametrize(
    ("turn", "kind", "is_retryable"),
    [
        (lambda: first_turn(policy(), user("7" * 600)), FailureKind.CONTEXT_LENGTH, False),
        (
            lambda: first_turn(policy(min_version=3, url="file:///nowhere/v3")),
            FailureKind.POLICY_UNAVAILABLE,
            True,
        ),
        (lambda: first_turn(policy(min_version=3)), FailureKind.POLICY_UNAVAILABLE, True),
        (lambda: first_turn(policy(), deadline_s=time.time() - 1), FailureKind.DEADLINE, True),
        (
            lambda: first_turn(policy(), sampling=Sampling(stop=("",))),
            FailureKind.INVALID_REQUEST,
            False,
        ),
        (
            lambda: first_turn(policy(), ChatMessage(role="user", content="?", images=(PICTURE,))),
            FailureKind.IMAGES_UNSUPPORTED,
            False,
        ),
    ],
)
async def test_a_turn_that_cannot_be_taken_ends_its_episode_with_the_reason(
    stage: Stage, turn: Callable[[], Generate], kind: FailureKind, is_retryable: bool
) -> None:
    asked = turn()
    healthy = first_turn(policy())
    await stage.side.send([asked, healthy])
    (ended,) = await stage.side.ends(1)
    assert ended.envelope.episode == asked.envelope.episode
    assert isinstance(ended.outcome, Failed)
    assert (ended.outcome.kind, ended.outcome.retryable) == (kind, is_retryable)
    assert ended.outcome.reason
    (step,) = await stage.side.steps(1)
    assert step.envelope.episode == healthy.envelope.episode


@shared
async def test_a_turn_still_under_way_at_its_deadline_is_given_up(
    stage: Stage, tmp_path: Path
) -> None:
    fifo = tmp_path / "v1"
    fifo.mkdir()
    os.mkfifo(fifo / "SHA256SUMS")  # reading the policy waits for a writer that never comes
    acting = policy(min_version=1, url=fifo.as_uri())
    await stage.side.send([first_turn(acting, deadline_s=time.time() + 1.0)])
    (ended,) = await stage.side.ends(1)
    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.kind is FailureKind.DEADLINE
    writer = os.open(fifo / "SHA256SUMS", os.O_RDWR)  # waits for no reader, who may not have come
    (fifo / "SHA256SUMS").unlink()
    os.close(writer)


@shared
async def test_turns_of_an_ended_run_are_dropped(stage: Stage) -> None:
    run = RunId("run_ended")
    model = policy().model
    await stage.tell(RunEnded(envelope=Envelope(), ended_run=run, model=model))
    heard = first_turn(policy(), run=run)
    kept = first_turn(policy())
    await stage.side.send([heard, kept])
    (step,) = await stage.side.steps(1)
    assert step.envelope.episode == kept.envelope.episode


@shared
async def test_turns_of_a_cancelled_episode_are_dropped_and_those_of_its_next_attempt_taken(
    stage: Stage,
) -> None:
    dropped = first_turn(policy())
    again = dropped.envelope.model_copy(update={"attempt": 2})
    taken = dropped.model_copy(update={"envelope": again})
    await stage.tell(EpisodeCancelled(envelope=dropped.envelope))
    await stage.side.send([dropped, taken])
    (step,) = await stage.side.steps(1)
    assert step.envelope.attempt == 2


@shared
@pytest.mark.parametrize("what", ["episode", "run"])
async def test_a_turn_under_way_is_let_go_when_its_episode_is_cancelled_or_its_run_ends(
    stage: Stage, tmp_path: Path, what: str
) -> None:
    fifo = tmp_path / "v1"
    fifo.mkdir()
    os.mkfifo(fifo / "SHA256SUMS")  # reading the policy waits for a writer that never comes
    run = RunId(f"run_without_{what}")
    turn = first_turn(policy(min_version=1, url=fifo.as_uri()), run=run)
    ended = RunEnded(envelope=Envelope(), ended_run=run, model=turn.spec.policy.model)
    watcher = stage.hub.client("watcher")
    async with listen(watcher, WORKERS, Heartbeat) as heartbeats, asyncio.timeout(PATIENCE_S):
        await stage.side.send([turn])
        await until_in_flight(heartbeats, 1)
        await stage.tell(ended if what == "run" else EpisodeCancelled(envelope=turn.envelope))
        await until_in_flight(heartbeats, 0)
    await watcher.close()
    writer = os.open(fifo / "SHA256SUMS", os.O_RDWR)  # waits for no reader, who may not have come
    (fifo / "SHA256SUMS").unlink()
    os.close(writer)


async def until_in_flight(heartbeats: Inbox[Heartbeat], n: int) -> None:
    async for claims in heartbeats:
        for claim in claims:
            claim.done()
        if claims[-1].item.in_flight == n:
            return


@shared
async def test_a_turn_of_no_run_that_fails_is_told_to_its_home(stage: Stage) -> None:
    broker = stage.hub.client("asker")
    own = home("asker_1", ENVIRONMENT)
    async with receive(broker, own, EpisodeEnded, prefetch=1) as inbox, asyncio.timeout(PATIENCE_S):
        asked = first_turn(policy(), user("7" * 600), run=None)
        await stage.side.send([asked.model_copy(update={"home": "asker_1"})])
        (claim,) = await anext(inbox)
        outcome = claim.item.outcome
        claim.done()
    await broker.close()
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.CONTEXT_LENGTH


@shared
async def test_when_the_home_is_gone_the_step_goes_to_the_shared_queue(stage: Stage) -> None:
    orphan = first_turn(policy()).model_copy(update={"home": "env_gone"})
    broker = stage.hub.client("another environment")
    async with receive(broker, interact(ENVIRONMENT), Step, prefetch=1) as inbox:
        await stage.side.send([orphan])
        (claim,) = await asyncio.wait_for(anext(inbox), PATIENCE_S)
        assert claim.item.envelope.episode == orphan.envelope.episode
        claim.done()
    await broker.close()


@shared
async def test_duplicates_are_harmless(stage: Stage) -> None:
    turn = first_turn(policy())
    await stage.side.send([turn, turn])
    duplicates = await stage.side.steps(2)
    assert {(t.envelope.episode, t.turn) for t in duplicates} == {(turn.envelope.episode, 1)}


@shared
async def test_a_child_killed_in_the_middle_costs_no_answer(stage: Stage) -> None:
    before, acting = forks_running("sampler.child"), policy()
    assert before
    turns = [first_turn(acting, sampling=LONG) for _ in range(200)]
    await stage.side.send(turns)
    steps = await stage.side.steps(10)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    steps += await stage.side.steps(200 - len(steps))
    assert {s.envelope.episode for s in steps} == {t.envelope.episode for t in turns}
    assert not set(before) & set(forks_running("sampler.child"))


async def test_stopping_hands_back_what_is_held_and_says_that_it_leaves(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    only = {BASE: tiny_models[BASE]}
    async with open_hub(tmp_path / "broker") as hub:
        watcher = hub.client("watcher")
        async with listen(watcher, WORKERS, Heartbeat) as heartbeats, environment_side(hub) as side:
            before, acting = forks_running("sampler.child"), policy()
            async with sampler(hub, settings_of(only, tmp_path)):
                await side.ask([first_turn(policy())])
                turns = [first_turn(acting, sampling=LONG) for _ in range(300)]
                await side.send(turns)
                steps = await side.steps(1)
            assert forks_running("sampler.child") == before
            last = await last_heartbeat(heartbeats)
            assert last.offers == (BASE,)
            assert last.role is WorkerRole.SAMPLER
            async with sampler(hub, settings_of(only, tmp_path)):
                asked = {t.envelope.episode for t in turns}
                while {s.envelope.episode for s in steps} != asked:
                    steps += await side.steps(1)
        await watcher.close()


async def test_a_base_model_is_offered_once_it_is_loaded(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    only = {BASE: tiny_models[BASE]}
    async with open_hub(tmp_path / "broker") as hub:
        watcher = hub.client("watcher")
        async with listen(watcher, WORKERS, Heartbeat) as heartbeats:
            offers: list[tuple[str, ...]] = []
            async with sampler(hub, settings_of(only, tmp_path)):
                while (BASE,) not in offers:
                    for claim in await anext(heartbeats):
                        offers.append(claim.item.offers)
                        claim.done()
        await watcher.close()
    assert offers[0] == ()


async def last_heartbeat(heartbeats: Inbox[Heartbeat]) -> Heartbeat:
    async for claims in heartbeats:
        for claim in claims:
            claim.done()
            if claim.item.is_leaving:
                return claim.item
    raise AssertionError("the sampler left without a word")


async def test_a_base_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    async with open_hub(tmp_path / "broker") as hub:
        broker = hub.client("sampler")
        with pytest.raises(ExceptionGroup) as raised:
            await serve_sampler(broker, settings_of({"mine": str(tmp_path)}, tmp_path))
        broken = raised.value.subgroup(lambda error: isinstance(error, SamplerBroken))
        assert broken is not None
        assert "mine can't be sampled from" in "".join(traceback.format_exception(broken))
        await broker.close()
