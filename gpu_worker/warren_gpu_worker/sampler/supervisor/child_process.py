"""The supervisor's side of the sampling child: kept alive, and nothing that it held is lost.

Invariants: every turn that the child owes is answered once, by tokens or a refusal, unless it is
cancelled or given back; the ledger (`open_turns`) says what is owed. A child that dies is started again and gets what it still owed; a request
that was handed out `MAX_ATTEMPTS` times to children that died is refused, for it may be what kills
them; where that was a lack of memory, the next child computes fewer turns at once (`batch_limit`); where the device failed,
or the next child waits for machines, what is held is given back at once. A child that holds work and is silent for `hang_s` is killed, as is one that takes so long to
fall asleep. Only the first child must come up: where a later one does not, others are started without
end, and what is held is given back after `MAX_DEATHS` in a row, for somebody else to answer.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from warren_broker.worker.child import Child, ChildDied
from warren_broker.worker.until_death import until_death
from warren_gpu_worker.forking import SpawnChild
from warren_gpu_worker.sampler.engines.port import EngineStatistics, Refusal
from warren_gpu_worker.sampler.messages import (
    DeviceFailed,
    Orders,
    OutOfMemory,
    Published,
    Report,
    TurnAnswer,
    TurnRequest,
    pack,
    unpack_answer,
)
from warren_gpu_worker.sampler.supervisor.batch_limit import BatchLimit, tell_all
from warren_gpu_worker.sampler.supervisor.gpus import own_gpus
from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken, StartLost, greeted
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.sampler.supervisor.sleep_mode import SleepMode
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_schemas.episode import FailureKind

CHILD_MODULE = "warren_gpu_worker.sampler.child.main"
MAX_ATTEMPTS = 3
MAX_DEATHS = 3
"""After so many in a row, with no child that came up between them, nobody counts on this sampler."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0
"""Between a child's death and the next one's birth, doubled at each death soon after birth."""
_CLOSE_GRACE_S = 1.0

Answers = Sequence[TurnAnswer]
Answered = Sequence[tuple[OpenTurn, TurnAnswer]]

log = logging.getLogger(__name__)


