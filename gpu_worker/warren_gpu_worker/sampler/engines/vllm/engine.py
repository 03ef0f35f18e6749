"""The vLLM engine: its core in this process, stepped by hand, behind the engine port.

A step of ours is a step of vLLM's. What happens between two steps (new weights, cancellations)
happens while no token is made, so the version of a token is known from the moment at which it came.

- An adapter's new version replaces the old one in place; requests under way go over to it.
- Full weights are replaced in place as well; sets of full weights take turns (`weight_sets`).
- No request ever shares what was cached under other weights: adapters by name, full weights by salt.
  To compute the cache anew, vLLM preempts all that runs, requests of other policies too.
- Requests that run on the bare base model when their policy gets its first adapter, or its first
  weights while others run there, are finished under the version that they began with.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import cast

from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.inputs import EngineInput
from vllm.lora.request import LoRARequest
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.v1.engine.llm_engine import LLMEngine

from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.counters import Counters
from warren_gpu_worker.sampler.engines.port import (
    EngineStatistics,
    PolicyKey,
    Refusal,
    Request,
)
from warren_gpu_worker.sampler.engines.turn_ends import Endings, not_finite, objection
from warren_gpu_worker.sampler.engines.vllm import startup
from warren_gpu_worker.sampler.engines.vllm.adapters import AdapterCache
from warren_gpu_worker.sampler.engines.vllm.masks import KeptSets, mask_processor
from warren_gpu_worker.sampler.engines.vllm.prompt_logprobs import told_prompt
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.sampler.engines.vllm.running import RunningRequest
from warren_gpu_worker.sampler.engines.vllm.sampling_params import parameters_of, unsuited
from warren_gpu_worker.sampler.engines.vllm.weight_sets import WeightSet, WeightSets
from warren_gpu_worker.sampler.engines.vllm.weights import replacing
from warren_gpu_worker.sampler.engines.weight_shapes import BaseShapes
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.episode import FailureKind

_Answer = Request | Refusal


class VllmEngine:
    """`endings` says when a turn is over; `vision` makes the images of a model that takes them; `place` is the first machine's, of several."""

    def __init__(
        self,
        folder: str,
        settings: GpuWorkerSettings,
        endings: Endings,
        vision: VisionInputs | None = None,
        place: Place | None = None,
    ) -> None:
        arguments = startup.engine_arguments(folder, settings, place)
        self._with_images = startup.enable_images(vision, arguments) if vision else None
        self._kept_sets = KeptSets()
        self._is_one_process = settings.vllm.n_gpus == 1
        if self._is_one_process:  # others could not tell it what they kept
            arguments |= {"logits_processors": [mask_processor(self._kept_sets)]}
        self._engine = LLMEngine.from_engine_args(EngineArgs(**arguments))  # pyright: ignore[reportArgumentType]
        self._replace_weights = replacing(self._engine, settings)
        self._context_length = startup.told_context(self._engine.model_config.max_model_len, folder)
        self._n_vocabulary = startup.vocabulary_size(folder)
        self._endings = endings
        self._max_rank = settings.vllm.max_adapter_rank
        self._shapes = BaseShapes(folder)
        self._adapters = AdapterCache(
            self._engine,
            settings.vllm.max_adapters,
            settings.policy_memory_bytes,
            self._shapes.zero_adapter() if startup.needs_zero_adapter(settings) else None,
            settings.sampler_machines,
        )
        self._sets = WeightSets(settings.policy_memory_bytes)
        self._base_versions: dict[PolicyKey, int] = {}
        self._running: dict[int, RunningRequest] = {}
        self._n_reloads = 0
        self._counters = Counters()

    @property
    def context_length(self) -> int:
        return self._context_length

    @property
    def caches_prefixes(self) -> bool:
        return True

    @property
    def has_work(self) -> bool:
        return bool(self._running or self._sets.n_waiting)

    def has_requests(self, policy: PolicyKey) -> bool:
        return policy in self._busy()

    def version_of(self, policy: PolicyKey) -> int | None:
        if adapter := self._adapters.get(policy):
            return adapter.version
        if weights := self._sets.get(policy):
            return weights.version
        return self._base_versions.get(policy)

    def load(
        self,
        policy: PolicyKey,
        version: int,
        files: PolicyFiles | None,
        *,
        recompute: bool = False,
    ) -> None:
        if files is None:
            self.unload(policy)
            self._base_versions[policy] = version
            return
        self._shapes.check(files, self._max_rank)
        if files.kind == "lora":
            self._adapters.load(policy, version, files)
        else:
            self._load_full(policy, version, files)
        if recompute and policy in self._running_policies():
            self._engine.reset_prefix_cache(reset_running_requests=True)
        self._base_versions.pop(policy, None)
        self._adapters.evict_unused(busy := self._busy() | {policy})
        self._sets.evict_unused(busy)

    def stage(self, files: PolicyFiles) -> PolicyFiles:
        return replace(files, staged=self._adapters.stage(files)) if files.kind == "lora" else files

    def unload(self, policy: PolicyKey) -> None:
        self._adapters.unload(policy)
        self._sets.drop_set(policy)
        self._base_versions.pop(policy, None)

    def add_requests(self, requests: Sequence[Request]) -> list[Refusal]:
        refusals: list[Refusal] = []
        for request in requests:
            if refusal := self._refusal(request):
                refusals.append(refusal)
            else:
                request.fit(self._context_length)
                self._sets.wait(request)
        return refusals

    def cancel(self, ids: Collection[int]) -> None:
        self._sets.remove(ids)
        self._abort([i for i in ids if self._forget(i)])

    def step(self) -> list[_Answer]:
        answers: list[_Answer] = []
        self._admit(answers)
        if self._running:
            for output in self._engine.step():
                self._advance(int(output.request_id), output, answers)
        self._counters.n_steps += 1
        return answers

    def sleep(self) -> None:
        """Level 1: weights, adapters' places among them, wait in the host's memory.

        `keep` preempts what runs; so the cache is empty, and no block of it is ever shared later.
        """
        self._engine.sleep(level=1, mode="keep")

    def wake(self) -> None:
        self._engine.wake_up()

    def statistics(self) -> EngineStatistics:
        return EngineStatistics(
            n_running=len(self._running),
            n_waiting=self._sets.n_waiting,
            n_policies=len(self._adapters) + len(self._sets),
            policy_bytes=self._adapters.size_bytes + self._sets.size_bytes,
            **asdict(self._counters),
        )

    def _refusal(self, request: Request) -> Refusal | None:
        limits, sees = (self._context_length, self._n_vocabulary), bool(self._with_images)
        own = unsuited(request, bool(self._adapters.zero), keeps_masks=self._is_one_process)
        return objection(request, *limits, sees=sees) or own

    def _busy(self) -> set[PolicyKey]:
        return self._running_policies() | self._sets.waiting_policies

    def _running_policies(self) -> set[PolicyKey]:
        return {running.request.policy for running in self._running.values()}

    def _load_full(self, policy: PolicyKey, version: int, files: PolicyFiles) -> None:
        self._sets.put(policy, WeightSet(version, files.tensors))
        if self._sets.in_place == policy or self._has_base_to_itself(policy):
            self._put_in_place(policy)
            for running in self._running.values():
                running.weights = policy

    def _has_base_to_itself(self, policy: PolicyKey) -> bool:
        """Whether all that runs is this policy's, on the bare base model."""
        return bool(self._running) and all(
            running.request.policy == policy and not running.has_adapter and not running.weights
            for running in self._running.values()
        )

    def _put_in_place(self, policy: PolicyKey | None) -> None:
        """Give vLLM this set of full weights; None: the base model's own, from its folder."""
        weights = self._sets.get(policy) if policy else None
        self._replace_weights(weights.tensors if weights else None)
        self._sets.in_place = policy
        self._n_reloads += 1

    def _admit(self, answers: list[_Answer]) -> None:
        if self._sets.n_waiting and not self._running:
            turn = self._sets.next_turn()
            if turn != self._sets.in_place:
                self._put_in_place(turn)
        for request in self._sets.due():
            try:
                self._start(request)
            except (ValueError, VLLMValidationError) as error:  # limits of its own
                self._forget(request.id)
                reason = f"vLLM refuses this request: {error}"
                answers.append(Refusal(request.id, FailureKind.INVALID_REQUEST, reason))

    def _start(self, request: Request) -> None:
        policy = request.policy
        weights, base_version = self._sets.in_place, self._base_versions.get(policy, 0)
        has_adapter = self._adapters.get(policy) is not None
        self._running[request.id] = RunningRequest(request, has_adapter, weights, base_version)
        self._engine.add_request(
            str(request.id),
            self._prompt(request, salt=str(self._n_reloads)),
            parameters_of(request, self._endings, self._kept_sets),
            lora_request=self._adapter_for(policy),
            priority=request.priority,
        )

    def _prompt(self, request: Request, salt: str) -> EngineInput:
        """Nothing that vLLM caches is shared between salts."""
        if request.pictures and self._with_images:
            return self._with_images(request, salt)
        ids = request.prompt_ids_T.tolist()
        return {"type": "token", "prompt_token_ids": ids, "cache_salt": salt}

    def _adapter_for(self, policy: PolicyKey) -> LoRARequest | None:
        if self._adapters.get(policy):
            return self._adapters.use(policy).handle
        return None if self._sets.in_place else self._adapters.zero

    def _advance(self, request_id: int, told_of: RequestOutput, answers: list[_Answer]) -> None:
        """Take over what a step gave one request."""
        running, output = self._running[request_id], told_of.outputs[0]
        request, version = running.request, self._version_in_use(running)
        if not request.ids:
            self._counters.prompted(request.prompt_ids_T.size, told_of.num_cached_tokens or 0)
            request.prompt_logprobs = told_prompt(request, told_of.prompt_logprobs)
        for token, told in zip(output.token_ids, output.logprobs or (), strict=True):
            logprob = told[token].logprob
            if math.isnan(logprob):
                answers.append(not_finite(request, version))
                self._drop_request(request_id, output)
                return
            sampled_from = self._kept_sets.newest(request_id)
            request.append(token, min(logprob, 0.0), version, sampled_from)
            self._counters.n_tokens += 1
            if self._endings.is_finished(request):
                answers.append(request)
                self._drop_request(request_id, output)
                return
        if output.finish_reason is not None:
            reason = f"vLLM gave this request up: {output.finish_reason}"
            answers.append(Refusal(request_id, FailureKind.SAMPLER_ERROR, reason))
            self._drop_request(request_id, output)

    def _version_in_use(self, running: RunningRequest) -> int:
        policy = running.request.policy
        if running.has_adapter:
            return cast(int, self.version_of(policy))
        if running.weights:
            return cast(int, self.version_of(running.weights))
        return running.base_version

    def _drop_request(self, request_id: int, output: CompletionOutput) -> None:
        self._forget(request_id)
        if output.finish_reason is None:
            self._abort([request_id])

    def _forget(self, request_id: int) -> bool:
        """Whether there was such a request."""
        self._kept_sets.forget(request_id)
        return self._running.pop(request_id, None) is not None

    def _abort(self, ids: Collection[int]) -> None:
        if ids:
            self._engine.abort_request([str(i) for i in ids])
