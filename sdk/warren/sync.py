"""The client without `await`, for scripts and notebooks: the same methods, each done when it returns.

    import warren

    client = warren.sync.connect()
    run = client.train("guess.yaml")
    for event in run.events():
        print(event)
    print(run.result())

Requests run on an event loop in a thread of their own, so this works in Jupyter as well, where a loop runs
already. Ctrl-C ends the call that waits. `close`, `with` or the end of the program ends the connection.
"""

import weakref
from collections.abc import Coroutine, Generator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Self, TypeVar

from warren import client as asynchronous
from warren.configs import ConfigLike
from warren.connection.loop_thread import LoopThread
from warren.metrics.plotting import PLOTTED, plot_rows
from warren.metrics.sync_rows import MetricRows
from warren.reading import ConnectionChanged, Event
from warren.recording import Beginning
from warren.run import RECONNECT_S
from warren.run import Run as AsyncRun
from warren.settings import Settings
from warren.sync_access import Access
from warren_schemas.check import RunCheck
from warren_schemas.events import RunState
from warren_schemas.files import FolderView
from warren_schemas.http import (
    CheckpointList,
    CheckpointMetricsList,
    DeadLetterDetails,
    DeadLetterView,
    Health,
    QueueView,
    RunResult,
    RunView,
    TrajectoryView,
    WorkerView,
)
from warren_schemas.ids import RunId
from warren_schemas.users.budgets import BudgetView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

__all__ = ["Client", "Run", "connect"]


class Client:
    """See `warren.Client`; this one is open at once."""

    def __init__(self, client: asynchronous.Client) -> None:
        self._client = client
        self._thread = LoopThread()
        self._thread.call(client.__aenter__())
        self._closing = weakref.finalize(self, _close, self._thread, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. Closing again changes nothing."""
        self._closing()

    @property
    def settings(self) -> Settings:
        return self._client.settings

    @property
    def access(self) -> Access:
        """Users, API keys and the audit log."""
        return Access(self._thread, self._client.access)

    def train(
        self, config: ConfigLike, *, idempotency_key: str | None = None, priority: int = 0
    ) -> "Run":
        """Submit a run; return as soon as the gateway has stored it."""
        key = idempotency_key
        return self._run(self._client.train(config, idempotency_key=key, priority=priority))

    def check(self, config: ConfigLike) -> RunCheck:
        """Whether the gateway could run this config now, and what it may cost; submits nothing."""
        return self._call(self._client.check(config))

    def replay(
        self,
        run: "Run | str",
        into: ConfigLike,
        *,
        from_: Beginning = None,
        idempotency_key: str | None = None,
    ) -> "Run":
        """Submit a run that trains on what another run recorded."""
        recorder, key = run if isinstance(run, str) else str(run.id), idempotency_key
        return self._run(self._client.replay(recorder, into, from_=from_, idempotency_key=key))

    def run(self, name: str, *, only_one: bool = False) -> "Run":
        """The run with this id, name or end of an id; `last` is the newest."""
        return self._run(self._client.run(name, only_one=only_one))

    def runs(self, *, limit: int = 50) -> "list[Run]":
        """Your newest runs, the newest first; at most `limit`, which is at most 500."""
        return [Run(self._thread, run) for run in self._call(self._client.runs(limit=limit))]

    def workers(self) -> tuple[WorkerView, ...]:
        """Samplers, trainers and env workers that are alive."""
        return self._call(self._client.workers())

    def queues(self) -> tuple[QueueView, ...]:
        """The work queues, and how many messages wait in each."""
        return self._call(self._client.queues())

    def budgets(self) -> tuple[BudgetView, ...]:
        """How much of what users share you have in use, and your limits."""
        return self._call(self._client.budgets())

    def dead_letters(self, *, limit: int = 100) -> tuple[DeadLetterView, ...]:
        """Messages that were given up, oldest first: those of your runs."""
        return self._call(self._client.dead_letters(limit=limit))

    def dead_letter(self, letter: str) -> DeadLetterDetails:
        """One of them, with its items."""
        return self._call(self._client.dead_letter(letter))

    def republish_dead_letter(self, letter: str) -> DeadLetterView:
        """Send it to the queue that it came from."""
        return self._call(self._client.republish_dead_letter(letter))

    def drop_dead_letter(self, letter: str) -> DeadLetterView:
        """Forget it."""
        return self._call(self._client.drop_dead_letter(letter))

    def health(self) -> Health:
        """Who answers at the gateway's address; needs no API key."""
        return self._call(self._client.health())

    def _call(self, answer: Coroutine[object, None, T]) -> T:
        return self._thread.call(answer)

    def _run(self, answer: Coroutine[object, None, AsyncRun]) -> "Run":
        return Run(self._thread, self._call(answer))


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

    def set_priority(self, priority: int) -> RunView:
        """Let it go before others in the queue for trainers (higher), or behind (lower)."""
        return self._thread.call(self._run.set_priority(priority))

    def retry(self) -> "Run":
        """The run that goes on for this one, which failed or was cancelled."""
        return Run(self._thread, self._thread.call(self._run.retry()))

    def checkpoints(self) -> CheckpointList:
        """The checkpoints that are kept, oldest first, and the newest policy."""
        return self._thread.call(self._run.checkpoints())

    def checkpoint_metrics(self) -> CheckpointMetricsList:
        """What the run reported around each checkpoint that is kept."""
        return self._thread.call(self._run.checkpoint_metrics())

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


def connect(
    url: str | None = None,
    api_key: str | None = None,
    *,
    timeout_s: float = 30.0,
    retry_s: float = 10.0,
) -> Client:
    """A client of the gateway at `url`; see `warren.connect`."""
    return Client(asynchronous.connect(url, api_key, timeout_s=timeout_s, retry_s=retry_s))


def _close(thread: LoopThread, client: asynchronous.Client) -> None:
    thread.call(client.__aexit__(None, None, None))
    thread.stop()
