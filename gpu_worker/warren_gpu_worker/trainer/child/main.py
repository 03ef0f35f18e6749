# pyright: reportUnknownMemberType=false
"""The trainer's child process: `python -m warren_gpu_worker.trainer.child.main NAME`.

One thread: it takes an order, carries it out, answers, takes the next. Orders wait in the socket,
so there is no pause between two ops. Where there are several ranks (see `ranks`), each is such a
process, started by `launching/agent`; the first one alone hears orders, which it tells the others, and
answers.

Invariants: every op is answered, whatever it asks for, unless it ends the process, as a lost device
does; when the supervisor closes the conversation the process ends; the same ops give the same bits,
so kernels are deterministic where torch has such.
"""

import logging
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import cast

import torch
import transformers

from warren_broker.worker.channel import Channel
from warren_gpu_worker.device_errors import check_device, fault_of
from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.allocator import keep_freed_memory
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.memory_plan import device_memory
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_gpu_worker.trainer.errors import OpTooLarge
from warren_gpu_worker.trainer.messages import (
    NOTHING,
    Answer,
    Apply,
    ApplyBatched,
    Close,
    DeviceFailed,
    DiskFull,
    Fail,
    Offload,
    Offloaded,
    Open,
    Pulse,
    Ready,
    Report,
    TooLarge,
    Turn,
    pack,
    unpack_order,
)
from warren_gpu_worker.trainer.training.ranks import ALONE, Ranks
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, OpDone, OpOutcome

PULSE_S = 1.0
DISK_FULL_S = 2.0
"""Between two tries to write to a disk that is full."""


class TrainerChild:
    def __init__(
        self,
        channel: Channel,
        settings: GpuWorkerSettings,
        ranks: Ranks,
        copies: LocalCopies,
        engine_type: type[Engine] = Engine,
        leave_word: Callable[[bytes], None] | None = None,
    ) -> None:
        """`leave_word` brings a rank's last words to the supervisor; by default the channel does."""
        self._channel = channel
        self._leave_word = leave_word or channel.send
        self._ranks = ranks
        self._settings = settings
        config = EngineConfig.of(settings)
        # All ranks learn of a full disk at the same point of the op, and wait side by side.
        self._engine = engine_type(
            config,
            progress=self._pulse,
            ranks=ranks,
            copies=copies,
            on_disk_full=self._wait_for_disk_space,
        )
        self._epochs: dict[ModelId, int] = {}
        self._said_s = time.monotonic()

    def run(self) -> None:
        """Serve until the supervisor hangs up."""
        try:
            check_device(self._settings.device)
            self._say(Ready(device_memory(self._settings)))
            while (frame := self._ranks.by_first(self._channel.receive)) is not None:
                if frame != NOTHING:
                    self._carry_out(unpack_order(frame))
        except RuntimeError as error:  # of whichever rank
            if (word := _last_word(error)) is not None:
                self._leave_word(pack(word))
            raise

    def _carry_out(self, turn: Turn | Fail) -> None:
        match turn:
            case Open() as order:
                self._open(order)
            case Apply() as order:
                self._apply(order)
            case ApplyBatched() as order:
                self._apply_batched(order)
            case Fail(order, reason):
                self._fail(order, reason)
            case Close() as order:
                self._close(order)
            case Offload():
                self._engine.offload()
                self._say(Offloaded())

    def _open(self, order: Open) -> None:
        self._epochs[order.model] = order.epoch
        outcome = self._engine.open(
            order.model,
            order.spec,
            checkpoint_url=order.checkpoint_url,
            next_op=order.next_op,
            max_tokens=order.max_tokens,
        )
        self._say(Answer(order.model, order.epoch, 0, outcome))

    def _close(self, order: Close) -> None:
        if self._epochs.get(order.model) == order.epoch:
            del self._epochs[order.model]
            self._engine.close(order.model)

    def _apply(self, order: Apply) -> None:
        for number, body in order.ops:
            begun_s = time.monotonic()
            outcome = self._engine.apply(order.model, number, body)
            timed = self._timed(outcome, begun_s)
            self._say(Answer(order.model, order.epoch, number, timed))

    def _fail(self, order: Apply, reason: str) -> None:
        for number, body in order.ops:
            outcome = self._engine.fail(order.model, number, body, reason)
            self._say(Answer(order.model, order.epoch, number, outcome))

    def _apply_batched(self, order: ApplyBatched) -> None:
        ops = [
            (apply.model, number, cast("ForwardBackward", body))
            for apply in order.applies
            for number, body in apply.ops
        ]
        n_tokens = sum(op.batch.ids_N.size for _, _, op in ops)
        begun_s = time.monotonic()
        outcomes = self._engine.apply_batched(ops)
        end_s = time.monotonic()
        for apply, (_, number, op), outcome in zip(order.applies, ops, outcomes, strict=True):
            share = op.batch.ids_N.size / n_tokens
            timed = self._timed(outcome, begun_s, end_s, share=share)
            self._say(Answer(apply.model, apply.epoch, number, timed))

    def _timed(
        self,
        outcome: OpOutcome,
        begun_s: float,
        end_s: float | None = None,
        *,
        share: float = 1.0,
    ) -> OpOutcome:
        """With what it took since then; `share` is the op's part of it."""
        if not isinstance(outcome, OpDone):
            return outcome
        duration_s = (time.monotonic() if end_s is None else end_s) - begun_s
        gpu_s = duration_s * share * self._ranks.size
        return outcome.model_copy(update={"duration_s": duration_s, "gpu_s": gpu_s})

    def _pulse(self, size_bytes: int = 0, /) -> None:
        if size_bytes or time.monotonic() - self._said_s >= PULSE_S:
            self._say(Pulse(size_bytes))

    def _wait_for_disk_space(self, model: ModelId) -> None:
        self._say(DiskFull(model))
        time.sleep(DISK_FULL_S)

    def _say(self, report: Report) -> None:
        self._said_s = time.monotonic()
        if self._ranks.is_first:
            self._channel.send(pack(report))


def _last_word(error: RuntimeError) -> TooLarge | DeviceFailed | None:
    """What the supervisor must know of an error that ends this process."""
    if isinstance(error, OpTooLarge):
        return TooLarge(error.model, error.number, error.reason, error.max_tokens)
    fault = fault_of(error)
    return None if fault is None else DeviceFailed(fault)


def main(engine_type: type[Engine] = Engine) -> None:
    run(Channel.inherited(), engine_type)


def run(channel: Channel, engine_type: type[Engine]) -> None:
    """Until the supervisor hangs up. The channel's argument: the settings."""
    settings = GpuWorkerSettings.model_validate_json(channel.arguments[0])
    prepare(settings)
    # The supervisor may hang up while we speak, and we have nothing to say to anybody else.
    with suppress(BrokenPipeError), closing(LocalCopies()) as copies:
        TrainerChild(channel, settings, ALONE, copies, engine_type).run()


def prepare(settings: GpuWorkerSettings) -> None:
    """What a process must do before it trains."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    transformers.utils.logging.disable_progress_bar()
    keep_freed_memory()
    torch.set_num_threads(settings.n_threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory would only make bugs repeatable, and costs time.
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010


if __name__ == "__main__":
    main()
