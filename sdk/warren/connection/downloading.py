"""A checkpoint or a policy from the gateway's files into a folder here.

Invariants: the folder appears under its name once every file is whole and is what its SHA-256 says;
until then `<name>.part` holds what has come, and the next try goes on from there.
"""

import asyncio
import hashlib
import time
from pathlib import Path
from urllib.parse import quote, urlencode

from warren.connection.transport import Transport
from warren.errors import ConfigurationError, GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.files import SEAL, FileView, FolderView
from warren_schemas.ids import RunId


class Download:
    def __init__(
        self, transport: Transport, run: RunId, version: str, *, reconnect_s: float
    ) -> None:
        self._transport = transport
        self._path = f"/v1/runs/{quote(run, safe='')}"
        self._version = version
        self._reconnect_s = reconnect_s

    async def into(self, to: Path) -> FolderView:
        """Raises `ConfigurationError`, `GatewayError`, `OSError`."""
        if await asyncio.to_thread(to.exists):
            raise ConfigurationError(f"{to} already exists", hint="Name a new folder.")
        query = urlencode({"version": self._version})
        folder = await self._transport.get(f"{self._path}/files?{query}", FolderView)
        part = to.with_name(f"{to.name}.part")
        for file in folder.files:
            await self._fetch(file, _inside(part, file.name))
        await asyncio.to_thread(_finish, part, to, folder)
        return folder

    async def _fetch(self, file: FileView, path: Path) -> None:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(path.touch)
        waits, alive_s = self._transport.backoff.delays(), time.monotonic()
        while (n_here := await asyncio.to_thread(_size, path)) < file.size_bytes:
            try:
                await self._go_on(file, path, n_here)
            except (GatewayUnreachable, GatewayBusy):
                if await asyncio.to_thread(_size, path) > n_here:
                    waits, alive_s = self._transport.backoff.delays(), time.monotonic()
                if time.monotonic() - alive_s >= self._reconnect_s:
                    raise
                await asyncio.sleep(next(waits))
        await asyncio.to_thread(_verify, file, path)

    async def _go_on(self, file: FileView, path: Path, offset: int) -> None:
        query = urlencode({"version": self._version, "name": file.name, "offset": offset})
        async with self._transport.chunks(f"{self._path}/file?{query}") as chunks:
            with await asyncio.to_thread(path.open, "ab") as opened:
                async for chunk in chunks:
                    await asyncio.to_thread(opened.write, chunk)


def _inside(folder: Path, name: str) -> Path:
    """A gateway may not write elsewhere either."""
    path = folder / name
    if name.startswith("/") or ".." in Path(name).parts:
        raise GatewayError(f"The gateway named a file outside of the folder: {name!r}")
    return path


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _verify(file: FileView, path: Path) -> None:
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != file.sha256:
        path.unlink()
        raise GatewayError(
            f"{file.name} is not what was saved: its SHA-256 differs",
            hint="Try again. If it happens again, `sha256sum -c SHA256SUMS` where it lies says more.",
        )


def _finish(part: Path, to: Path, folder: FolderView) -> None:
    lines = [f"{file.sha256}  {file.name}\n" for file in folder.files]
    (part / SEAL).write_text("".join(lines), encoding="utf-8")
    part.rename(to)
