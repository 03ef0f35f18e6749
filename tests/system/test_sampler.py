# pyright: reportUnknownMemberType=false
"""The sampler end to end: `Generate` in, `Step` out, with the engine in a real child process."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import torch
from numpy.typing import NDArray
from peft import PeftModel
from tests.support.base_models import tiny_models
from tests.support.episodes import (
    ENVIRONMENT,
    EnvironmentSide,
    environment_side,
    first_turn,
    next_turn,
    policy,
    user,
)
from tests.support.sampling import adapter, nudged, with_weights
from transformers import PreTrainedModel

from warren_broker.inbox import Inbox, listen, receive
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.topology import CANCELLATIONS, POLICIES, RUNS, WORKERS, home, interact
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.sampler.process import SamplerBroken
from warren_gpu_worker.sampler.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import save_policy
from warren_schemas.config import Sampling
from warren_schemas.control import (
    EpisodeCancelled,
    Heartbeat,
    PolicyPublished,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    EpisodeEnded,
    Failed,
    FailureKind,
    FinishReason,
    Generate,
    Step,
)
from warren_schemas.ids import RunId
from warren_schemas.training import Policy
from warren_schemas.transcript import Transcript
from warren_schemas.wire import encode

__all__ = ["tiny_models"]

BASE, BASE_LORA = "warren/tiny", "warren/tiny-lora"
LONG = Sampling(max_tokens=450)


@asynccontextmanager
async def sampler(
    hub: MemoryHub, settings: GpuWorkerSettings
) -> AsyncGenerator["asyncio.Task[None]"]:
    """A running sampler, which must be gone within 5 s of being told to stop."""
    broker = hub.client("sampler")
    task = asyncio.create_task(serve_sampler(broker, settings))
    try:
        yield task
    finally:
        started_s = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        await broker.close()
        assert time.monotonic() - started_s < 5.0


def settings_of(models: dict[str, str], log_dir: Path) -> GpuWorkerSettings:
    return GpuWorkerSettings(base_models=models, roles=frozenset({"sampler"}), log_dir=log_dir)


@dataclass(frozen=True)
class Stage:
    """A sampler of both tiny models, and the other end of its queues."""

    hub: MemoryHub
    side: EnvironmentSide

    async def tell(self, topic_item: PolicyPublished | RunEnded | EpisodeCancelled) -> None:
        broker = self.hub.client("announcer")
        topic = {PolicyPublished: POLICIES, RunEnded: RUNS, EpisodeCancelled: CANCELLATIONS}
        await broker.publish(
            topic[type(topic_item)], encode([topic_item]), message_id=topic_item.envelope.id
        )
        await broker.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(
    tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    async with (
        open_hub(folder / "broker") as hub,
        sampler(hub, settings_of(tiny_models, folder)),
        environment_side(hub) as side,
    ):
        yield Stage(hub, side)


shared = pytest.mark.asyncio(loop_scope="module")


def versions_of(transcript: Transcript) -> list[int]:
    tokens = transcript.tokens
    return tokens.versions_T[tokens.mask_T == 1].tolist()


def reference_logprobs(
    model: PreTrainedModel | PeftModel, transcript: Transcript
) -> NDArray[np.float32]:
    """The model's logprobs of the sampled tokens, from one forward pass over the whole episode."""
    ids_T = torch.from_numpy(transcript.tokens.ids_T.astype(np.int64))
    with torch.inference_mode():
        logprobs_TV = model(ids_T[None]).logits[0].log_softmax(-1)
    chosen_T = logprobs_TV[:-1].gather(1, ids_T[1:, None])[:, 0].numpy()
    return chosen_T[transcript.tokens.mask_T[1:] == 1]


def sampled_logprobs(transcript: Transcript) -> NDArray[np.float32]:
    return transcript.tokens.logprobs_T[transcript.tokens.mask_T == 1]


@shared
async def test_episodes_of_several_turns(stage: Stage, tiny_models: dict[str, str]) -> None:
    acting = policy()
    turns = [first_turn(acting, run=None) for _ in range(100)]
    for n_turns in (1, 2, 3):
        steps = await stage.side.ask(turns)
        for turn, step in zip(turns, steps, strict=True):
            before, after = turn.transcript.tokens, step.transcript.tokens
            assert after.ids_T[: len(before)].tolist() == before.ids_T.tolist()
            assert step.turn == n_turns
            assert step.transcript.n_rendered == len(step.transcript.messages) == 2 * n_turns
            assert set(versions_of(step.transcript)) == {0}
        turns = [next_turn(step, user(">")) for step in steps]
    model = load_base(tiny_models[BASE])
    for turn in turns[:20]:
        expected = reference_logprobs(model, turn.transcript)
        np.testing.assert_allclose(sampled_logprobs(turn.transcript), expected, atol=1e-4)


