"""Carrying a plan out, fault by fault; each mends itself after a while, as operators would."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from tests.chaos import clock
from tests.chaos.gpu_worker import BASE_MODEL
from tests.chaos.jobs.takers import next_taker
from tests.chaos.mischief import meddle
from tests.chaos.plan import Fault, FaultKind
from tests.chaos.server_faults import ServerFaults
from tests.chaos.site import Part, Site

from warren_broker.errors import BrokerError
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue, generate, interact, jobs, results

PAUSE_BEFORE_RESTART_S = 1.0
LOOK_AGAIN_S = 0.5
N_MEDDLED = 8
LATE_S = 3.0
CLOCK_STEP_S = 60.0
"""More than any deadline of a storm's episodes."""

EVERYBODY = ("gateway", "gpu", "env")
VICTIMS = {
    FaultKind.KILL_GATEWAY: ("gateway",),
    FaultKind.KILL_GPU_WORKER: ("gpu",),
    FaultKind.KILL_ENV_WORKER: ("env",),
    FaultKind.KILL_GRANTER: ("gateway",),
    FaultKind.KILL_CHILDREN: ("gpu", "env"),
    FaultKind.FREEZE_GATEWAY: ("gateway",),
    FaultKind.FREEZE_GPU_WORKER: ("gpu",),
    FaultKind.FREEZE_ENV_WORKER: ("env",),
    FaultKind.CUT_BROKER_LINK: EVERYBODY,
    FaultKind.STALL_BROKER_LINK: EVERYBODY,
    FaultKind.CUT_STORE_LINK: ("gateway",),
    FaultKind.STEP_CLOCK: EVERYBODY,
}

log = logging.getLogger(__name__)


class Faults:
    """Invariant: when `carry_out` returns, everything that was broken is mended."""

    def __init__(self, site: Site, broker: Broker, models: list[str]) -> None:
        self.done: Counter[str] = Counter()
        self._site = site
        self._broker = broker
        self._models = models
        self.servers = ServerFaults(site)
        self._began_s = 0.0

    async def carry_out(self, plan: list[Fault]) -> None:
        self._began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in plan:
                await asyncio.sleep(self._began_s + fault.at_s - time.monotonic())
                tasks.create_task(self._inject(fault), name=fault.kind)

    async def _inject(self, fault: Fault) -> None:
        began_s = time.monotonic() - self._began_s
        if fault.kind is FaultKind.KILL_TAKER:
            await self._kill(await next_taker(self._site), fault)
        elif fault.kind in VICTIMS:
            if fault.kind is FaultKind.KILL_GRANTER:
                await next_taker(self._site)
            await self._on_process(fault.kind)(await self._victim(fault), fault)
        else:
            await self._on_all(fault)()
        self.done[fault.kind] += 1
        ended_s = time.monotonic() - self._began_s
        log.info("%6.1f s to %6.1f s: %s", began_s, ended_s, fault.kind)

    async def _victim(self, fault: Fault) -> Part:
        """A process that is well at the moment; waits for one."""
        while True:
            if well := self._well(VICTIMS[fault.kind]):
                return well[int(fault.victim * len(well))]
            await asyncio.sleep(LOOK_AGAIN_S)

    def _well(self, roles: tuple[str, ...]) -> list[Part]:
        return [part for part in self._site.of_role(*roles) if part.is_alive and not part.is_frozen]

    def _on_process(self, kind: FaultKind) -> Callable[[Part, Fault], Awaitable[None]]:
        match kind:
            case FaultKind.KILL_CHILDREN:
                return self._kill_children
            case (
                FaultKind.FREEZE_GATEWAY | FaultKind.FREEZE_GPU_WORKER | FaultKind.FREEZE_ENV_WORKER
            ):
                return self._freeze
            case FaultKind.CUT_BROKER_LINK:
                return self._cut_broker_link
            case FaultKind.STALL_BROKER_LINK:
                return self._stall_broker_link
            case FaultKind.CUT_STORE_LINK:
                return self._cut_store_link
            case FaultKind.STEP_CLOCK:
                return self._step_clock
            case _:
                return self._kill

    def _on_all(self, fault: Fault) -> Callable[[], Awaitable[None]]:
        match fault.kind:
            case FaultKind.TWINS:
                return lambda: self._meddle(fault, n_copies=2, delay_s=0.0)
            case FaultKind.DELAY:
                return lambda: self._meddle(fault, n_copies=1, delay_s=LATE_S)
            case FaultKind.KILL_BROKER:
                return self.servers.kill_broker
            case FaultKind.FREEZE_BROKER:
                return lambda: self.servers.freeze_broker(fault.lasts_s)
            case FaultKind.KILL_STORE:
                return self.servers.kill_store
            case FaultKind.FREEZE_STORE:
                return lambda: self.servers.freeze_store(fault.lasts_s)
            case FaultKind.STORE_READ_ONLY:
                return lambda: self.servers.make_store_read_only(fault.lasts_s)
            case _:
                return self._cut_client_links

    async def _kill(self, part: Part, _: Fault) -> None:
        part.kill()
        await asyncio.sleep(PAUSE_BEFORE_RESTART_S)
        part.start()

    async def _kill_children(self, part: Part, _: Fault) -> None:
        await asyncio.to_thread(part.kill_children)

    async def _freeze(self, part: Part, fault: Fault) -> None:
        part.freeze()
        if part.role == "gateway":
            self._site.address.cut()  # what stands before gateways notices one that gives no answer
        await asyncio.sleep(fault.lasts_s)
        part.thaw()

    async def _cut_broker_link(self, part: Part, _: Fault) -> None:
        part.broker_link.cut()

    async def _stall_broker_link(self, part: Part, fault: Fault) -> None:
        part.broker_link.stall()
        await asyncio.sleep(fault.lasts_s)
        part.broker_link.flow()

    async def _cut_store_link(self, part: Part, _: Fault) -> None:
        assert part.store_link is not None
        part.store_link.cut()

    async def _step_clock(self, part: Part, fault: Fault) -> None:
        """An hour hand that somebody moved, ahead or back, and moves to its place again."""
        is_ahead = int(1000 * fault.victim) % 2
        clock.set_shift(part.clock_path, CLOCK_STEP_S if is_ahead else -CLOCK_STEP_S)
        await asyncio.sleep(fault.lasts_s)
        clock.set_shift(part.clock_path, 0.0)

    async def _cut_client_links(self) -> None:
        self._site.address.cut()

    async def _meddle(self, fault: Fault, *, n_copies: int, delay_s: float) -> None:
        queues: list[WorkQueue] = [
            interact("walk"),
            generate(BASE_MODEL),
            jobs(BASE_MODEL, is_full=False),
            jobs(BASE_MODEL, is_full=True),
            *(results(model) for model in self._models),
        ]
        queue = queues[int(fault.victim * len(queues))]
        with contextlib.suppress(BrokerError):
            await meddle(
                self._broker, queue, n_messages=N_MEDDLED, n_copies=n_copies, delay_s=delay_s
            )
