"""The training child as the supervisor sees it: orders in, answers out, and it never stays dead.

Invariants:
- The child's death takes all its models with it: `on_death` is called before a new child is
  started, and orders meant for the old one never reach the new one.
- A child that owes an answer and shows no sign of life for `hang_s` is killed. One that has said that
  it works on files has the time besides that their bytes take on a slow disk (see `progress`), until
  it answers.
- `order` never waits; what is under way is bounded by what the leases may hold.
- Where the device is shared in turns (`settings.takes_turns`), what concerns a full-parameter model
  is sent only while we have the GPU, and the GPU is given back once the child has offloaded the model
  or is dead.
- An op that the child has no memory for, and can't try again by itself, ends it. When the model comes again
  it is opened with smaller passes; where those can't be, the op is told to fail, so that the ops after
  it are reached.
- A child that finds its disk full waits and says so, and is not taken for one that hangs; when the lease
  that it waits for ends, it ends too.
- The child has one order to carry out and the next one at hand, so it never pauses, and whoever
  comes late waits for no more than those (see `shares`).
"""

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import Protocol

from warren_broker.worker.child import ChildDied
from warren_gpu_worker.device_faults import DeviceFault, Fault
from warren_gpu_worker.file_progress import allowance_s
from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare, TrainerHold
from warren_gpu_worker.trainer.messages import (
    NOTHING,
    START_S,
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
    Order,
    Pulse,
    Ready,
    Report,
    TooLarge,
    Turn,
    pack,
    unpack_report,
)
from warren_gpu_worker.trainer.supervisor.fair_share import FairShares
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks
from warren_schemas.ids import ModelId
from warren_schemas.training import is_full

_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0
_IDLE_S = 30.0
"""Between two signs of life to ranks that have nothing to do."""
_AT_HAND = 2
"""Most turns that the child owes answers for."""

log = logging.getLogger(__name__)


class ProcessListener(Protocol):
    """Who wants to know what the child does. Called from the event loop; must not block."""

    def on_disk_full(self, model: ModelId) -> None: ...
    def on_ready(self, memory: DeviceMemory | None, /) -> None: ...
    def on_answer(self, answer: Answer) -> None: ...
    def on_death(self, reason: str, /) -> None: ...


