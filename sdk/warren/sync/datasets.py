"""`client.datasets` without `await`; see `warren.datasets`."""

from collections.abc import Mapping
from os import PathLike

from pydantic import JsonValue

from warren.connection.loop_thread import LoopThread
from warren.datasets import handle as asynchronous
from warren.datasets.collecting import CollectedKind
from warren.records import RECONNECT_S
from warren.sync.run import Run
from warren_schemas.config import RecordingFilter
from warren_schemas.files import FolderView
from warren_schemas.http import DatasetKind, DatasetView


class Dataset:
    """See `warren.Dataset`."""

    def __init__(self, thread: LoopThread, dataset: asynchronous.Dataset) -> None:
        self._thread = thread
        self._dataset = dataset

    @property
    def handle(self) -> asynchronous.Dataset:
        """The same for a client that is awaited."""
        return self._dataset

    def __repr__(self) -> str:
        return repr(self._dataset)

    @property
    def view(self) -> DatasetView:
        """What the gateway says of it."""
        return self._dataset.view

    @property
    def reference(self) -> str:
        """`OWNER/NAME@DIGEST`: what configs call this very version."""
        return self._dataset.reference

    def rows(
        self, split: str | None = None, *, offset: int = 0, limit: int = 10
    ) -> tuple[dict[str, JsonValue], ...]:
        """Some rows of a split (by default the first one), at most 100 at a time."""
        return self._thread.call(self._dataset.rows(split, offset=offset, limit=limit))

    def download(self, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S) -> FolderView:
        """Fetch it as `SPLIT.jsonl` files into a new folder; an interrupted download is resumed."""
        return self._thread.call(self._dataset.download(to, reconnect_s=reconnect_s))

    def share(self, user: str | None = None) -> DatasetView:
        """Let a user, or everybody (None), read it with all its versions."""
        return self._thread.call(self._dataset.share(user))

    def unshare(self, user: str | None = None) -> DatasetView:
        """Stop sharing it with a user, or with everybody (None)."""
        return self._thread.call(self._dataset.unshare(user))

    def delete(self) -> None:
        """Delete this version."""
        self._thread.call(self._dataset.delete())


class Datasets:
    def __init__(self, thread: LoopThread, datasets: asynchronous.Datasets) -> None:
        self._thread = thread
        self._datasets = datasets

    def upload(
        self,
        path: str | PathLike[str],
        name: str,
        *,
        kind: DatasetKind | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> Dataset:
        """Upload a file (JSON lines or parquet) as the split `train`, or each file of a folder as a split."""
        asked = self._datasets.upload(path, name, kind=kind, reconnect_s=reconnect_s)
        return Dataset(self._thread, self._thread.call(asked))

    def collect(
        self,
        run: Run | str,
        name: str,
        *,
        where: RecordingFilter | Mapping[str, object] | None = None,
        best_of: int | None = None,
        kind: CollectedKind = DatasetKind.TRAJECTORIES,
    ) -> Dataset:
        """A data set of a run's best recorded episodes."""
        recorder = run if isinstance(run, str) else str(run.id)
        asked = self._datasets.collect(recorder, name, where=where, best_of=best_of, kind=kind)
        return Dataset(self._thread, self._thread.call(asked))

    def all(self) -> list[Dataset]:
        """Every version that you may read, newest first."""
        return [Dataset(self._thread, each) for each in self._thread.call(self._datasets.all())]

    def get(self, reference: str) -> Dataset:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest."""
        return Dataset(self._thread, self._thread.call(self._datasets.get(reference)))

    def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references."""
        return self._thread.call(self._datasets.delete(reference))
