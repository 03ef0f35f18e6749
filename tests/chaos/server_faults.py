"""Faults of the broker and of the store: killed, frozen, or unwilling to write. One at a time for each."""

import asyncio

import psycopg
from tests.chaos.site import Site


class ServerFaults:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._broker_lock = asyncio.Lock()
        self._store_lock = asyncio.Lock()

    async def kill_broker(self) -> None:
        async with self._broker_lock:
            await self._site.lose_broker(0.0)

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
