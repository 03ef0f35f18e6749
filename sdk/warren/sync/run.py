"""The handle of a run, without `await`."""

from collections.abc import Generator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from warren.connection.loop_thread import LoopThread
from warren.metrics.plotting import PLOTTED, plot_rows
from warren.records import RECONNECT_S
from warren.run import Limits
from warren.run import Run as AsyncRun
from warren.streams.events import ConnectionChanged, Event
from warren.streams.logs import LogEntry
from warren.streams.recording import Beginning
from warren.sync.rows import MetricRows
from warren_schemas.events import RunState
from warren_schemas.files import FolderView
from warren_schemas.http import (
    CheckpointList,
    CheckpointMetricsList,
    EvaluationReport,
    EvaluationSummary,
    RunResult,
    RunView,
    TrajectoryView,
)
from warren_schemas.ids import RunId

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Run:
    """See `warren.Run`."""

    def __init__(self, thread: LoopThread, run: AsyncRun) -> None:
        self._thread = thread
        self._run = run

    def __repr__(self) -> str:
        return repr(self._run)

    @property
    def view(self) -> RunView:
        """The run as it was when last looked at."""
        return self._run.view

    @property
    def id(self) -> RunId:
        return self._run.id

    @property
    def state(self) -> RunState:
        return self._run.state

    def refresh(self) -> RunView:
        """Look again; the answer is `view` from then on."""
        return self._thread.call(self._run.refresh())

    def cancel(self, *, save: bool = False) -> RunView:
        """Stop the run, with `save` once a checkpoint is written."""
        return self._thread.call(self._run.cancel(save=save))

    def finish(self) -> RunView:
        """End it early: it takes no more steps, makes its last evaluation, saves, and completes."""
        return self._thread.call(self._run.finish())

    def pause(self) -> RunView:
        """Save it, and give its trainer back until `resume`."""
        return self._thread.call(self._run.pause())

    def resume(self) -> RunView:
        """Let it go on; it queues for a trainer like any other."""
        return self._thread.call(self._run.resume())

    def set(
        self,
        *,
        priority: int | None = None,
        limits: Limits | None = None,
        on_disconnect: Literal["detach"] | None = None,
    ) -> RunView:
        """Change its priority, or keys of its config's `limits`, while it goes on; `on_disconnect="detach"` lets
        it go on without its client."""
        changed = self._run.set(priority=priority, limits=limits, on_disconnect=on_disconnect)
        return self._thread.call(changed)

    def retry(self) -> "Run":
        """The run that goes on for this one, which failed or was cancelled."""
        return Run(self._thread, self._thread.call(self._run.retry()))

    def checkpoints(self) -> CheckpointList:
        """The checkpoints that are kept, oldest first, and the newest policy."""
        return self._thread.call(self._run.checkpoints())

    def checkpoint_metrics(self) -> CheckpointMetricsList:
        """What the run reported around each checkpoint that is kept."""
        return self._thread.call(self._run.checkpoint_metrics())

    def evaluations(self) -> tuple[EvaluationSummary, ...]:
        """Its evaluations, oldest first; `evaluation` has the results of one."""
        return self._thread.call(self._run.evaluations())

    def evaluation(self, number: int | None = None, *, solved_at: float = 1.0) -> EvaluationReport:
        """The results by now of its newest evaluation, or of this number."""
        return self._thread.call(self._run.evaluation(number, solved_at=solved_at))

    def download(
        self, to: str | PathLike[str], version: str = "", *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch the files of a checkpoint (`step-000040`) or a policy (`40`) into a new folder."""
        return self._thread.call(self._run.download(to, version, reconnect_s=reconnect_s))

    def delete(self) -> None:
        """Delete the run, its recording, its checkpoints and its policies."""
        self._thread.call(self._run.delete())

    def events(
        self,
        *,
        after: int | None = None,
        reconnect_s: float = RECONNECT_S,
        on_connection: ConnectionChanged | None = None,
    ) -> Generator[Event]:
        """What happened from the start, then what happens; ends with the run.

        `on_connection` is called from the client's own thread.
        """
        return self._thread.iterate(
            self._run.events(after=after, reconnect_s=reconnect_s, on_connection=on_connection)
        )

    def trajectories(
        self,
        *,
        from_: Beginning = None,
        limit: int | None = None,
        follow: bool = False,
        all_attempts: bool = False,
        reconnect_s: float = RECONNECT_S,
    ) -> Generator[TrajectoryView]:
        """The episodes that the run has recorded and consumed, oldest first, each once."""
        return self._thread.iterate(
            self._run.trajectories(
                from_=from_,
                limit=limit,
                follow=follow,
                all_attempts=all_attempts,
                reconnect_s=reconnect_s,
            )
        )

    def logs(
        self, *, follow: bool = False, reconnect_s: float = RECONNECT_S
    ) -> Generator[LogEntry]:
        """What all parts said while they worked for the run, oldest first, each line once."""
        return self._thread.iterate(self._run.logs(follow=follow, reconnect_s=reconnect_s))

    def metrics(
        self,
        tags: Sequence[str] | None = None,
        *,
        after: int = 0,
        follow: bool = False,
        reconnect_s: float = RECONNECT_S,
    ) -> MetricRows:
        """What the run reported after each step and evaluation, oldest first, each row once.

        For a loop, or as a whole: `run.metrics().to_dataframe()`.
        """
        rows = self._run.metrics(tags, after=after, follow=follow, reconnect_s=reconnect_s)
        return MetricRows(self._thread.iterate(rows))

    def plot(self, tags: Sequence[str] = PLOTTED) -> "Figure":
        """A matplotlib figure of these metrics by step: one curve each, below each other."""
        return plot_rows(self.metrics(tags).to_list(), self.view.name)

    def follow(self) -> RunResult:
        """Show how the run goes until it ends: drawn at a terminal and in a notebook."""
        return self._thread.call(self._run.follow())

    def result(self) -> RunResult:
        """Wait for the end. Raises `RunFailed` or `RunCancelled` with the reason."""
        return self._thread.call(self._run.result())
