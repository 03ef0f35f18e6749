"""Carrying a plan out, fault by fault; each mends itself after a while, as operators would."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import psycopg
from tests.chaos.gpu_worker import BASE_MODEL
from tests.chaos.mischief import meddle
from tests.chaos.plan import Fault, FaultKind
from tests.chaos.site import Part, Site

from warren_broker.errors import BrokerError
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue, generate, interact, results

PAUSE_BEFORE_RESTART_S = 1.0
N_MEDDLED = 8
LATE_S = 3.0

log = logging.getLogger(__name__)


class Faults:
    """Invariant: when `carry_out` returns, everything that was broken is mended."""

    def __init__(self, site: Site, broker: Broker, models: list[str]) -> None:
        self.done: Counter[str] = Counter()
        self._site = site
        self._broker = broker
        self._models = models
        self._broker_lock = asyncio.Lock()
        self._store_lock = asyncio.Lock()
        self._began_s = 0.0

    async def carry_out(self, plan: list[Fault]) -> None:
        self._began_s = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in plan:
                await asyncio.sleep(self._began_s + fault.at_s - time.monotonic())
                tasks.create_task(self._inject(fault), name=fault.kind)

    async def _inject(self, fault: Fault) -> None:
        action = self._action(fault)
        if action is None:
            return
        began_s = time.monotonic() - self._began_s
        await action()
        self.done[fault.kind] += 1
        ended_s = time.monotonic() - self._began_s
        log.info("%6.1f s to %6.1f s: %s", began_s, ended_s, fault.kind)

    def _action(self, fault: Fault) -> Callable[[], Awaitable[None]] | None:
        match fault.kind:
            case FaultKind.KILL_GATEWAY:
                return self._on(fault, self._kill, "gateway")
            case FaultKind.KILL_GPU_WORKER:
                return self._on(fault, self._kill, "gpu")
            case FaultKind.KILL_ENV_WORKER:
                return self._on(fault, self._kill, "env")
            case FaultKind.KILL_CHILDREN:
                return self._on(fault, self._kill_children, "gpu", "env")
            case FaultKind.FREEZE_GATEWAY:
                return self._on(fault, self._freeze, "gateway")
            case FaultKind.FREEZE_GPU_WORKER:
                return self._on(fault, self._freeze, "gpu")
            case FaultKind.FREEZE_ENV_WORKER:
                return self._on(fault, self._freeze, "env")
            case FaultKind.CUT_BROKER_LINK:
                return self._on(fault, self._cut_broker_link, "gateway", "gpu", "env")
            case FaultKind.STALL_BROKER_LINK:
                return self._on(fault, self._stall_broker_link, "gateway", "gpu", "env")
            case FaultKind.CUT_STORE_LINK:
                return self._on(fault, self._cut_store_link, "gateway")
            case FaultKind.CUT_CLIENT_LINK:
                return self._cut_client_links
            case FaultKind.TWINS:
                return lambda: self._meddle(fault, n_copies=2, delay_s=0.0)
            case FaultKind.DELAY:
                return lambda: self._meddle(fault, n_copies=1, delay_s=LATE_S)
            case FaultKind.KILL_BROKER:
                return self._kill_broker
            case FaultKind.FREEZE_BROKER:
                return lambda: self._freeze_broker(fault.lasts_s)
            case FaultKind.KILL_STORE:
                return self._kill_store
            case FaultKind.FREEZE_STORE:
                return lambda: self._freeze_store(fault.lasts_s)
            case FaultKind.STORE_READ_ONLY:
                return lambda: self._make_store_read_only(fault.lasts_s)

    def _on(
        self, fault: Fault, do: Callable[[Part, Fault], Awaitable[None]], *roles: str
    ) -> Callable[[], Awaitable[None]] | None:
        """On one process of these roles that is well at the moment."""
        candidates = [p for p in self._site.of_role(*roles) if p.is_alive and not p.is_frozen]
        if not candidates:
            return None
        victim = candidates[int(fault.victim * len(candidates))]
        return lambda: do(victim, fault)

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

    async def _cut_client_links(self) -> None:
        self._site.address.cut()

    async def _meddle(self, fault: Fault, *, n_copies: int, delay_s: float) -> None:
        queues: list[WorkQueue] = [
            interact("walk"),
            generate(BASE_MODEL),
            *(results(model) for model in self._models),
        ]
        queue = queues[int(fault.victim * len(queues))]
        with contextlib.suppress(BrokerError):
            await meddle(
                self._broker, queue, n_messages=N_MEDDLED, n_copies=n_copies, delay_s=delay_s
            )

    async def _kill_broker(self) -> None:
        async with self._broker_lock:
            rabbit = self._site.rabbit
            rabbit.kill()
            rabbit.spawn()
            self._site.is_broker_booting = True
            try:
                await asyncio.to_thread(rabbit.wait_until_ready)
            finally:
                self._site.is_broker_booting = False

    async def _freeze_broker(self, seconds: float) -> None:
        async with self._broker_lock:
            self._site.rabbit.pause()
            await asyncio.sleep(seconds)
            self._site.rabbit.resume()

    async def _kill_store(self) -> None:
        async with self._store_lock:
            await asyncio.to_thread(self._site.postgres.kill)
            self._site.postgres.spawn()
            await asyncio.to_thread(self._site.postgres.wait_until_ready)

    async def _freeze_store(self, seconds: float) -> None:
        async with self._store_lock:
            self._site.postgres.pause()
            await asyncio.sleep(seconds)
            self._site.postgres.resume()

    async def _make_store_read_only(self, seconds: float) -> None:
        """As a full disk, or a replica that was promoted too late, would have it."""
        async with self._store_lock:
            await asyncio.to_thread(self._set_read_only, "on")
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self._set_read_only, "off")

    def _set_read_only(self, value: str) -> None:
        url = self._site.store_url.replace("+psycopg", "")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")
