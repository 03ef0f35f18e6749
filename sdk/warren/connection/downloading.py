"""A checkpoint or a policy from the gateway's files into a folder here.

Invariants
- One version is fetched, whatever is saved meanwhile: the gateway's first answer names it exactly, and every file
  is asked for by that name. A file that is another one by now is refused before a byte of it is kept.
- The folder appears under its name once every file is whole and is what its SHA-256 says; until then
  `<name>.part` holds what has come, and the next try goes on from there.
"""

import asyncio
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from warren.connection.partial_download import Wanted, finish, inside, prepare, size, verify
from warren.connection.transport import Transport
from warren.errors import ConfigurationError, GatewayBusy, GatewayUnreachable, NotFound
from warren_schemas.files import FileView, FolderView
from warren_schemas.ids import RunId


class Download:
    def __init__(
        self, transport: Transport, run: RunId, version: str, *, reconnect_s: float
    ) -> None:
        self._transport = transport
        self._run = run
        self._path = f"/v1/runs/{quote(run, safe='')}"
        self._version = version
        self._reconnect_s = reconnect_s

    async def into(self, to: Path) -> FolderView:
        """Raises `ConfigurationError`, `GatewayError`, `OSError`."""
        if await asyncio.to_thread(to.exists):
            raise ConfigurationError(f"{to} already exists", hint="Name a new folder.")
        folder = await self._list()
        self._version = folder.version
        part = to.with_name(f"{to.name}.part")
        wanted = Wanted(run=self._run, version=folder.version, files=folder.files)
        await asyncio.to_thread(prepare, part, wanted)
        for file in folder.files:
            await self._fetch(file, inside(part, file.name))
        await asyncio.to_thread(finish, part, to, folder)
        return folder

    async def _list(self) -> FolderView:
        """The files of exactly one version."""
        query = urlencode({"version": self._version})
        return await self._transport.get(f"{self._path}/files?{query}", FolderView)

    def _url(self, file: FileView, offset: int) -> str:
        """Of a file of that version, from this byte on."""
        query = urlencode({"version": self._version, "name": file.name, "offset": offset})
        return f"{self._path}/file?{query}"

    async def _fetch(self, file: FileView, path: Path) -> None:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.touch)
        waits, alive_s = self._transport.backoff.delays(), time.monotonic()
        while (n_here := await asyncio.to_thread(size, path)) < file.size_bytes:
            try:
                await self._go_on(file, path, n_here)
            except (GatewayUnreachable, GatewayBusy):
                if await asyncio.to_thread(size, path) > n_here:
                    waits, alive_s = self._transport.backoff.delays(), time.monotonic()
                if time.monotonic() - alive_s >= self._reconnect_s:
                    raise
                await asyncio.sleep(next(waits))
            except NotFound as error:
                raise self._gone(error) from error
        await asyncio.to_thread(verify, file, path)

    async def _go_on(self, file: FileView, path: Path, offset: int) -> None:
        async with self._transport.chunks(self._url(file, offset), etag=file.sha256) as chunks:
            with await asyncio.to_thread(path.open, "ab") as opened:
                async for chunk in chunks:
                    await asyncio.to_thread(opened.write, chunk)

    def _gone(self, error: NotFound) -> NotFound:
        """What it means that a file is no longer there."""
        return NotFound(
            f"{self._run}@{self._version} was deleted while it was downloaded: {error.message}",
            hint="A run that goes on keeps its newest policies only; download a checkpoint of it, or try again.",
        )
