"""A data set from the gateway into a folder here: `SPLIT.jsonl` for each split."""

from urllib.parse import urlencode

from warren.connection.downloading import Download
from warren.connection.transport import Transport
from warren.errors import NotFound
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import DatasetView
from warren_schemas.ids import RunId

_SUFFIX = ".jsonl"


class DatasetDownload(Download):
    def __init__(self, transport: Transport, view: DatasetView, *, reconnect_s: float) -> None:
        named = RunId(f"{view.owner}/{view.name}")  # what its leftovers are said to be of
        super().__init__(transport, named, view.digest, reconnect_s=reconnect_s)
        self._view = view

    async def _list(self) -> FolderView:
        files = tuple(
            FileView(name=split.name + _SUFFIX, size_bytes=split.size_bytes, sha256=split.sha256)
            for split in self._view.splits
        )
        return FolderView(version=self._view.digest, url=self._view.reference, files=files)

    def _url(self, file: FileView, offset: int) -> str:
        split = file.name.removesuffix(_SUFFIX)
        query = {"dataset": self._view.reference, "split": split, "offset": offset}
        return f"/v1/datasets/file?{urlencode(query)}"

    def _gone(self, error: NotFound) -> NotFound:
        return NotFound(f"{self._view.reference} was deleted while it was downloaded")
