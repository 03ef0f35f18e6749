"""Episodes of several turns, from a trainer's policy through a sampler and back to the trainer.

Everything in between is what a run has in between, but for the processes: transcripts grow by the
turns that the engine finishes, travel as messages, and become ops as they do in a coordinator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tests.support.engines import Bench, completed
from tests.support.factories import make_episode_ended, make_generate, make_spec
from tests.support.sampling import prompt
from tests.support.trainer import MODEL, done, forward_backward, optim_step, random_batch

from warren_gateway.coordinator.learning.batches import (
    Datum,
    WaySampled,
    by_way_sampled,
    token_batches,
)
from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_gpu_worker.sampler.engines.port import PolicyKey, Request
from warren_gpu_worker.sampler.messages import FinishedTurn
from warren_gpu_worker.sampler.supervisor.transcripts import extended
from warren_gpu_worker.sampler.supervisor.turn_items import request_of
from warren_gpu_worker.trainer.child.engine import Engine as Trainer
from warren_gpu_worker.weights import fetch_policy
from warren_schemas.codec.wire import decode, encode
from warren_schemas.config import CrossEntropyLoss, PpoLoss, Sampling
from warren_schemas.episode import EpisodeEnded
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, OpBody, OpDone, PublishPolicy
from warren_schemas.transcript import Transcript


@dataclass
class Loop:
    """A trainer and a sampler of the same base model."""

    trainer: Trainer
    bench: Bench
    n_ops: int = 0

    def apply(self, body: OpBody) -> OpDone:
        self.n_ops += 1
        return done(self.trainer.apply(MODEL, self.n_ops, body))

    def publish(self, seed: int) -> PolicyKey:
        """Take an optimizer step in some direction; the sampler's key of the new policy."""
        self.apply(forward_backward(random_batch(seed), CrossEntropyLoss()))
        self.apply(optim_step(learning_rate=0.02))
        policy = self.apply(PublishPolicy()).policy
        assert policy is not None
        key = self.bench.key()
        self.bench.engine.load(key, policy.version, fetch_policy(policy.url))
        return key

    def play(
        self, key: PolicyKey, settings: Sequence[Sampling], n_turns: int = 3
    ) -> list[EpisodeEnded]:
        """One episode with each of these settings, all of them at once."""
        transcripts = [Transcript() for _ in settings]
        for _ in range(n_turns):
            requests = [
                self._request(key, transcript, sampling)
                for transcript, sampling in zip(transcripts, settings, strict=True)
            ]
            assert not self.bench.engine.add_requests(requests)
            answers = self.bench.finish()
            transcripts = [
                extended(transcript, _finished(transcript, completed(answers[request.id])))
                for transcript, request in zip(transcripts, requests, strict=True)
            ]
        return [
            make_episode_ended(spec=make_spec(sampling=sampling), transcript=transcript)
            for transcript, sampling in zip(transcripts, settings, strict=True)
        ]

    def _request(self, key: PolicyKey, transcript: Transcript, sampling: Sampling) -> Request:
        item = make_generate(spec=make_spec(sampling=sampling), transcript=transcript)
        seen_T = prompt(self.bench.rng, int(self.bench.rng.integers(2, 8)))
        ids_T = np.concatenate([transcript.tokens.ids_T, seen_T])
        capacity = request_of(0, item).mask_capacity
        return Request(self.bench.new_id(), key, ids_T, sampling, mask_capacity=capacity)


def _finished(transcript: Transcript, request: Request) -> FinishedTurn:
    assert request.finish
    return FinishedTurn(
        id=request.id,
        prompt_ids_T=request.prompt_ids_T[len(transcript.tokens) :],
        ids_T=request.ids_T,
        logprobs_T=request.logprobs_T,
        versions_T=request.versions_T,
        text="",
        finish=request.finish,
        sampling_mask=request.sampling_mask,
    )


def trained(items: Sequence[EpisodeEnded]) -> list[ForwardBackward]:
    """The ops by which a run would learn from these episodes."""
    decoded = decode(encode(items))
    assert not decoded.rejected, decoded.rejected
    data: list[Datum] = []
    for item in decoded.items:
        assert isinstance(item, EpisodeEnded)
        assert as_trainable(item) is item
        tokens = item.transcript.tokens
        data.append(Datum(tokens, tokens.mask_T.astype(np.float32), WaySampled.of(item)))
    return [
        ForwardBackward(
            loss=PpoLoss(),
            batch=batch,
            temperature=way.temperature,
            repetition_penalty=way.repetition_penalty,
            return_logprobs=True,
        )
        for way, part in by_way_sampled(data).items()
        for batch in token_batches(part)
    ]


def ratios(batch: TokenBatch, logprobs_N: NDArray[np.float32]) -> NDArray[np.float64]:
    """p_trainer / p_sampler of the tokens that count."""
    gap_N = logprobs_N.astype(np.float64) - batch.logprobs_N
    return np.exp(gap_N[batch.mask_N == 1])
