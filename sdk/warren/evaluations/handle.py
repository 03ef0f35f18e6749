"""The handle of an evaluation that is a run of its own."""

from warren.comparing import Comparison, compare
from warren.pending import pending
from warren.run import Run
from warren_schemas.http import EvaluationReport


class Evaluation:
    """`run` is its run, with everything that runs have: events, trajectories, `cancel`, `finish`."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __repr__(self) -> str:
        return f"<Evaluation of {self.run!r}>"

    @pending
    async def result(self, *, solved_at: float = 1.0) -> EvaluationReport:
        """Wait for its end; the results. An episode with a reward of `solved_at` or more solves its task.

        Raises `RunFailed` or `RunCancelled` with the reason.
        """
        await self.run.result()
        return await self.run.evaluation(solved_at=solved_at)

    @pending
    async def compare(self, other: "Evaluation") -> Comparison:
        """Wait for both; the other one's rewards minus this one's, task by task.

        Raises `ConfigurationError` where they share no task, and what `result` raises.
        """
        return compare(await self.result(), await other.result())
