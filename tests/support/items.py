"""Items as they travel in a real run, for tests and benchmarks of what carries them."""

import time

import numpy as np

from warren_schemas.config import Sampling
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodeSpec, FinishReason, Generate, PolicyRef, Step, TaskRef
from warren_schemas.events import RunEvent, WarningRaised
from warren_schemas.ids import EpisodeId, GroupId, ModelId, RunId, WorkerId
from warren_schemas.transcript import ChatMessage, Tokens, Transcript

SPEC = EpisodeSpec(
    group=GroupId("group_1"),
    member=0,
    environment="guess",
    task=TaskRef(index=0),
    seed=1,
    policy=PolicyRef(model=ModelId("model_1"), base_model="tiny", min_version=0),
    sampling=Sampling(),
    max_turns=8,
)


def transcript(n_tokens: int, *, text: str = "guess: 50") -> Transcript:
    """One prompt and one answer over `n_tokens` tokens, the second half of them sampled."""
    mask_T = np.zeros(n_tokens, np.uint8)
    mask_T[n_tokens // 2 :] = 1
    return Transcript(
        messages=(
            ChatMessage(role="user", content="Guess a number from 1 to 100."),
            ChatMessage(role="assistant", content=text),
        ),
        n_rendered=2,
        tokens=Tokens(
            ids_T=np.arange(n_tokens, dtype=np.int32),
            mask_T=mask_T,
            logprobs_T=np.where(mask_T == 1, -0.5, 0.0).astype(np.float32),
            versions_T=np.where(mask_T == 1, 3, -1).astype(np.int32),
        ),
        reset_digest="d0",
    )


def envelope(episode: str) -> Envelope:
    return Envelope(run=RunId("run_1"), episode=EpisodeId(episode))


def step(episode: str = "ep_1", *, turn: int = 1, n_tokens: int = 16, text: str = "50") -> Step:
    return Step(
        envelope=envelope(episode),
        spec=SPEC,
        transcript=transcript(n_tokens, text=text),
        turn=turn,
        finish=FinishReason.STOP,
    )


def generate(episode: str = "ep_1", *, turn: int = 1, n_tokens: int = 16) -> Generate:
    return Generate(
        envelope=envelope(episode),
        spec=SPEC,
        transcript=transcript(n_tokens),
        turn=turn,
        home="env_1",
    )


def heartbeat(worker: str = "env_1") -> Heartbeat:
    return Heartbeat(
        envelope=Envelope(),
        worker=WorkerId(worker),
        role=WorkerRole.ENVIRONMENT,
        offers=("guess",),
        interval_s=2.0,
        capacity=8,
        in_flight=0,
    )


def run_event(message: str = "something happened") -> RunEvent:
    return RunEvent(
        envelope=envelope("ep_1"), at_s=time.time(), body=WarningRaised(message=message)
    )
