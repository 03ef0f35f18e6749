"""The handle of a run: watch it, wait for it, stop it. The run itself lives at the gateway."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel, JsonValue

from warren.configs import changes
from warren.connection.downloading import Download
from warren.connection.transport import Transport
from warren.ending import outcome
from warren.errors import GatewayError
from warren.pending import pending
from warren.records import RECONNECT_S, RunRecords
from warren.streams.events import ConnectionChanged, Event, EventReader
from warren_schemas.events import RunState
from warren_schemas.files import FolderView
from warren_schemas.http import (
    CancelRun,
    CheckpointList,
    CheckpointMetricsList,
    EvaluationList,
    EvaluationReport,
    EvaluationSummary,
    QueueList,
    QueueView,
    RunDeleted,
    RunResult,
    RunView,
)

Limits: TypeAlias = Mapping[str, JsonValue]
"""Keys of a config's `limits` with their values."""


class Run(RunRecords):
    """A run as it was when last looked at (`view`); letting go of the handle changes nothing."""

    def __init__(self, transport: Transport, view: RunView) -> None:
        super().__init__(transport, view)
        self._path = f"/v1/runs/{quote(view.id, safe='')}"
        self._newest: int | None = None

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.view.name!r}: {self.view.state}>"

    @property
    def state(self) -> RunState:
        return self.view.state

    @pending
    async def refresh(self) -> RunView:
        """Look again; the answer is `view` from then on."""
        self.view = await self._transport.get(self._path, RunView)
        return self.view

    @pending
    async def cancel(self, *, save: bool = False) -> RunView:
        """Stop the run, with `save` once a checkpoint is written. Cancelling what has ended already changes
        nothing."""
        try:
            self.view = await self._ask("cancel", CancelRun(save=save))
        except GatewayError as error:
            if error.code != "run_has_ended":
                raise
            await self.refresh()
        return self.view

    @pending
    async def finish(self) -> RunView:
        """End it early: it takes no more steps, makes its last evaluation, saves, and completes.

        Raises `GatewayError` (409) where there is nothing to finish.
        """
        self.view = await self._ask("finish")
        return self.view

    @pending
    async def pause(self) -> RunView:
        """Save it, and give its trainer back until `resume`. Raises `GatewayError` (409) when it is over."""
        self.view = await self._ask("pause")
        return self.view

    @pending
    async def resume(self) -> RunView:
        """Let it go on; it queues for a trainer like any other. Raises `GatewayError` (409) when it is over."""
        self.view = await self._ask("resume")
        return self.view

    @pending
    async def set(
        self,
        *,
        priority: int | None = None,
        limits: Limits | None = None,
        on_disconnect: Literal["detach"] | None = None,
    ) -> RunView:
        """Change it while it goes on.

        `priority`: it goes before others in the queue for trainers (higher), or behind (lower); only an admin's
        key gives more than 0. `limits`: keys of the config's `limits` with new values; docs/training.md says
        which can be changed. `on_disconnect="detach"`
        lets it go on without its client. Raises `ConfigurationError`, and `GatewayError`: 403, or 409 where it is too late.
        """
        change = changes(priority=priority, limits=limits, on_disconnect=on_disconnect)
        self.view = await self._ask("set", change)
        return self.view

    @pending
    async def retry(self) -> "Run":
        """The run that goes on for this one, which failed or was cancelled, from its newest checkpoint.

        Asking again gives the same run. Raises `GatewayError` (409) while this one goes on.
        """
        return Run(self._transport, await self._ask("retry"))

    async def _ask(self, verb: str, body: BaseModel | None = None) -> RunView:
        return await self._transport.post(f"{self._path}/{verb}", RunView, body)

    @pending
    async def checkpoints(self) -> CheckpointList:
        """The checkpoints that are kept, oldest first, and the newest policy."""
        return await self._transport.get(f"{self._path}/checkpoints", CheckpointList)

    @pending
    async def checkpoint_metrics(self) -> CheckpointMetricsList:
        """What the run reported around each checkpoint that is kept: its step's metrics, and the
        evaluations before and after it."""
        return await self._transport.get(f"{self._path}/checkpoints/metrics", CheckpointMetricsList)

    @pending
    async def evaluations(self) -> tuple[EvaluationSummary, ...]:
        """Its evaluations, oldest first; `evaluation` has the results of one."""
        return (await self._transport.get(f"{self._path}/evaluations", EvaluationList)).evaluations

    @pending
    async def evaluation(
        self, number: int | None = None, *, solved_at: float = 1.0
    ) -> EvaluationReport:
        """The results by now of its newest evaluation, or of this number; a reward of `solved_at` or more solves
        a task. Raises `NotFound`."""
        query = f"?solved_at={solved_at}" + (f"&number={number}" if number is not None else "")
        return await self._transport.get(f"{self._path}/evaluation{query}", EvaluationReport)

    @pending
    async def download(
        self, to: str | PathLike[str], version: str = "", *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch the files of a checkpoint (`step-000040`) or a policy (`40`, the one after that step, or `v40`,
        the one of that version) into a new folder.

        The newest policy where no version is given. Every file is checked; one that was cut off is
        taken up where it was. Raises `NotFound`, `ConfigurationError`, `GatewayError`, `OSError`.
        """
        download = Download(self._transport, self.id, version, reconnect_s=reconnect_s)
        return await download.into(Path(to))

    @pending
    async def delete(self) -> None:
        """Delete the run, its recording, its checkpoints and its policies.

        Raises `GatewayError` (409) while it goes on, or another run of yours needs it.
        """
        await self._transport.post(f"{self._path}/delete", RunDeleted)

    async def events(
        self,
        *,
        after: int | None = None,
        reconnect_s: float = RECONNECT_S,
        on_connection: ConnectionChanged | None = None,
    ) -> AsyncGenerator[Event]:
        """What happened from the start (or behind the offset `after`), then what happens.

        Ends with the run. A lost connection is taken up again where it was lost; each event comes
        once and in order. `on_connection` hears of losses and returns. Raises `GatewayUnreachable`
        or `GatewayBusy` after `reconnect_s` without a connection.
        """
        reader = EventReader(
            self._transport,
            self.id,
            after=after,
            reconnect_s=reconnect_s,
            on_connection=on_connection,
        )
        async with contextlib.aclosing(reader.read()) as events:
            async for event in events:
                self._newest = max(event.offset, self._newest or 0)
                yield event

    @pending
    async def follow(self) -> RunResult:
        """Show how the run goes until it ends: drawn at a terminal and in a notebook, else as lines.

        Raises `RunFailed` or `RunCancelled` with the reason.
        """
        from warren.display.output import make_output
        from warren.display.watching import make_view, watch

        await watch(self, self._queues, make_view(make_output(), as_json=False))
        return await self.result()

    async def _queues(self) -> tuple[QueueView, ...]:
        return (await self._transport.get("/v1/queues", QueueList)).queues

    @pending
    async def result(self) -> RunResult:
        """Wait for the end. Raises `RunFailed` or `RunCancelled` with the reason.

        `outcome` of a run that completed says whether anything was learned.
        """
        while not (await self.refresh()).state.is_final:
            async for _ in self.events(after=self._newest):
                pass
        return outcome(self.view)
