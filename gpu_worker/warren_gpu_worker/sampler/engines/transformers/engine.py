# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""The plain transformers engine: continuous batching with a cache of keys and values, on any device.

It holds one batch for each policy that has requests. A step decodes one token for every batch,
prefills what has waited, and lets the newcomers join; rows that are done leave.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import (
    EngineStatistics,
    PolicyKey,
    Refusal,
    Request,
)
from warren_gpu_worker.sampler.engines.transformers.admission import WaitingLine
from warren_gpu_worker.sampler.engines.transformers.loaded_policies import (
    LoadedPolicies,
    LoadedPolicy,
)
from warren_gpu_worker.sampler.engines.transformers.prompt_logprobs import prompt_logprobs
from warren_gpu_worker.sampler.engines.transformers.repetition_penalty import penalized
from warren_gpu_worker.sampler.engines.transformers.rows import (
    Batch,
    decode,
    prefill,
    prefilled,
)
from warren_gpu_worker.sampler.engines.transformers.seeds import fixed_places
from warren_gpu_worker.sampler.engines.transformers.token_sampling import draw
from warren_gpu_worker.sampler.engines.turn_ends import Endings, not_finite, objection
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import PolicyFiles

_Answer = Request | Refusal

_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}


class ModelUnsupported(ValueError):
    """The base model keeps state that this engine can't batch; says which."""


@dataclass(frozen=True, slots=True)
class EngineLimits:
    max_batch: int
    """Most rows at once."""
    max_batch_tokens: int
    """Most columns times rows at once, counting what they may grow to."""
    policy_memory_bytes: int

    @staticmethod
    def of(settings: GpuWorkerSettings) -> "EngineLimits":
        return EngineLimits(
            settings.max_batch,
            settings.max_batch_tokens,
            settings.policy_memory_bytes,
        )


class TransformersEngine:
    """`endings` says when a turn is over; `sees`, whether prompts may have images."""

    def __init__(
        self,
        base: PreTrainedModel,
        *,
        endings: Endings,
        limits: EngineLimits,
        seed: int = 0,
        sees: bool = False,
    ) -> None:
        _check_supported(base)
        self._policies = LoadedPolicies(base, limits.policy_memory_bytes)
        self._endings = endings
        self._generator = torch.Generator(base.device).manual_seed(seed)
        config = base.config.get_text_config()
        self._context_length = int(config.max_position_embeddings)
        self._n_vocabulary = int(config.vocab_size)
        self._sees = sees
        self._waiting = WaitingLine(limits.max_batch, limits.max_batch_tokens)
        self._batches: dict[PolicyKey, Batch] = {}
        self._n_in_step = 0
        self._n_tokens = 0
        self._n_steps = 0

    @property
    def context_length(self) -> int:
        return self._context_length

    @property
    def caches_prefixes(self) -> bool:
        return False

    @property
    def has_work(self) -> bool:
        return bool(self._batches or self._waiting)

    def has_requests(self, policy: PolicyKey) -> bool:
        return policy in self._busy()

    def version_of(self, policy: PolicyKey) -> int | None:
        return self._policies.version_of(policy)

    def load(
        self,
        policy: PolicyKey,
        version: int,
        files: PolicyFiles | None,
        *,
        recompute: bool = False,
    ) -> None:
        with torch.no_grad():
            self._policies.load(policy, version, files)
            if recompute and policy in self._batches:
                self._batches[policy] = prefilled(
                    self._policies.use(policy).module, self._batches[policy]
                )
        self._policies.evict_unused(self._busy() | {policy})

    def unload(self, policy: PolicyKey) -> None:
        self._policies.unload(policy)

    def add_requests(self, requests: Sequence[Request]) -> list[Refusal]:
        refusals: list[Refusal] = []
        for request in requests:
            if refusal := self._objection(request):
                refusals.append(refusal)
            else:
                request.fit(self._context_length)
                self._waiting.append(request)
        return refusals

    def cancel(self, ids: Collection[int]) -> None:
        self._waiting.remove(ids)
        for key, batch in list(self._batches.items()):
            kept = [i for i, row in enumerate(batch.rows) if row.id not in ids]
            self._keep(key, batch, kept)

    def step(self) -> list[_Answer]:
        answers: list[_Answer] = []
        newcomers = self._waiting.admit({key: b.rows for key, b in self._batches.items()})
        self._n_in_step = self._n_rows() + sum(map(len, newcomers.values()))
        with torch.inference_mode():
            for key, batch in list(self._batches.items()):
                policy = self._policies.use(key)
                self._advance(key, policy, batch, decode(policy.module, batch), answers)
            for key, rows in newcomers.items():
                self._begin(key, rows, answers)
        self._n_steps += 1
        self._n_in_step = 0
        return answers

    def statistics(self) -> EngineStatistics:
        """After a step that raised, `n_running` are all that it computed: its batches are in pieces."""
        return EngineStatistics(
            n_running=self._n_in_step or self._n_rows(),
            n_waiting=len(self._waiting),
            n_policies=len(self._policies),
            policy_bytes=self._policies.size_bytes,
            n_tokens=self._n_tokens,
            n_steps=self._n_steps,
        )

    def _n_rows(self) -> int:
        return sum(len(batch.rows) for batch in self._batches.values())

    def _objection(self, request: Request) -> Refusal | None:
        return objection(request, self._context_length, self._n_vocabulary, sees=self._sees)

    def _busy(self) -> set[PolicyKey]:
        return self._waiting.policies | self._batches.keys()

    def _begin(self, key: PolicyKey, rows: list[Request], answers: list[_Answer]) -> None:
        policy = self._policies.use(key)
        for row in rows:
            if row.options.n_top is not None:
                row.prompt_logprobs = prompt_logprobs(policy.module, row, self._generator)
        running = self._batches.pop(key, None)
        batch, logits_BV = prefill(policy.module, rows)
        self._advance(key, policy, batch, logits_BV, answers)
        survivors = self._batches.get(key)
        if running and survivors:
            self._batches[key] = running.joined(survivors)
        elif running:
            self._batches[key] = running

    def _advance(
        self,
        key: PolicyKey,
        policy: LoadedPolicy,
        batch: Batch,
        logits_BV: Tensor,
        answers: list[_Answer],
    ) -> None:
        """Draw the next token of every row; those that are done leave the batch."""
        logits_BV = penalized(logits_BV, batch.rows)
        fixed = fixed_places(batch.rows) if batch.settings_B.any_seed else None
        drawn = draw(logits_BV, batch.settings_B, self._generator, fixed)
        kept: list[int] = []
        tokens = zip(batch.rows, drawn.ids, drawn.logprobs, strict=True)
        for index, (row, token, logprob) in enumerate(tokens):
            if math.isnan(logprob):
                answers.append(not_finite(row, policy.version))
                continue
            row.append(token, logprob, policy.version, drawn.sets.get(index))
            if self._endings.is_finished(row):
                answers.append(row)
            else:
                kept.append(index)
        self._n_tokens += len(batch.rows)
        self._keep(key, batch, kept)

    def _keep(self, key: PolicyKey, batch: Batch, kept: list[int]) -> None:
        if not kept:
            self._batches.pop(key, None)
        else:
            self._batches[key] = batch if len(kept) == len(batch.rows) else batch.select(kept)


def _check_supported(base: PreTrainedModel) -> None:
    kinds = set(getattr(base.config.get_text_config(), "layer_types", None) or ())
    if kinds - _ATTENTION:
        names = ", ".join(sorted(kinds - _ATTENTION))
        raise ModelUnsupported(f"the model has layers that this engine can't batch: {names}")
