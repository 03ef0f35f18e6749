# pyright: reportUnknownMemberType=false
"""The sampler end to end: `Generate` in, `Step` out, with exact tokens of the policy asked for."""

import asyncio
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from peft import PeftModel
from tests.support.base_models import tiny_models
from tests.support.episodes import first_turn, next_turn, policy, user
from tests.support.late_policy import LatePolicy
from tests.support.patience import PATIENCE_S
from tests.support.sampler_stage import BASE, BASE_LORA, LONG, Stage, shared, stage
from tests.support.sampling import adapter, nudged, with_weights
from transformers import PreTrainedModel

from warren_broker.inbox import listen
from warren_broker.topology import WORKERS
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.weights import save_policy
from warren_schemas.control import Heartbeat, PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.episode import FinishReason
from warren_schemas.training import Policy
from warren_schemas.transcript import Transcript

__all__ = ["stage", "tiny_models"]

N_SINGLE = 100


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
async def test_turns_that_come_one_by_one_fill_the_engine(
    stage: Stage, tiny_models: dict[str, str], tmp_path: Path
) -> None:
    """As those of chats do, and those of episodes that have long lost step with each other."""
    late = await asyncio.to_thread(LatePolicy, BASE, tiny_models[BASE], tmp_path)
    broker = stage.hub.client("listener")
    async with listen(broker, WORKERS, Heartbeat) as heartbeats:
        for _ in range(N_SINGLE):
            await stage.side.send([first_turn(late.reference)])
        n_open = 0
        async with asyncio.timeout(PATIENCE_S):
            while n_open < N_SINGLE:
                for claim in await anext(heartbeats):
                    n_open = claim.item.in_flight
                    claim.done()
    await asyncio.to_thread(late.deliver)
    assert len(await stage.side.steps(N_SINGLE)) == N_SINGLE
    await broker.close()