class TrainerProcess:
    def __init__(
        self,
        name: str,
        settings: GpuWorkerSettings,
        listener: ProcessListener,
        time_share: TimeShare | None = None,
        spawn_ranks: SpawnRanks = RankProcesses.spawn,
    ) -> None:
        self._name = name
        self._spawn_ranks = spawn_ranks
        self._settings = settings
        self._listener = listener
        self._shares = _shares(settings)
        self._may_send = asyncio.Event()
        self._hold = TrainerHold(time_share or TimeShare(), nudge=self._may_send.set)
        self._is_full = False
        """What was opened last is a full-parameter model, and so the only one."""
        self._ready = asyncio.Event()
        self._owed: deque[int] = deque()
        """Answers that are due for each turn of the child."""
        self._too_large: dict[ModelId, dict[int, str]] = {}
        """Op -> reason."""
        self._max_tokens: dict[ModelId, int] = {}
        """Of a pass, where the device had no memory for more."""
        self._end_reason = ""
        """Why the child ends, where there is more to say than that it does."""
        self._deadline: asyncio.Timeout | None = None
        self._child: RankProcesses | None = None
        self._without_disk_space: ModelId | None = None
        """The child waits for disk space for the files of this model."""

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def until_ready(self) -> None:
        await self._ready.wait()

    def order(self, order: Order) -> None:
        """Have the child do this after what it was told about the model before.

        Forgotten when there is no child.
        """
        if self.is_ready:
            if isinstance(order, Close):
                self._too_large.pop(order.model, None)
                self._max_tokens.pop(order.model, None)
                if order.model == self._without_disk_space and self._child is not None:
                    self._child.kill()  # it would wait for disk space that nobody needs any more
            self._shares.add(order)
            self._may_send.set()

    async def run(self) -> None:
        """Keep a child alive; never returns. Cancelled, it takes the child with it."""
        delay_s = _FIRST_DELAY_S
        while True:
            try:
                await self._live()
            except TimeoutError:
                self._end_reason = self._hung()
                log.error("the training process is lost: %s", self._end_reason)
            except (ChildDied, OSError) as error:
                log.error("the training process is lost: %s", error)
            was_ready = self.is_ready
            self._give_up()
            await asyncio.sleep(delay_s)
            delay_s = _FIRST_DELAY_S if was_ready else min(2 * delay_s, _LONGEST_DELAY_S)

    async def _live(self) -> None:
        """One child's life. Raises `ChildDied`, and `TimeoutError` when it hangs."""
        self._child = child = await self._spawn_ranks(self._name, self._settings)
        try:
            async with asyncio.timeout(START_S) as self._deadline:
                sending = asyncio.create_task(self._send(child), name=f"{self._name} orders")
                try:
                    await self._receive(child)
                finally:
                    sending.cancel()
        finally:
            self._deadline = self._child = self._without_disk_space = None
            child.kill()  # it holds nothing that a checkpoint and the op log don't
            await child.close()

    async def _send(self, child: RankProcesses) -> None:
        while True:
            if not await self._has_news():
                await child.send(NOTHING)
                continue
            turn = self._next()
            if turn is None:
                self._may_send.clear()
                continue
            if self._needs_gpu(turn):
                await self._hold.acquire()
            was_idle = not self._owed
            if n_answers := _n_answers(turn):
                self._owed.append(n_answers)
            if was_idle:
                self._wind_up()
            try:
                await child.send(pack(self._made_to_fit(turn)))
            except ChildDied:
                return  # the receiving end says so

    async def _has_news(self) -> bool:
        """Return once there is something to do; where ranks wait for each other, False now and then."""
        try:
            async with asyncio.timeout(_IDLE_S if self._settings.n_ranks > 1 else None):
                return await self._may_send.wait()
        except TimeoutError:
            return False

    def _next(self) -> Turn | None:
        """What the child should do as soon as it can; None for nothing that it isn't doing."""
        if self._hold.must_release(has_work=bool(self._owed) or self._shares.is_waiting):
            return None if self._owed else Offload()
        return self._shares.take() if len(self._owed) < _AT_HAND else None

    def _needs_gpu(self, turn: Turn) -> bool:
        if isinstance(turn, Open):
            self._is_full = is_full(turn.spec)
        is_work = isinstance(turn, Open | Apply)
        return self._settings.takes_turns and self._is_full and is_work

    async def _receive(self, child: RankProcesses) -> None:
        while True:
            report = unpack_report(await child.receive())
            match report:
                case Ready(memory):
                    self._ready.set()
                    self._listener.on_ready(memory)
                case Answer():
                    self._without_disk_space = None
                    self._was_paid()
                    self._listener.on_answer(report)
                case Offloaded():
                    self._was_paid()
                    self._hold.release()
                case TooLarge() | DeviceFailed():
                    self._note(report)
                case DiskFull():
                    self._without_disk_space = report.model
                    self._wait_for(0)
                    self._listener.on_disk_full(report.model)
                    continue
                case Pulse():
                    self._wait_for(report.size_bytes)
                    continue
            self._wind_up()

    def _note(self, word: Report) -> None:
        if isinstance(word, TooLarge):
            log.error("op %d of %s ended the child: %s", word.number, word.model, word.reason)
            if word.max_tokens is not None:
                self._max_tokens[word.model] = word.max_tokens
            else:
                self._too_large.setdefault(word.model, {})[word.number] = word.reason
        elif isinstance(word, DeviceFailed):
            log.error("%s: its device failed: %s", self._name, word.fault)
            self._end_reason = f"its device failed: {word.fault}"

    def _made_to_fit(self, turn: Turn) -> Turn | Fail:
        if isinstance(turn, Open):
            return replace(turn, max_tokens=self._max_tokens.get(turn.model))
        if not isinstance(turn, Apply):
            return turn
        ((number, _),) = turn.ops
        reason = self._too_large.get(turn.model, {}).get(number)
        return turn if reason is None else Fail(turn, reason)

    def _was_paid(self) -> None:
        """One answer less is owed."""
        self._owed[0] -= 1
        if not self._owed[0]:
            self._owed.popleft()
            self._may_send.set()

    def _wind_up(self) -> None:
        """The child was heard, or has something to do again: its time begins anew."""
        if self._deadline is not None:
            due_s = asyncio.get_running_loop().time() + self._settings.hang_s
            self._deadline.reschedule(due_s if self._owed else None)

    def _wait_for(self, size_bytes: int) -> None:
        """The child gets on with so many bytes; what it was given before still holds."""
        if self._deadline is not None and (due_s := self._deadline.when()) is not None:
            patience_s = self._settings.hang_s + allowance_s(
                size_bytes, self._settings.min_disk_bytes_per_s
            )
            self._deadline.reschedule(max(due_s, asyncio.get_running_loop().time() + patience_s))

    def _give_up(self) -> None:
        self._ready.clear()
        self._shares = _shares(self._settings)
        self._owed.clear()
        self._hold.release()
        reason, self._end_reason = self._end_reason, ""
        self._listener.on_death(reason)

    def _hung(self) -> str:
        told = f"it said nothing for {self._settings.hang_s:.0f} s"
        if self._settings.n_ranks == 1:
            return told
        return str(DeviceFault(Fault.HUNG_RANKS, told))


def _shares(settings: GpuWorkerSettings) -> FairShares:
    """Ops share batches on one device only."""
    return FairShares(settings.micro_batch_tokens if settings.n_ranks == 1 else 0)


def _n_answers(turn: Turn) -> int:
    if isinstance(turn, ApplyBatched):
        return len(turn.applies)
    return 0 if isinstance(turn, Close) else 1