class SamplerProcess:
    """`on_answered` is called with every batch of answers, on the event loop, and must not block.

    So is `on_given_back`, with the turns that are no longer owed and get no answer. The child sleeps
    while a trainer has the GPU (`time_share`). `module` is the child's program, which `spawn_child` starts.
    """

    def __init__(
        self,
        base_model: str,
        settings: GpuWorkerSettings,
        turns: OpenTurns,
        on_answered: Callable[[Answered], None],
        on_given_back: Callable[[Sequence[OpenTurn]], None],
        *,
        time_share: TimeShare | None = None,
        module: str = CHILD_MODULE,
        spawn_child: SpawnChild = Child.spawn,
    ) -> None:
        self.base_model = base_model
        self.caches_prefixes = False
        """Whether the child keeps the transcripts of turns that it took; known once it is `ready`."""
        self.statistics: EngineStatistics | None = None
        self._settings = settings
        self._limit = BatchLimit(settings, turns)
        self._turns = turns
        self._on_answered = on_answered
        self._on_given_back = on_given_back
        self._module = module
        self._spawn_child = spawn_child
        self._outbox = Orders()
        self._has_orders = asyncio.Event()
        self._loaded = asyncio.Event()
        self._childless = asyncio.Event()
        self._childless.set()
        self._n_deaths = self._n_missing = 0
        self._sleep_mode = SleepMode(
            time_share or TimeShare(),
            deadline_s=settings.hang_s,
            has_work=lambda: turns.n_owed > 0,
            order=self._order_sleep,
        )

    @property
    def has_child(self) -> bool:
        """Whether a child is there with the base model, be it asleep."""
        return not self._childless.is_set()

    @property
    def is_at_work(self) -> bool:
        """Whether a child is there and awake, so that turns get on."""
        return self.has_child and not self._sleep_mode.is_asleep

    @property
    def is_offered(self) -> bool:
        """Whether a child has the base model, or one that died is likely to be replaced soon: not if machines are missing."""
        return self._loaded.is_set() and self._n_deaths < MAX_DEATHS and not self._n_missing

    async def ready(self) -> None:
        """Wait until the first child has loaded the base model."""
        await self._loaded.wait()

    async def until_childless(self) -> None:
        """Return when no child is there."""
        await self._childless.wait()

    def submit_turns(self, requests: Iterable[TurnRequest]) -> None:
        """Have the child answer these; they are owed already."""
        self._outbox.requests.extend(requests)
        self._has_orders.set()
        self._sleep_mode.stirred()

    def cancel_turns(self, ids: Iterable[int]) -> list[OpenTurn]:
        """Those of these turns that were owed: nobody needs them, and they are not answered."""
        turns = self._turns.release(ids)
        self._outbox.cancelled.extend(turn.id for turn in turns)
        self._has_orders.set()
        return turns

    def policy_published(self, news: Published) -> None:
        self._outbox.published.append(news)
        self._has_orders.set()

    async def run(self) -> None:
        """Keep a child at work until cancelled. Raises `SamplerBroken` if the first can't start."""
        pause_s = _FIRST_PAUSE_S
        while True:
            started_s = time.monotonic()
            try:
                await self._live_one_life()
            except (ChildDied, SamplerBroken, StartLost, OSError) as failure:
                self._lost_child(failure)
            self._give_up_repeated()
            if self._n_deaths >= MAX_DEATHS:
                self._give_back_all()
            if time.monotonic() - started_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _lost_child(self, failure: ChildDied | SamplerBroken | StartLost | OSError) -> None:
        """A worker whose model was loaded once goes on: what fails now may work again later.

        So does one whose first child was killed, which says nothing about the model, a few times, or lost a machine.
        """
        self._n_deaths += 1
        was_killed = isinstance(failure, ChildDied) and failure.was_killed
        may_come_up = isinstance(failure, StartLost) or (was_killed and self._n_deaths < MAX_DEATHS)
        if not self._loaded.is_set() and not may_come_up:
            raise SamplerBroken(str(failure)) from failure
        log.warning("%s; starting it again with %d turns", failure, self._turns.n_owed)

    async def _live_one_life(self) -> None:
        """Start a child, hand it everything, and serve until it dies (`ChildDied`)."""
        async with self._sleep_mode.life():
            child = await self._spawn()
            try:
                greeting = await greeted(child, self.base_model, self._note_missing)
                self.caches_prefixes = greeting.caches_prefixes
                self._n_deaths = 0
                self._loaded.set()
                requests = [turn.request for turn in self._turns.owed() if turn.request]
                self._outbox = Orders(requests=requests)
                self._has_orders.set()
                await self._converse(child)
            finally:
                await child.close(grace_s=_CLOSE_GRACE_S)

    async def _spawn(self) -> Child:
        try:
            told, variables = own_gpus(self._limit.settings, os.environ)
        except ValueError as error:
            raise SamplerBroken(str(error)) from error
        arguments = (told.model_dump_json(), self.base_model)
        return await self._spawn_child(
            f"the sampler of {self.base_model}",
            self._module,
            arguments,
            n_threads=self._settings.n_threads,
            environment=variables,
            log_path=self._settings.log_path(f"sampler-{self.base_model}"),
        )

    def _note_missing(self, n_missing: int) -> None:
        """The child waits for machines as long as it takes: nothing that is owed waits with it."""
        self._n_missing = n_missing
        if n_missing:
            address = self._settings.rendezvous
            log.warning("%s: machines still missing at %s: %d", self.base_model, address, n_missing)
            self._give_back_all()

    async def _converse(self, child: Child) -> None:
        """Both directions until the child dies, which raises `ChildDied`."""
        self._childless.clear()
        try:
            work = {
                f"send to {child.name}": self._send(child),
                f"receive from {child.name}": self._receive(child),
                f"sleep of {child.name}": self._sleep_mode.keep(child),
            }
            raise await until_death(work)
        finally:
            self._childless.set()

    async def _send(self, child: Child) -> None:
        while True:
            await self._has_orders.wait()
            self._has_orders.clear()
            orders, self._outbox = self._outbox, Orders()
            self._turns.attempted(request.id for request in orders.requests)
            await child.send(pack(orders))

    def _order_sleep(self, is_asleep: bool) -> None:
        self._outbox = replace(self._outbox, sleep=is_asleep)
        self._has_orders.set()

    async def _receive(self, child: Child) -> None:
        while True:
            frame = unpack_answer(await self._next_frame(child))
            if isinstance(frame, OutOfMemory):
                self._answered(self._limit.out_of_memory(frame))
                continue
            if isinstance(frame, DeviceFailed):
                tell_all(self._turns.owed(), f"the sampler's device failed: {frame.fault}")
                self._turns.not_attempted()
                self._give_back_all()
                continue
            assert isinstance(frame, Report), "a child greets once"
            self.statistics = frame.statistics
            self._sleep_mode.heard(is_asleep=frame.is_asleep)
            self._answered(frame.answers)

    async def _next_frame(self, child: Child) -> bytes:
        """The next frame; a child that owes one for too long is killed, and so `ChildDied`."""
        hang_s = self._settings.hang_s
        receiving = asyncio.create_task(child.receive(), name=f"frame from {child.name}")
        try:
            while not (await asyncio.wait({receiving}, timeout=hang_s))[0]:
                if self._turns.n_owed and time.monotonic() - self._turns.owed_since_s >= hang_s:
                    log.error("%s said nothing for %.0f s: killing it", child.name, hang_s)
                    child.kill()
            return receiving.result()
        finally:
            receiving.cancel()

    def _give_up_repeated(self) -> None:
        reason = f"the sampler died {MAX_ATTEMPTS} times while it worked on this turn"
        self._answered(
            [
                Refusal(turn.id, FailureKind.SAMPLER_ERROR, reason)
                for turn in self._turns.owed()
                if turn.n_attempts >= MAX_ATTEMPTS
            ]
        )

    def _give_back_all(self) -> None:
        """Somebody else may have a child that answers them."""
        if self._turns.n_owed:
            log.error(
                "%s has no child: %d turns are given back", self.base_model, self._turns.n_owed
            )
            self._give_back([turn.id for turn in self._turns.owed()])

    def _answered(self, answers: Answers) -> None:
        """Pass on what was owed of this."""
        by_id = {answer.id: answer for answer in answers}
        if turns := self._turns.release(by_id):
            self._on_answered([(turn, by_id[turn.id]) for turn in turns])

    def _give_back(self, ids: Sequence[int]) -> None:
        if turns := self._turns.release(ids):
            self._on_given_back(turns)