@shared
async def test_words_and_finish_follow_from_the_tokens(stage: Stage) -> None:
    acting = policy()
    steps = await stage.side.ask([first_turn(acting, sampling=LONG) for _ in range(30)])
    for step in steps:
        ids = step.transcript.tokens.ids_T[step.transcript.tokens.mask_T == 1].tolist()
        words = step.transcript.messages[-1].content
        assert step.finish is (FinishReason.STOP if ids[-1] == 1 else FinishReason.LENGTH)
        assert "<eos>" not in words


@shared
async def test_forced_words_are_tokens_that_count_as_sampled(stage: Stage) -> None:
    acting = policy(min_version=7, url="file:///nowhere")
    (step,) = await stage.side.ask([first_turn(acting, forced_action="5")])
    tokens = step.transcript.tokens
    assert tokens.ids_T.tolist() == [2, 45, 8, 1]
    assert tokens.mask_T.tolist() == [0, 0, 1, 1]
    assert tokens.versions_T.tolist() == [-1, -1, 7, 7]
    assert not tokens.logprobs_T.any()
    assert step.transcript.actions == ["5"]
    assert step.finish is FinishReason.STOP


@shared
async def test_full_policies_are_loaded_pinned_and_followed(
    stage: Stage, tiny_models: dict[str, str], tmp_path: Path
) -> None:
    urls = [await asyncio.to_thread(publish_full, tiny_models[BASE], tmp_path, n) for n in (1, 2)]
    acting = policy(min_version=1, url=urls[0])
    (first,) = await stage.side.ask([first_turn(acting)])
    assert set(versions_of(first.transcript)) == {1}
    base = load_base(tiny_models[BASE])
    model = with_weights(base, nudged(base, seed=1))
    expected = reference_logprobs(model, first.transcript)
    np.testing.assert_allclose(sampled_logprobs(first.transcript), expected, atol=1e-4)

    newer = Policy(version=2, url=urls[1], size_bytes=1)
    news = PolicyPublished(envelope=Envelope(), model=acting.model, base_model=BASE, policy=newer)
    await stage.tell(news)
    transcript = first.transcript
    while 2 not in versions_of(transcript):  # the news is heard sooner or later
        (step,) = await stage.side.ask([first_turn(acting)])
        transcript = step.transcript
    pinned = acting.model_copy(update={"pinned": True})
    (step,) = await stage.side.ask([first_turn(pinned)])
    assert set(versions_of(step.transcript)) == {1}


def publish_full(folder: str, to: Path, version: int) -> str:
    base = load_base(folder)
    url = (to / f"v{version}").as_uri()
    save_policy(with_weights(base, nudged(base, seed=version)), url)
    return url


@shared
async def test_adapters_are_loaded_from_where_the_turn_says(
    stage: Stage, tiny_models: dict[str, str], tmp_path: Path
) -> None:
    _, model = adapter(load_base(tiny_models[BASE_LORA]), seed=1)
    url = (tmp_path / "adapter").as_uri()
    await asyncio.to_thread(save_policy, model, url)
    acting = policy(BASE_LORA, min_version=4, url=url)
    steps = await stage.side.ask([first_turn(acting) for _ in range(10)])
    for step in steps:
        assert set(versions_of(step.transcript)) == {4}
        expected = reference_logprobs(model, step.transcript)
        np.testing.assert_allclose(sampled_logprobs(step.transcript), expected, atol=1e-4)


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
    writer = os.open(fifo / "SHA256SUMS", os.O_WRONLY)
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
async def test_a_turn_under_way_is_let_go_when_its_episode_is_cancelled(
    stage: Stage, tmp_path: Path
) -> None:
    fifo = tmp_path / "v1"
    fifo.mkdir()
    os.mkfifo(fifo / "SHA256SUMS")  # reading the policy waits for a writer that never comes
    turn = first_turn(policy(min_version=1, url=fifo.as_uri()))
    watcher = stage.hub.client("watcher")
    async with listen(watcher, WORKERS, Heartbeat) as heartbeats, asyncio.timeout(100):
        await stage.side.send([turn])
        await until_in_flight(heartbeats, 1)
        await stage.tell(EpisodeCancelled(envelope=turn.envelope))
        await until_in_flight(heartbeats, 0)
    await watcher.close()
    writer = os.open(fifo / "SHA256SUMS", os.O_WRONLY)
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
    async with receive(broker, own, EpisodeEnded, prefetch=1) as inbox, asyncio.timeout(100):
        asked = first_turn(policy(), user("7" * 600), run=None)
        await stage.side.send([asked.model_copy(update={"home": "asker_1"})])
        (claim,) = await anext(inbox)
        outcome = claim.item.outcome
        claim.done()
    await broker.close()
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.CONTEXT_LENGTH


