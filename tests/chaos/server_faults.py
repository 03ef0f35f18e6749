"""Faults of the broker and of the store: killed, frozen, or unwilling to write. One at a time for each."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

import psycopg
from tests.chaos.dead_letters import NodeLog
from tests.chaos.site import Site

LOOK_S = 5.0

log = logging.getLogger(__name__)


class ServerFaults:
    def __init__(self, site: Site) -> None:
        self.n_mended = 0
        """Times that the broker was restarted because it had stopped dead-lettering."""
        self._site = site
        self._broker_lock = asyncio.Lock()
        self._store_lock = asyncio.Lock()

    async def kill_broker(self) -> None:
        async with self._broker_lock:
            await self._site.lose_broker(0.0)

    @contextlib.asynccontextmanager
    async def mending_broker(self) -> AsyncGenerator[None]:
        """Meanwhile the broker is restarted whenever it has stopped dead-lettering. Raises what kept it from that."""
        task = asyncio.create_task(self._keep_dead_lettering(), name="keep dead-lettering")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _keep_dead_lettering(self) -> None:
        node_log = NodeLog(self._site.rabbit.node_log_path)
        while True:
            await asyncio.sleep(LOOK_S)
            async with self._broker_lock:
                if await asyncio.to_thread(node_log.tells_of_stop):
                    log.info("RabbitMQ has stopped dead-lettering: it is restarted")
                    await self._site.lose_broker(0.0)
                    self.n_mended += 1

    async def freeze_broker(self, seconds: float) -> None:
        async with self._broker_lock:
            self._site.rabbit.pause()
            await asyncio.sleep(seconds)
            self._site.rabbit.resume()

    async def kill_store(self) -> None:
        async with self._store_lock:
            await self._site.lose_store(0.0)

    async def freeze_store(self, seconds: float) -> None:
        async with self._store_lock:
            self._site.postgres.pause()
            await asyncio.sleep(seconds)
            self._site.postgres.resume()

    async def make_store_read_only(self, seconds: float) -> None:
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
