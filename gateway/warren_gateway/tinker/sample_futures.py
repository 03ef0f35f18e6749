"""Answers of samplers that a client comes for later: asked at once, kept until they are fetched.

A sample is in the store before its question is asked, and so is what came of it: a client gets it from any gateway,
also when that which has asked the samplers is gone; the one that is asked then asks them again.

Invariants
- One question for one name, however often it is asked; to other owners there is no future of this name.
- What is told from memory is in the store as well, or on its way; memory holds it for the poll that waits.
- A future that is cancelled, or whose gateway stops, tells the samplers to stop; where another gateway has asked them,
  it does so within `HELD_S / 3`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from warren_broker.errors import BrokerError
from warren_gateway.budgets.budget import Budget, OverBudget
from warren_gateway.inference.questions import Answer, AnswersLost, Question, Questions
from warren_gateway.models.waiters import Waiters
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.tinker.sample_rows import (
    HELD_S,
    Elsewhere,
    FailedSample,
    Sampled,
    SampleRows,
    Taken,
)

log = logging.getLogger(__name__)

Told = Callable[[Sequence[Answer], Sequence[Answer]], Sampled]
"""Answers, and what was answered when asked about them -> what the client gets."""
About = Callable[[Sequence[Answer]], Sequence[Question]]
"""Answers -> what is asked about them."""


class CantSample(ValueError):
    """This can't be asked; says why."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and what becomes of its answers."""

    question: Question
    told: Told
    about: About


Reading = Callable[[str, bytes], Awaitable[Ask]]
"""What an owner has asked, from the body of the request. Raises `CantSample`."""


@dataclass(slots=True, eq=False)
class _Future:
    owner: str
    n_answers: int
    n_kib: int
    outcome: Sampled | None = None
    is_done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class NoSuchFuture(LookupError):
    """There is none of this name, or its answer was lost: its client may ask once more."""


