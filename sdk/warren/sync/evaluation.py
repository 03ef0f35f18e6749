"""The handle of an evaluation, without `await`."""

from warren.comparing import Comparison
from warren.connection.loop_thread import LoopThread
from warren.evaluations.handle import Evaluation as AsyncEvaluation
from warren.sync.run import Run
from warren_schemas.http import EvaluationReport


class Evaluation:
    """See `warren.Evaluation`."""

    def __init__(self, thread: LoopThread, evaluation: AsyncEvaluation) -> None:
        self._thread = thread
        self._evaluation = evaluation

    def __repr__(self) -> str:
        return repr(self._evaluation)

    @property
    def run(self) -> Run:
        """Its run."""
        return Run(self._thread, self._evaluation.run)

    def result(self, *, solved_at: float = 1.0) -> EvaluationReport:
        """Wait for its end; the results. A reward of `solved_at` or more solves a task."""
        return self._thread.call(self._evaluation.result(solved_at=solved_at))

    def compare(self, other: "Evaluation") -> Comparison:
        """Wait for both; the other one's rewards minus this one's, task by task."""
        return self._thread.call(self._evaluation.compare(other._evaluation))