@shared
async def test_a_plain_turn_goes_on_from_its_text_or_its_tokens(stage: Stage) -> None:
    text = first_turn(policy(), user("3+4=")).model_copy(update={"is_plain": True})
    (from_text,) = await stage.side.ask([text])
    tokens = from_text.transcript.tokens
    n_prompt = len(tokens) - tokens.n_sampled
    shown = tokens.model_copy(
        update={
            "ids_T": tokens.ids_T[:n_prompt],
            "mask_T": tokens.mask_T[:n_prompt],
            "logprobs_T": tokens.logprobs_T[:n_prompt],
            "versions_T": tokens.versions_T[:n_prompt],
        }
    )
    plain = first_turn(policy()).model_copy(
        update={"transcript": Transcript(tokens=shown), "is_plain": True}
    )
    (from_tokens,) = await stage.side.ask([plain])
    after = from_tokens.transcript.tokens
    assert after.ids_T[:n_prompt].tolist() == shown.ids_T.tolist()
    assert after.mask_T[:n_prompt].sum() == 0
    assert after.mask_T[n_prompt:].all()
    assert [m.role for m in from_tokens.transcript.messages] == ["assistant"]


@shared
async def test_when_the_home_is_gone_the_step_goes_to_the_shared_queue(stage: Stage) -> None:
    orphan = first_turn(policy()).model_copy(update={"home": "env_gone"})
    broker = stage.hub.client("another environment")
    async with receive(broker, interact(ENVIRONMENT), Step, prefetch=1) as inbox:
        await stage.side.send([orphan])
        (claim,) = await asyncio.wait_for(anext(inbox), 60)
        assert claim.item.envelope.episode == orphan.envelope.episode
        claim.done()
    await broker.close()


@shared
async def test_twins_are_harmless(stage: Stage) -> None:
    turn = first_turn(policy())
    await stage.side.send([turn, turn])
    twins = await stage.side.steps(2)
    assert {(t.envelope.episode, t.turn) for t in twins} == {(turn.envelope.episode, 1)}


def child_pids() -> list[int]:
    children = [int(p) for p in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    return [p for p in children if b"sampler.child" in Path(f"/proc/{p}/cmdline").read_bytes()]


@shared
async def test_a_child_killed_in_the_middle_costs_no_answer(stage: Stage) -> None:
    before, acting = child_pids(), policy()
    turns = [first_turn(acting, sampling=LONG) for _ in range(200)]
    await stage.side.send(turns)
    steps = await stage.side.steps(10)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    steps += await stage.side.steps(200 - len(steps))
    assert {s.envelope.episode for s in steps} == {t.envelope.episode for t in turns}
    assert not set(before) & set(child_pids())


async def test_stopping_hands_back_what_is_held_and_says_goodbye(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    only = {BASE: tiny_models[BASE]}
    async with open_hub(tmp_path / "broker") as hub:
        watcher = hub.client("watcher")
        async with (
            listen(watcher, WORKERS, Heartbeat) as heartbeats,
            environment_side(hub) as side,
        ):
            before, acting = child_pids(), policy()
            async with sampler(hub, settings_of(only, tmp_path)):
                await side.ask([first_turn(policy())])
                turns = [first_turn(acting, sampling=LONG) for _ in range(300)]
                await side.send(turns)
                steps = await side.steps(1)
            assert child_pids() == before
            last = await last_heartbeat(heartbeats)
            assert last.offers == (BASE,)
            assert last.role is WorkerRole.SAMPLER
            async with sampler(hub, settings_of(only, tmp_path)):
                asked = {t.envelope.episode for t in turns}
                while {s.envelope.episode for s in steps} != asked:
                    steps += await side.steps(1)
        await watcher.close()


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
        broken = raised.value.exceptions[0]
        assert isinstance(broken, SamplerBroken)
        assert "mine" in str(broken)
        await broker.close()
