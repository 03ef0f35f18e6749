"""The handle of a sweep, without `await`."""

from warren.connection.loop_thread import LoopThread
from warren.run_configs.sweeps.comparing import RunComparison
from warren.run_configs.sweeps.handle import Sweep as AsyncSweep
from warren.sync.run import Run


class Sweep:
    """See `warren.Sweep`."""

    def __init__(self, thread: LoopThread, sweep: AsyncSweep) -> None:
        self._thread = thread
        self._sweep = sweep

    def __repr__(self) -> str:
        return repr(self._sweep)

    @property
    def name(self) -> str:
        return self._sweep.name

    @property
    def runs(self) -> tuple[Run, ...]:
        """In the order of its values, the last key changing fastest."""
        return tuple(Run(self._thread, run) for run in self._sweep.runs)

    def compare(self, metric: str | None = None, *, lowest: bool = False) -> RunComparison:
        """Its runs by the best value of a metric, with the keys in which they differ."""
        return self._thread.call(self._sweep.compare(metric, lowest=lowest))

    def cancel(self, *, save: bool = False) -> None:
        """Cancel all that go on. Cancelling again changes nothing."""
        self._thread.call(self._sweep.cancel(save=save))
