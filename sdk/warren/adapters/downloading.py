"""An adapter from the gateway into a folder here, as PEFT loads it."""

from urllib.parse import urlencode

from warren.connection.downloading import Download
from warren.connection.transport import Transport
from warren.errors import NotFound
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import AdapterView
from warren_schemas.ids import RunId


class AdapterDownload(Download):
    def __init__(self, transport: Transport, view: AdapterView, *, reconnect_s: float) -> None:
        named = RunId(f"{view.owner}/{view.name}")  # what its leftovers are said to be of
        super().__init__(transport, named, view.digest, reconnect_s=reconnect_s)
        self._view = view

    async def _list(self) -> FolderView:
        query = urlencode({"adapter": self._view.reference})
        return await self._transport.get(f"/v1/adapters/files?{query}", FolderView)

    def _url(self, file: FileView, offset: int) -> str:
        query = {"adapter": self._view.reference, "name": file.name, "offset": offset}
        return f"/v1/adapters/file?{urlencode(query)}"

    def _gone(self, error: NotFound) -> NotFound:
        return NotFound(f"{self._view.reference} was deleted while it was downloaded")
