"""Answers of samplers that a client comes for later: asked at once, kept until they are fetched.

They live in this gateway's memory. Nothing is lost by that which its client can't have again: who comes for a
future that is not here (the gateway was restarted, another one has it, it is too old) is told that it is gone, and
the clients then ask once more; the questions themselves wait in the samplers' queue.

Invariants
- One question for one name, however often it is asked; to other owners there is no future of this name.
- A future that is finished stays for `KEPT_S` after it, unless newer ones of all owners take `MOST_BYTES`.
- A future that is cancelled, or whose gateway stops, tells the samplers to stop.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from warren_broker.errors import BrokerError
from warren_gateway.budgets.budget import Budget
from warren_gateway.inference.questions import Answer, AnswersLost, Question, Questions

KEPT_S = 900.0
MOST_BYTES = 512 * 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FailedSample:
    """Why there is no answer, and whether the same question would fail again."""

    reason: str
    is_users: bool


Sampled = bytes | FailedSample
Told = Callable[[Sequence[Answer]], Sampled]
"""Answers -> what the client gets."""


@dataclass(slots=True, eq=False)
class _Future:
    owner: str
    outcome: Sampled | None = None
    is_done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[Sampled | None] | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.outcome) if isinstance(self.outcome, bytes) else 0


class NoSuchFuture(LookupError):
    """It isn't here (any more)."""


class SampleFutures:
    """`budget` is what owners may wait for. `run` must go on meanwhile."""

    def __init__(self, questions: Questions, budget: Budget) -> None:
        self._questions = questions
        self._budget = budget
        self._futures: OrderedDict[str, _Future] = OrderedDict()
        self._n_bytes = 0
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep futures until cancelled; those that are open end with it."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    def ask(self, owner: str, name: str, question: Question, told: Told) -> None:
        """Raises `OverBudget`, and `AnswersLost` when the gateway stops."""
        known = self._futures.get(name)
        if known is not None and known.owner == owner:
            return
        if self._tasks is None:
            raise AnswersLost("the gateway stops")
        self._budget.take(owner, question.n)
        future = self._futures[name] = _Future(owner)
        asking = self._answer(question, told)
        future.task = self._tasks.create_task(asking, name="an answer that is fetched later")
        future.task.add_done_callback(partial(self._answered, name, future, question.n))

    def fail(self, owner: str, name: str, failed: FailedSample) -> None:
        """A future for a question that can't be asked."""
        if name not in self._futures:
            self._futures[name] = future = _Future(owner)
            self._finish(name, future, failed)

    async def outcome(self, owner: str, name: str, *, within_s: float) -> Sampled | None:
        """None when it isn't there by then. Raises `NoSuchFuture`."""
        future = self._own(owner, name)
        try:
            async with asyncio.timeout(within_s):
                await future.is_done.wait()
        except TimeoutError:
            return None
        if future.outcome is None:
            raise NoSuchFuture(name)
        return future.outcome

    def cancel(self, owner: str, name: str) -> None:
        """Its client wants it no more; one that is not here is no error."""
        future = self._futures.get(name)
        if future is not None and future.owner == owner and future.task is not None:
            future.task.cancel()

    def _own(self, owner: str, name: str) -> _Future:
        future = self._futures.get(name)
        if future is None or future.owner != owner:
            raise NoSuchFuture(name)
        return future

    async def _answer(self, question: Question, told: Told) -> Sampled | None:
        """None where the question is lost: its client asks once more."""
        try:
            async with self._questions.ask(question) as answers:
                async with asyncio.timeout(self._questions.limits.answer_s):
                    return told([await answer for answer in answers])
        except TimeoutError:
            return FailedSample("No sampler answered in time", is_users=False)
        except BrokerError as error:
            log.info("a sample was lost: %s", error)
            return None
        except Exception:  # an edge: one bad sample costs no other one
            log.exception("a sample can't be told")
            return FailedSample("Internal error of the gateway; see its log", is_users=False)

    def _answered(
        self, name: str, future: _Future, n: int, task: asyncio.Task[Sampled | None]
    ) -> None:
        self._budget.give_back(future.owner, n)
        self._finish(name, future, None if task.cancelled() else task.result())

    def _finish(self, name: str, future: _Future, outcome: Sampled | None) -> None:
        """None: the future is gone, whoever waits for it."""
        future.outcome, future.task = outcome, None
        future.is_done.set()
        if outcome is None:
            self._drop(name, future)
            return
        self._n_bytes += future.size_bytes
        asyncio.get_running_loop().call_later(KEPT_S, self._drop, name, future)
        self._make_room()

    def _drop(self, name: str, future: _Future) -> None:
        if self._futures.get(name) is future:
            del self._futures[name]
            self._n_bytes -= future.size_bytes

    def _make_room(self) -> None:
        """The oldest finished ones go first."""
        for name, future in list(self._futures.items()) if self._n_bytes > MOST_BYTES else ():
            if future.is_done.is_set():
                self._drop(name, future)
            if self._n_bytes <= MOST_BYTES:
                return
