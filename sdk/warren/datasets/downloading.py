"""A data set from the gateway into a folder here: `SPLIT.jsonl` for each split."""

from warren.connection.transport import Transport
from warren.connection.uploaded import UploadedDownload
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import DatasetView

_SUFFIX = ".jsonl"


class DatasetDownload(UploadedDownload):
    def __init__(self, transport: Transport, view: DatasetView, *, reconnect_s: float) -> None:
        super().__init__(
            transport, view, path="/v1/datasets", key="dataset", reconnect_s=reconnect_s
        )
        self._view = view

    async def _list(self) -> FolderView:
        files = tuple(
            FileView(name=split.name + _SUFFIX, size_bytes=split.size_bytes, sha256=split.sha256)
            for split in self._view.splits
        )
        return FolderView(version=self._view.digest, url=self._view.reference, files=files)

    def _url(self, file: FileView, offset: int) -> str:
        return self._file_url({"split": file.name.removesuffix(_SUFFIX), "offset": offset})