class SampleFutures:
    """`budget` is of the answers that owners wait for, `asked` of the KiB of their questions. `run` must go on meanwhile."""

    def __init__(
        self,
        questions: Questions,
        budget: Budget,
        asked: Budget,
        rows: SampleRows,
        waiters: Waiters,
        reading: Reading,
    ) -> None:
        self._questions = questions
        self._budget = budget
        self._kib = asked
        self._rows = rows
        self._waiters = waiters
        self._reading = reading
        self._futures: dict[str, _Future] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Answer futures until cancelled; those that are open are left to other gateways, or to the next start."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while True:
                    await asyncio.sleep(HELD_S / 3)
                    await self.hold()
        finally:
            self._tasks = None
            try:
                await self._rows.release()
            except StoreUnavailable as error:
                log.info("samples are left to others in %g s: %s", HELD_S, error)

    async def hold(self) -> None:
        """Say that the open ones are ours. Those that are no longer ours were cancelled at another gateway, or taken over by it."""
        open_before = [name for name, one in self._futures.items() if one.outcome is None]
        try:
            held = await self._rows.hold()
        except StoreUnavailable as error:
            return log.warning("samples may be asked twice: %s", error)
        for name in open_before:
            future = self._futures.get(name)
            if name not in held and future is not None and future.outcome is None:
                self._stop(future)

    async def ask(self, owner: str, name: str, body: bytes) -> None:
        """Once it returns, the future is in the store.

        Raises `OverBudget`, `StoreUnavailable`, and `AnswersLost` when the gateway stops.
        """
        if name in self._futures:
            return
        try:
            ask = await self._reading(owner, body)
            self._require_possible(ask)
        except CantSample as error:
            await self._rows.add(owner, name, body, FailedSample(f"{error}", is_users=True))
            return
        future = _Future(owner, ask.question.n, _kib(body))
        self._require_place(future)
        if await self._rows.add(owner, name, body):
            await self._begin(name, future, ask)

    def _require_possible(self, ask: Ask) -> None:
        """What can never be waited for fails at once: the clients try 429 again for ever. Raises `CantSample`."""
        if (n := ask.question.n) > self._budget.most:
            raise CantSample(f"num_samples is {n}, and {self._budget.most} is the most here")

    def _require_place(self, future: _Future) -> None:
        """Whoever may wait for no more is refused before anything is written. Raises `OverBudget`."""
        self._take(future)
        self._give_back(future)

    def _take(self, future: _Future) -> None:
        """Raises `OverBudget`."""
        self._budget.take(future.owner, future.n_answers)
        try:
            self._kib.take(future.owner, future.n_kib)
        except OverBudget:
            self._budget.give_back(future.owner, future.n_answers)
            raise

    def _give_back(self, future: _Future) -> None:
        self._budget.give_back(future.owner, future.n_answers)
        self._kib.give_back(future.owner, future.n_kib)

    async def _begin(self, name: str, future: _Future, ask: Ask) -> None:
        """Raises `OverBudget`, `AnswersLost`: the sample is free for other gateways then."""
        try:
            if self._tasks is None:
                raise AnswersLost("the gateway stops")
            self._take(future)
        except (OverBudget, AnswersLost):
            await self._rows.release(name)
            raise
        self._futures[name] = future
        answering = self._answer(name, future, ask)
        future.task = self._tasks.create_task(answering, name="an answer that is fetched later")
        future.task.add_done_callback(partial(self._ended, name, future))

    async def outcome(self, owner: str, name: str, *, within_s: float) -> Sampled | None:
        """None when it isn't there by then. Raises `NoSuchFuture`, `OverBudget`, `StoreUnavailable`, `AnswersLost`."""
        ends_s = asyncio.get_running_loop().time() + within_s
        with self._waiters.watch([name]) as event:
            while True:
                event.clear()
                future = self._futures.get(name)
                if future is not None and future.owner == owner:
                    return await _awaited(name, future, ends_s)
                found = await self._rows.find(owner, name)
                if found is None:
                    raise NoSuchFuture(name)
                if isinstance(found, Taken):
                    await self._take_over(owner, name, found)
                elif isinstance(found, Elsewhere):
                    if not await _is_set(event, ends_s, found.for_s):
                        return None
                else:
                    return found

    async def _take_over(self, owner: str, name: str, taken: Taken) -> None:
        """Whoever had it is gone."""
        if name in self._futures:
            return
        log.info("the sample %s is asked again", name)
        try:
            ask = await self._reading(owner, taken.asked)
        except CantSample as error:
            await self._rows.finish(name, FailedSample(f"{error}", is_users=True))
            return
        if name not in self._futures:
            future = _Future(owner, ask.question.n, _kib(taken.asked))
            await self._begin(name, future, ask)

    async def cancel(self, owner: str, name: str) -> None:
        """Its client wants it no more, whichever gateway has it; what is done or unknown is no error.

        Raises `StoreUnavailable`.
        """
        future = self._futures.get(name)
        if future is not None and future.owner == owner:
            self._stop(future)
        await self._rows.cancel(owner, name)

    def _stop(self, future: _Future) -> None:
        if future.task is not None:
            future.task.cancel()

    async def _answer(self, name: str, future: _Future, ask: Ask) -> None:
        """Where the question is lost the future is gone, and its client asks once more."""
        future.outcome = await self._asked(ask)
        if future.outcome is None:
            await self._forget(name)
            return
        future.is_done.set()
        try:
            await self._rows.finish(name, future.outcome)
        except StoreUnavailable as error:
            log.warning("the sample %s is asked again, should it be fetched: %s", name, error)

    async def _asked(self, ask: Ask) -> Sampled | None:
        try:
            async with asyncio.timeout(self._questions.limits.answer_s):
                answers = await self._answers([ask.question])
                return ask.told(answers, await self._answers(ask.about(answers)))
        except TimeoutError:
            return FailedSample("No sampler answered in time", is_users=False)
        except BrokerError as error:
            log.info("a sample was lost: %s", error)
            return None
        except Exception:  # an edge: one bad sample costs no other one
            log.exception("a sample can't be told")
            return FailedSample("Internal error of the gateway; see its log", is_users=False)

    async def _answers(self, questions: Sequence[Question]) -> list[Answer]:
        async with AsyncExitStack() as stack:
            asked = [await stack.enter_async_context(self._questions.ask(q)) for q in questions]
            return [await answer for answers in asked for answer in answers]

    async def _forget(self, name: str) -> None:
        try:
            await self._rows.forget(name)
        except StoreUnavailable as error:
            log.info("the sample %s stays for a while: %s", name, error)

    def _ended(self, name: str, future: _Future, task: asyncio.Task[None]) -> None:
        self._give_back(future)
        future.task = None
        future.is_done.set()
        if self._futures.get(name) is future:
            del self._futures[name]


def _kib(body: bytes) -> int:
    return -(-len(body) // 1024)


async def _awaited(name: str, future: _Future, ends_s: float) -> Sampled | None:
    """None when it isn't there by then. Raises `NoSuchFuture`."""
    try:
        async with asyncio.timeout_at(ends_s):
            await future.is_done.wait()
    except TimeoutError:
        return None
    if future.outcome is None:
        raise NoSuchFuture(name)
    return future.outcome


async def _is_set(event: asyncio.Event, ends_s: float, for_s: float) -> bool:
    """False when the time is over first; true also where whoever has it may have left by then."""
    loop = asyncio.get_running_loop()
    look_s = loop.time() + for_s
    try:
        async with asyncio.timeout_at(min(ends_s, look_s)):
            await event.wait()
    except TimeoutError:
        return look_s < ends_s
    return True
