# pyright: reportUnknownMemberType=false
"""The sampler on vLLM, end to end: updates, bad input, sleep and a killed child, all under load."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
import torch
from peft import PeftModel
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import needs_vllm, settings_for
from tests.support.episodes import (
    EnvironmentSide,
    environment_side,
    first_turn,
    next_turn,
    policy,
    user,
)
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import children_running
from tests.support.sampling import adapter, nudged, with_weights
from transformers import PreTrainedModel

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.topology import POLICIES
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare, TimeShareLimits
from warren_gpu_worker.weights import save_policy
from warren_schemas.codec.wire import encode
from warren_schemas.config import Sampling
from warren_schemas.control import PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Failed, FailureKind, PolicyRef, Step
from warren_schemas.training import Policy
from warren_schemas.transcript import Transcript

__all__ = ["even_model", "tiny_models"]

BASE = "warren/tiny-lora"
"""The name under which the model is offered."""
LONG = Sampling(max_tokens=120)

pytestmark = [needs_vllm, several_waits, pytest.mark.asyncio(loop_scope="module")]


class Stage:
    def __init__(
        self, hub: MemoryHub, side: EnvironmentSide, folder: str, time_share: TimeShare
    ) -> None:
        self.hub = hub
        self.time_share = time_share
        self.side = side
        self.base = load_base(folder)

    async def announce(self, of: PolicyRef, version: int, url: str) -> None:
        newer = Policy(version=version, url=url, size_bytes=1)
        item = PolicyPublished(envelope=Envelope(), model=of.model, base_model=BASE, policy=newer)
        broker = self.hub.client("announcer")
        await broker.publish(POLICIES, encode([item]), message_id=item.envelope.id)
        await broker.close()


@contextmanager
def children_import_from_here() -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(["schemas", "broker", "gpu_worker"]))
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(even_model: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    folder = tmp_path_factory.mktemp("vllm-stage")
    settings: GpuWorkerSettings = settings_for(
        "vllm",
        even_model,
        base_models={BASE: even_model},
        roles=frozenset({"sampler"}),
        log_dir=folder,
    )
    with children_import_from_here():
        async with open_hub(folder / "broker") as hub, environment_side(hub) as side:
            broker, time_share = hub.client("sampler"), TimeShare(TimeShareLimits(keep_s=0.01))
            task = asyncio.create_task(serve_sampler(broker, settings, time_share=time_share))
            try:
                await side.send([first_turn(policy(BASE))])
                await side.steps(1, timeout_s=300.0)
                yield Stage(hub, side, even_model, time_share)
            finally:
                task.cancel()
                await asyncio.wait([task])
                await broker.close()


def exactness(model: PreTrainedModel | PeftModel, transcript: Transcript) -> float:
    """The largest difference of the sampled logprobs from those of one plain forward pass."""
    tokens = transcript.tokens
    ids_T = torch.from_numpy(tokens.ids_T.astype(np.int64))
    with torch.inference_mode():
        logprobs_TV = model(ids_T[None]).logits[0].log_softmax(-1)
    chosen_T = logprobs_TV[:-1].gather(1, ids_T[1:, None])[:, 0].numpy()
    is_sampled_T = tokens.mask_T == 1
    return float(np.abs(chosen_T[is_sampled_T[1:]] - tokens.logprobs_T[is_sampled_T]).max())


def versions_of(step: Step) -> list[int]:
    tokens = step.transcript.tokens
    return tokens.versions_T[tokens.mask_T == 1].tolist()


@pytest.mark.parametrize("kind", ["lora", "full"])
async def test_policies_are_swapped_under_load_and_stay_exact(
    stage: Stage, tmp_path: Path, kind: str
) -> None:
    models: list[PreTrainedModel | PeftModel] = []
    urls: list[str] = []
    for version in (1, 2):
        if kind == "lora":
            models.append(adapter(stage.base, seed=version)[1])
        else:
            models.append(with_weights(stage.base, nudged(stage.base, seed=version)))
        urls.append((tmp_path / f"v{version}").as_uri())
        await asyncio.to_thread(save_policy, models[-1], urls[-1])
    acting = policy(BASE, min_version=1, url=urls[0])
    await stage.side.send([first_turn(acting, sampling=LONG) for _ in range(60)])
    steps = await stage.side.steps(5)
    await stage.announce(acting, 2, urls[1])
    steps += await stage.side.steps(60 - len(steps))
    while 2 not in versions_of(steps[-1]):  # the news is heard sooner or later
        steps += await stage.side.ask([first_turn(acting)])
    for step in steps:
        versions = versions_of(step)
        assert versions == sorted(versions)
        assert set(versions) <= {1, 2}
        if len(set(versions)) == 1:
            assert exactness(models[versions[0] - 1], step.transcript) < 1e-3


async def test_next_turns_go_back_to_where_the_first_ones_are_cached(stage: Stage) -> None:
    turns = [first_turn(policy(BASE), user("1234567890" * 15)) for _ in range(5)]
    await stage.side.send(turns)
    for n_turns in (1, 2, 3):
        steps = await stage.side.steps(5)
        for step in steps:
            assert step.turn == n_turns
            assert exactness(stage.base, step.transcript) < 1e-3
            assert step.return_to is not None
            await stage.side.send_back([next_turn(step, user("54321"))], step.return_to)
    assert {step.turn for step in await stage.side.steps(5)} == {4}


@pytest.mark.parametrize("kind", ["lora", "full"])
async def test_turns_under_way_go_on_exactly_after_a_trainer_had_the_gpu(
    stage: Stage, tmp_path: Path, kind: str
) -> None:
    """On a CPU sleeping frees nothing; all else that it does it does here."""
    model = adapter(stage.base, 1)[1] if kind == "lora" else None
    model = model or with_weights(stage.base, nudged(stage.base, 1))
    url = (tmp_path / "v1").as_uri()
    await asyncio.to_thread(save_policy, model, url)
    acting = policy(BASE, min_version=1, url=url)
    turns = [first_turn(acting, sampling=LONG) for _ in range(30)]
    await stage.side.send(turns)
    steps = await stage.side.steps(1)
    for _ in range(2):
        await asyncio.wait_for(stage.time_share.acquire_for_training(), PATIENCE_S)
        turns.append(first_turn(acting, sampling=LONG))
        await stage.side.send(turns[-1:])
        stage.time_share.release_from_training()
        steps += await stage.side.steps(1)
    steps += await stage.side.steps(len(turns) - len(steps))
    assert {s.envelope.episode for s in steps} == {t.envelope.episode for t in turns}
    for step in steps:
        assert exactness(model, step.transcript) < 1e-3


async def test_bad_turns_fail_alone(stage: Stage, tmp_path: Path) -> None:
    broken, good = tmp_path / "broken", policy(BASE)
    _, model = adapter(stage.base, seed=1)
    await asyncio.to_thread(save_policy, model, broken.as_uri())
    (broken / "adapter_model.safetensors").write_bytes(b"no tensors")
    bad = {
        FailureKind.CONTEXT_LENGTH: [
            first_turn(good, user("7" * 600)),
            first_turn(good, user("7" * 3_000_000)),
        ],
        FailureKind.POLICY_UNAVAILABLE: [
            first_turn(policy(BASE, min_version=1, url=broken.as_uri())),
            first_turn(policy(BASE, min_version=1, url=(tmp_path / "nowhere").as_uri())),
        ],
        FailureKind.INVALID_REQUEST: [
            first_turn(good, sampling=Sampling(temperature=50.0)),
            first_turn(good, sampling=Sampling(temperature=0.001)),
        ],
    }
    healthy = [first_turn(good, sampling=LONG) for _ in range(10)]
    await stage.side.send([*healthy, *(turn for turns in bad.values() for turn in turns)])
    ends = {e.envelope.episode: e.outcome for e in await stage.side.ends(6, timeout_s=200.0)}
    for kind, turns in bad.items():
        for turn in turns:
            outcome = ends[turn.envelope.episode]
            assert isinstance(outcome, Failed)
            assert (outcome.kind, bool(outcome.reason)) == (kind, True)
    answered = {step.envelope.episode for step in await stage.side.steps(10)}
    assert answered == {turn.envelope.episode for turn in healthy}


@pytest.mark.storm
@pytest.mark.thorough
async def test_when_the_engine_core_is_killed_every_turn_is_answered_by_another(
    stage: Stage,
) -> None:
    before = children_running("sampler.child")
    turns = [first_turn(policy(BASE), sampling=LONG) for _ in range(60)]
    await stage.side.send(turns)
    steps = await stage.side.steps(3)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    steps += await stage.side.steps(60 - len(steps), timeout_s=300.0)
    assert {s.envelope.episode for s in steps} == {t.envelope.episode for t in turns}
    assert not set(before) & set(children_running("sampler.child"))
