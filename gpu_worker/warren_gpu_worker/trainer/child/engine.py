# pyright: reportUnknownMemberType=false
"""The engine: models by id, and what each op does to them. Lives in the child process.

Invariants:
- An op either has its whole effect and answers `OpDone`, or answers `OpFailed` and the weights are
  as before. A failed forward_backward spoils the gradient of its window: the next optim_step drops
  the gradient and fails too, saying why. An error after which the device can't be used is raised
  instead, and where there are several ranks one that one alone may have; it ends the process.
- The same ops give the same bits on the same machine: one seed for each op, fixed micro-batches,
  deterministic kernels.
- Ops of other models never touch this one.
- A disk that is full is an outage like any other: what writes a checkpoint or a policy is tried again
  until it is not (`on_disk_full` waits between two tries). Without it the op fails.
"""

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from warren_gpu_worker.atomic_folder import join_url, sweep
from warren_gpu_worker.file_progress import Progress, unheard
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.trainer.child.checkpoint import (
    adopt_checkpoint,
    forget_older,
    load_checkpoint,
    policies_url,
    save_checkpoint,
    states_url,
)
from warren_gpu_worker.trainer.child.failures import failed, too_large
from warren_gpu_worker.trainer.child.model_factory import EngineConfig, ModelFactory
from warren_gpu_worker.trainer.child.offloading import Offloading
from warren_gpu_worker.trainer.child.policy_publishing import Publisher
from warren_gpu_worker.trainer.errors import (
    CheckpointError,
    OpError,
    RankFailed,
    is_disk_full,
    opening_reason_of,
    reason_of,
)
from warren_gpu_worker.trainer.training.lora_batching import LoraBatching, Member, apply_batch
from warren_gpu_worker.trainer.training.op_seed import seed_op
from warren_gpu_worker.trainer.training.optimizer_step import optimizer_step
from warren_gpu_worker.trainer.training.pass_budget import PassBudget, fitted_loss
from warren_gpu_worker.trainer.training.ranks import ALONE, Ranks
from warren_gpu_worker.trainer.training.reference import keep_reference
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.ids import ModelId
from warren_schemas.training import (
    Forward,
    ForwardBackward,
    KeepReference,
    LoadState,
    ModelSpec,
    OpBody,
    OpDone,
    OpFailed,
    OpOutcome,
    OptimStep,
    PublishPolicy,
    Refused,
    SaveState,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    model: TrainableModel
    publisher: Publisher
    budget: PassBudget


class Engine:
    def __init__(
        self,
        config: EngineConfig,
        progress: Progress = unheard,
        ranks: Ranks = ALONE,
        copies: LocalCopies | None = None,
        on_disk_full: Callable[[ModelId], None] | None = None,
    ) -> None:
        """`progress` is called before every micro-batch and every step over files; `copies` take
        what is published; `on_disk_full` is called when a model's files don't fit, and waits a while.

        Where there are several ranks, each has an engine, and all are called alike.
        """
        self._config = config
        self._ranks = ranks
        self._progress = progress
        self._copies = copies
        self._on_disk_full = on_disk_full
        self._model_factory = ModelFactory(config, ranks, progress)
        self._entries: dict[ModelId, _Entry] = {}
        self._offloading = Offloading(config.resident_models)
        self._lora_batching = LoraBatching(
            max_tokens=config.micro_batch_tokens,
            max_models=config.resident_models,
            checkpoint_activations=config.checkpoint_activations,
        )

    def open(
        self,
        model_id: ModelId,
        spec: ModelSpec,
        *,
        checkpoint_url: str | None,
        next_op: int,
        max_tokens: int | None = None,
    ) -> OpOutcome:
        """Make the model, or restore it, replacing one of the same id. `max_tokens` of a pass that fit."""
        self.close(model_id)
        note = None
        try:
            model = self._ranks.all_or_none(lambda: self._model_factory.make(spec))
            if checkpoint_url is not None:
                note = load_checkpoint(checkpoint_url, model_id, model, self._progress)
            restored = checkpoint_url is not None
            self._ranks.all_or_none(lambda: _continue_at(model, next_op, restored=restored))
            publisher = self._take_over(model_id)
            self._offloading.use(model_id, model)
        except Exception as error:  # a model must not take the others down with it
            log.warning("model %s can't be opened", model_id, exc_info=True)
            if self._ranks.must_end(error):
                raise
            return OpFailed(reason=f"the model can't be opened: {opening_reason_of(error)}")
        budget = PassBudget(self._config.micro_batch_tokens)
        if max_tokens is not None:
            budget.lower(max_tokens)
        self._entries[model_id] = _Entry(model, publisher, budget)
        vocabulary = self._model_factory.vocabulary(spec)
        return OpDone(
            version=model.version,
            note=note,
            tokenizer=vocabulary,
            vocabulary_size=model.network.vocabulary,
        )

    def close(self, model_id: ModelId) -> None:
        """Forget the model; no error when there is none."""
        if entry := self._entries.pop(model_id, None):
            entry.publisher.close()
        self._offloading.forget_model(model_id)

    def offload(self) -> None:
        """Take full-parameter models off the device; each comes back with its next op.

        Raises what copying them to the host does; then the process must end.
        """
        for model_id, entry in self._entries.items():
            self._offloading.leave_device(model_id, entry.model)
        gc.collect()  # a closed model may still hang together
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def apply(self, model_id: ModelId, number: int, body: OpBody) -> OpOutcome:
        """Apply one op; the caller sees to the order. Raises only what must end the process, `OpTooLarge` for a
        lack of memory."""
        entry = self._entries.get(model_id)
        if entry is None:
            return OpFailed(reason="the model is not open")
        model = entry.model
        seed_op(model.network.device, model.spec.seed, number)
        model.last_op = number
        try:
            self._offloading.use(model_id, model)
            return self._apply_waiting_for_disk_space(entry, model_id, body)
        except OpError as error:
            is_users = not isinstance(error, RankFailed)
            return failed(model, body, str(error), is_users=is_users)
        except Exception as error:  # out of memory, a store's own errors, a bug: the model lives on
            log.exception("op %d of model %s failed", number, model_id)
            if (word := too_large(error, model_id, number, self._ranks)) is not None:
                raise word from error
            if self._ranks.must_end(error):
                raise
            return failed(model, body, reason_of(error))

    def fail(self, model_id: ModelId, number: int, body: OpBody, reason: str) -> OpOutcome:
        """Leave an op out that can't be applied here."""
        entry = self._entries.get(model_id)
        if entry is None:
            return OpFailed(reason="the model is not open")
        entry.model.last_op = number
        return failed(entry.model, body, reason)

    def apply_batched(
        self, orders: Sequence[tuple[ModelId, int, ForwardBackward]]
    ) -> list[OpOutcome]:
        """Apply one op of each of several models; those that fit together share a batch.

        What each does and answers is what it would alone, but for the last bits. Raises what `apply` does.
        """
        outcomes: dict[ModelId, OpOutcome] = {}
        for batched_with in self._lora_batching.batches(self._members(orders)):
            if len(batched_with) > 1:
                outcomes |= self._apply_batch(batched_with)
        return [
            outcomes.get(model_id) or self.apply(model_id, number, body)
            for model_id, number, body in orders
        ]

    def _members(self, orders: Sequence[tuple[ModelId, int, ForwardBackward]]) -> Iterator[Member]:
        for model_id, number, body in orders:
            entry = self._entries.get(model_id)
            if entry is None or entry.model.spec.deterministic or self._is_cut(entry):
                continue
            if (
                found := self._lora_batching.member(model_id, number, entry.model, body)
            ) is not None:
                yield found

    def _is_cut(self, entry: _Entry) -> bool:
        """Its passes had to be made smaller, so a batch with others would be too large."""
        return entry.budget.max_tokens < self._config.micro_batch_tokens

    def _apply_batch(self, batched_with: list[Member]) -> dict[ModelId, OpOutcome]:
        """What the ops answer; nothing when they must go alone after all."""
        self._progress()
        try:
            for m in batched_with:
                self._offloading.use(m.model_id, m.model)
            log.debug("%d models share a batch", len(batched_with))
            results = apply_batch(self._lora_batching.decoder(batched_with), batched_with)
        except Exception as error:  # out of memory, most likely; alone each needs less
            log.warning("%d models can't share a batch", len(batched_with), exc_info=True)
            if self._ranks.must_end(error):
                raise
            return {}
        outcomes: dict[ModelId, OpOutcome] = {}
        for m, result in zip(batched_with, results, strict=True):
            m.model.last_op = m.number
            if not isinstance(result, OpDone):
                result = failed(m.model, m.op, str(result), is_users=True)
            outcomes[m.model_id] = result
        return outcomes

    def _apply_waiting_for_disk_space(
        self, entry: _Entry, model_id: ModelId, body: OpBody
    ) -> OpOutcome:
        """Tried again for as long as a disk is full."""
        while True:
            try:
                return self._apply(entry, model_id, body)
            except Exception as error:
                writes = isinstance(body, SaveState | PublishPolicy)
                if self._on_disk_full is None or not (writes and is_disk_full(error)):
                    raise
                log.warning("op %d of model %s waits: %s", entry.model.last_op, model_id, error)
            self._on_disk_full(model_id)

    def _apply(self, entry: _Entry, model_id: ModelId, body: OpBody) -> OpOutcome:
        model = entry.model
        match body:
            case Forward() | ForwardBackward():
                return fitted_loss(model, body, entry.budget, progress=self._progress)
            case OptimStep():
                return optimizer_step(model, body)
            case PublishPolicy(keep=keep, is_live=is_live):
                return entry.publisher.publish(model, keep, is_live=is_live)
            case SaveState():
                states = states_url(self._config.checkpoint_url, model_id)
                url = join_url(states, body.name)
                size_bytes = save_checkpoint(url, model_id, model, body.note, self._progress)
                if (names := body.keep) is not None:
                    self._ranks.by_first(
                        lambda: forget_older(states, body.name, names, self._progress)
                    )
                return OpDone(
                    version=model.version, checkpoint_url=url, checkpoint_bytes=size_bytes
                )
            case LoadState():
                adopt_checkpoint(body.url, model, optimizer=body.optimizer, progress=self._progress)
                return OpDone(version=model.version)
            case KeepReference():
                return keep_reference(model)
            case Refused(reason=reason):
                raise OpError(reason)

    def _take_over(self, model_id: ModelId) -> Publisher:
        """Tidy up after whoever trained the model before; it has lost the lease."""
        url = self._config.checkpoint_url
        for folder in (states_url(url, model_id), policies_url(url, model_id)):
            self._ranks.by_first(partial(sweep, folder))
        n_kept = self._config.keep_policies
        return Publisher(url, model_id, self._ranks, self._copies, self._progress, n_kept)


def _continue_at(model: TrainableModel, next_op: int, *, restored: bool) -> None:
    if next_op != model.last_op + 1:
        made = "the checkpoint was made" if restored else "a new model stands"
        raise CheckpointError(f"{made} after op {model.last_op}, so op {next_op} can't be next")
