"""What a user has uploaded, from the gateway into a folder here: an adapter, a base model, a data set."""

from urllib.parse import urlencode

from warren.connection.downloading import Download
from warren.connection.transport import Transport
from warren.errors import NotFound
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import AdapterView, BaseModelView, DatasetView
from warren_schemas.ids import RunId


class UploadedDownload(Download):
    """Of one version, as it was sealed."""

    def __init__(
        self,
        transport: Transport,
        view: AdapterView | BaseModelView | DatasetView,
        *,
        path: str,
        key: str,
        reconnect_s: float,
    ) -> None:
        """`path`/files and `path`/file take its reference as `key`."""
        named = RunId(f"{view.owner}/{view.name}")  # what its leftovers are said to be of
        super().__init__(transport, named, view.digest, reconnect_s=reconnect_s)
        self._reference, self._files, self._key = view.reference, path, key

    async def _list(self) -> FolderView:
        query = urlencode({self._key: self._reference})
        return await self._transport.get(f"{self._files}/files?{query}", FolderView)

    def _url(self, file: FileView, offset: int) -> str:
        return self._file_url({"name": file.name, "offset": offset})

    def _file_url(self, query: dict[str, object]) -> str:
        return f"{self._files}/file?{urlencode({self._key: self._reference, **query})}"

    def _gone(self, error: NotFound) -> NotFound:
        return NotFound(f"{self._reference} was deleted while it was downloaded")
