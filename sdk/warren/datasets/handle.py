"""`client.datasets`, and the handle of one data set."""

import asyncio
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from urllib.parse import quote, urlencode

from pydantic import JsonValue, ValidationError

from warren.configs import to_filter
from warren.connection.transport import Transport
from warren.datasets.collecting import CollectedKind, collect_rows
from warren.datasets.downloading import DatasetDownload
from warren.datasets.sources import sources
from warren.datasets.uploading import upload
from warren.errors import ConfigurationError
from warren.pending import pending
from warren.records import RECONNECT_S
from warren.run import Run
from warren_schemas.config import RecordingFilter
from warren_schemas.files import FolderView
from warren_schemas.http import (
    ChooseDataset,
    CreateDataset,
    DatasetKind,
    DatasetList,
    DatasetRows,
    DatasetView,
    RunView,
    ShareDataset,
    VersionsDeleted,
)

NAMES = (
    "A data set is named NAME, OWNER/NAME, or either with @ and at least 6 digits of its digest."
)


class Dataset:
    """One version of a data set, which never changes (`view`)."""

    def __init__(self, transport: Transport, view: DatasetView) -> None:
        self._transport = transport
        self.view = view

    def __repr__(self) -> str:
        return f"<Dataset {self.reference}: {self.view.n_rows} rows>"

    @property
    def reference(self) -> str:
        """`OWNER/NAME@DIGEST`: what configs call this very version."""
        return self.view.reference

    @pending
    async def rows(
        self, split: str | None = None, *, offset: int = 0, limit: int = 10
    ) -> tuple[dict[str, JsonValue], ...]:
        """Some rows of a split (by default the first one), at most 100 at a time."""
        query: dict[str, str | int] = {
            "dataset": self.reference,
            "offset": offset,
            "limit": limit,
            **({} if split is None else {"split": split}),
        }
        path = f"/v1/datasets/rows?{urlencode(query)}"
        return (await self._transport.get(path, DatasetRows)).rows

    @pending
    async def download(
        self, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch it as `SPLIT.jsonl` files into a new folder; an interrupted download is resumed.

        Raises `ConfigurationError`, `GatewayError`.
        """
        download = DatasetDownload(self._transport, self.view, reconnect_s=reconnect_s)
        return await download.into(Path(to))

    @pending
    async def share(self, user: str | None = None) -> DatasetView:
        """Let a user, or everybody (None), read it with all its versions."""
        return await self._share("share", user)

    @pending
    async def unshare(self, user: str | None = None) -> DatasetView:
        """Stop sharing it with a user, or with everybody (None)."""
        return await self._share("unshare", user)

    @pending
    async def delete(self) -> None:
        """Delete this version. A run that reads it and is not over prevents that: `GatewayError` (409)."""
        body = ChooseDataset(dataset=self.reference)
        await self._transport.post("/v1/datasets/delete", VersionsDeleted, body)

    async def _share(self, verb: str, user: str | None) -> DatasetView:
        try:
            body = ShareDataset(dataset=self.reference, user=user)
        except ValidationError as error:
            raise ConfigurationError(f"There can be no user {user!r}") from error
        self.view = await self._transport.post(f"/v1/datasets/{verb}", DatasetView, body)
        return self.view


class Datasets:
    """Data sets that you have uploaded, or that are shared with you."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @pending
    async def upload(
        self,
        path: str | PathLike[str],
        name: str,
        *,
        kind: DatasetKind | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> Dataset:
        """Upload a file (JSON lines, parquet or OpenEnv's TrainingTraces) as the split `train`, or each file of a folder as a split.

        Every row is checked here first: `ConfigurationError` says which line is wrong and why. `kind` is told by
        the first row unless it is given. The same files again give the same version; an interrupted upload is resumed.
        """
        found = await asyncio.to_thread(sources, Path(path), kind)
        try:
            wanted = CreateDataset(
                name=name, kind=found[0].kind, files=tuple(source.file for source in found)
            )
        except ValidationError as error:
            raise ConfigurationError(
                f"A data set can't be named {name!r}",
                hint="Letters, digits, `.`, `-` and `_`, up to 64, a letter or digit first.",
            ) from error
        for source in found:
            await upload(self._transport, source, reconnect_s=reconnect_s)
        view = await self._transport.post_long("/v1/datasets", DatasetView, wanted)
        return Dataset(self._transport, view)

    @pending
    async def collect(
        self,
        run: Run | str,
        name: str,
        *,
        where: RecordingFilter | Mapping[str, object] | None = None,
        best_of: int | None = None,
        kind: CollectedKind = DatasetKind.TRAJECTORIES,
    ) -> Dataset:
        """A data set of a run's recorded episodes, for rejection sampling and distillation.

        As trajectories they are learned with the very tokens that were sampled, by models with the same tokenizer; as
        `DatasetKind.MESSAGES` they are words, which any model learns.

        `run` may be its id. Those that `where` admits, each judged by itself (`{"min_reward": 1.0}`, the filter of replays), and of each task
        the `best_of` best ones. What the run has not consumed yet is left out. Raises `ConfigurationError` where nothing is left.
        """
        chosen = to_filter(where)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.jsonl"
            episodes = (await self._run(run)).trajectories()
            await collect_rows(episodes, path, where=chosen, best_of=best_of, kind=kind)
            return await self.upload(path, name, kind=kind)

    async def _run(self, run: Run | str) -> Run:
        if isinstance(run, Run):
            return run
        found = await self._transport.get(f"/v1/runs/{quote(run, safe='')}", RunView)
        return Run(self._transport, found)

    @pending
    async def all(self) -> list[Dataset]:
        """Every version that you may read, newest first."""
        answer = await self._transport.get("/v1/datasets", DatasetList)
        return [Dataset(self._transport, view) for view in answer.datasets]

    @pending
    async def get(self, reference: str) -> Dataset:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest. Raises `NotFound`."""
        try:
            ChooseDataset(dataset=reference)
        except ValidationError as error:
            raise ConfigurationError(f"{reference!r} names no data set", hint=NAMES) from error
        path = f"/v1/datasets/show?{urlencode({'dataset': reference})}"
        return Dataset(self._transport, await self._transport.get(path, DatasetView))

    @pending
    async def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references. Raises `NotFound`."""
        try:
            body = ChooseDataset(dataset=reference)
        except ValidationError as error:
            raise ConfigurationError(f"{reference!r} names no data set", hint=NAMES) from error
        return (await self._transport.post("/v1/datasets/delete", VersionsDeleted, body)).deleted
