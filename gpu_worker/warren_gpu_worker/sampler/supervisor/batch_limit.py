"""How many turns a sampling child computes at once, once there was too little memory for more.

Invariants: the limit only falls, by halves, for as long as this process lives; where it is one and even that does not
fit, the turn that was computed is refused. So each lack of memory makes the limit or the work smaller, and no other
turn pays for it.
"""

from collections.abc import Iterable

from warren_broker.run_logs.run_logger import RunLogger
from warren_gpu_worker.sampler.engines.port import Refusal
from warren_gpu_worker.sampler.messages import OutOfMemory
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.episode import FailureKind

run_log = RunLogger(__name__)


class BatchLimit:
    """`settings` are those of the next child."""

    def __init__(self, settings: GpuWorkerSettings, turns: OpenTurns) -> None:
        self.settings = settings
        self._turns = turns

    def out_of_memory(self, frame: OutOfMemory) -> list[Refusal]:
        """A child ended for want of memory; refusals of what no child has enough for.

        What it held counts as attempted no more, unless it was for something else than turns.
        """
        before = self.settings.max_batch
        lower = min(before, max(frame.n_running, 1)) // 2
        if lower:
            self.settings = self.settings.model_copy(update={"max_batch": lower})
            tell_all(self._turns.owed(), _lowered(before, lower, frame.reason))
        elif frame.first is None:
            return []
        self._turns.not_attempted()
        return [] if lower or frame.first is None else [_refused(frame.first, frame.reason)]


def _lowered(before: int, lower: int, reason: str) -> str:
    return (
        f"the sampler had no memory for as many turns at once (at most {before}) and goes on with {lower};"
        f" start the GPU worker with --max-batch {lower} or a smaller --max-context ({reason})"
    )


def _refused(turn_id: int, reason: str) -> Refusal:
    told = (
        "the sampler has no memory for this turn, even alone; start the GPU worker with a smaller --max-context, or"
        f" make the run's episodes shorter ({reason})"
    )
    return Refusal(turn_id, FailureKind.SAMPLER_ERROR, told)


def tell_all(turns: Iterable[OpenTurn], notice: str) -> None:
    """Each run of these turns once."""
    for run in {turn.item.envelope.run for turn in turns}:
        run_log.warning(run, notice)
