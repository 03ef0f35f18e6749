"""Samples that this gateway has asked the samplers for, until they have an outcome.

Invariants
- What an owner waits for stays within the budgets, from the question on until its outcome.
- A sample waits for its answers for as long as its client is there. An answer that has not come in time is asked for
  again, with twice the time: a question that was lost comes back, and a long answer is finished in the end.
- Samplers are asked only while one offers the base model. A question that lies in a queue without a sampler can't be
  called back, and is in nobody's budget once its client has left.
- What is told from memory is in the store as well, or on its way; memory holds it for the poll that waits, or that
  comes next.
- Whoever waits for all samples of a sampler is woken once an outcome is in the store.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from warren_broker.errors import BrokerError
from warren_gateway.budgets.budget import Budget, OverBudget
from warren_gateway.inference.sampler_requests import (
    Answer,
    AnswersLost,
    AnswerWanted,
    Question,
    SamplerRequests,
    is_past_deadline,
)
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.tinker.samples.completions import clone_of
from warren_gateway.tinker.samples.retry_queue import RetryQueue
from warren_gateway.tinker.samples.rows import FailedSample, Sampled, SampleRows
from warren_gateway.tinker.samples.unfetched import Unfetched
from warren_gateway.tinker.samples.use import use_of
from warren_gateway.trainable.waiters import Waiters
from warren_gateway.usage.counting import SampleUse

log = logging.getLogger(__name__)

MOST_AHEAD = 1024
"""Answers ahead of a sample that are counted: each of thousands that wait asks for it every half a minute."""

Told = Callable[[Sequence[Answer], Sequence[Answer]], Sampled]
"""Answers, and what was answered when asked about them -> what the client gets."""
About = Callable[[Sequence[Answer]], Sequence[Question]]
"""Answers -> what is asked about them. Raises `CantSample`."""


class CantSample(ValueError):
    """This can't be asked; says why."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question, and what becomes of its answers."""

    question: Question
    told: Told
    about: About


Reading = Callable[[], Awaitable[Ask]]
"""Of what was asked. Raises `CantSample`."""


@dataclass(slots=True, eq=False)
class Awaited:
    """A sample without an outcome, but for the moment in which it gets one."""

    owner: str
    base_model: str
    n_answers: int
    n_kib: int
    outcome: Sampled | None = None
    is_told: bool = False
    """To a client that waited for it."""
    is_done: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()


Offered = Callable[[str], Awaitable[None]]
"""Returns once a live sampler offers this base model."""


class Answering:
    """`budget` is of the answers that owners wait for, `asked` of the KiB of their questions. `answer_s` is how long the
    samplers have before they are asked again."""

    def __init__(
        self,
        questions: SamplerRequests,
        offered: Offered,
        budget: Budget,
        asked: Budget,
        rows: SampleRows,
        waiters: Waiters,
        answer_s: float,
    ) -> None:
        self._questions = questions
        self._offered = offered
        self._budget = budget
        self._turns = RetryQueue(budget)
        self._kib = asked
        self._rows = rows
        self._waiters = waiters
        self._answer_s = answer_s
        self._awaited: dict[str, Awaited] = {}
        self.unfetched = Unfetched()
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """While it lasts questions are asked; those that are open at its end have no outcome."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                yield
        finally:
            self._tasks = None

    def get(self, name: str) -> Awaited | None:
        return self._awaited.get(name)

    @property
    def open(self) -> list[tuple[str, Awaited]]:
        return [(name, one) for name, one in self._awaited.items() if one.outcome is None]

    def n_ahead(self, name: str, base_model: str) -> int:
        """Answers with this base model that were asked for before this one, and are not there yet, of which there may be
        more than `MOST_AHEAD`; of one that isn't ours none."""
        if name not in self._awaited:
            return 0
        n_ahead = 0
        for _, one in takewhile(lambda one: one[0] != name, self._awaited.items()):
            if one.outcome is None and one.base_model == base_model:
                n_ahead += one.n_answers
            if n_ahead >= MOST_AHEAD:
                break
        return n_ahead

    def require_possible(self, ask: Ask, body: bytes) -> None:
        """What can never be waited for fails at once: the clients try 429 again for ever. Raises `CantSample`."""
        if (n := ask.question.n) > self._budget.most:
            raise CantSample(f"num_samples is {n}, and {self._budget.most} is the most here")
        if (n_kib := _n_kib(body, n)) > self._kib.most:
            raise CantSample(
                f"the question has {n_kib} KiB, for it counts once for each of {n} samples, and {self._kib.most} are the"
                " most here; ask for fewer samples at a time"
            )

    def require_place(self, owner: str, name: str, ask: Ask, body: bytes) -> None:
        """Whoever may wait for no more is refused before anything is written. Raises `OverBudget`."""
        one = _awaited(owner, ask, body)
        self._turns.require(owner, name, one.n_answers)
        try:
            self._take(one)
        except OverBudget:
            self._turns.refused(owner, name, one.n_answers)
            raise
        self._give_back(one)

    def begin(self, owner: str, name: str, ask: Ask, body: bytes) -> None:
        """Raises `OverBudget`, `AnswersLost`."""
        if self._tasks is None:
            raise AnswersLost("the gateway stops")
        one = _awaited(owner, ask, body)
        self._take(one)
        self._turns.taken(owner, name)
        self.unfetched.forget(name)
        self._awaited[name] = one
        answering = self._answer(name, one, ask)
        one.task = self._tasks.create_task(answering, name="an answer that is fetched later")
        one.task.add_done_callback(partial(self._ended, name, one))

    def _take(self, one: Awaited) -> None:
        """Raises `OverBudget`."""
        self._budget.take(one.owner, one.n_answers)
        try:
            self._kib.take(one.owner, one.n_kib)
        except OverBudget:
            self._budget.give_back(one.owner, one.n_answers)
            raise

    def _give_back(self, one: Awaited) -> None:
        self._budget.give_back(one.owner, one.n_answers)
        self._kib.give_back(one.owner, one.n_kib)

    async def _answer(self, name: str, one: Awaited, ask: Ask) -> None:
        """Where the question is lost so is the sample, and its client asks once more."""
        one.outcome, used = await self._asked(ask)
        if one.outcome is not None:
            one.is_done.set()
        try:
            if one.outcome is None:
                await self._rows.lose(name)
            elif await self._rows.finish(name, one.outcome, used) and not one.is_told:
                self.unfetched.keep(one.owner, name, one.outcome)
        except StoreUnavailable as error:
            log.warning("the sample %s is asked again, should it be wanted: %s", name, error)
        else:
            self._waiters.wake([clone_of(name)[0]])

    async def _asked(self, ask: Ask) -> tuple[Sampled | None, SampleUse | None]:
        """The outcome, and what it took where there is an answer."""
        try:
            answers = await self._answers([ask.question])
            more = await self._answers(ask.about(answers))
            outcome = ask.told(answers, more)
        except CantSample as error:
            return FailedSample(f"{error}", is_users=True), None
        except BrokerError as error:
            log.info("a sample was lost: %s", error)
            return None, None
        except Exception:  # an edge: one bad sample costs no other one
            log.exception("a sample can't be told")
            return FailedSample("Internal error of the gateway; see its log", is_users=False), None
        is_failed = isinstance(outcome, FailedSample)
        return outcome, None if is_failed else use_of(ask.question, answers, more)

    async def _answers(self, questions: Sequence[Question]) -> list[Answer]:
        wanted = [AnswerWanted(one, number) for one in questions for number in range(one.n)]
        answers: list[Answer | None] = [None] * len(wanted)
        within_s = self._answer_s
        while missing := [place for place, answer in enumerate(answers) if answer is None]:
            came = await self._answered([wanted[place] for place in missing], within_s)
            for place, answer in zip(missing, came, strict=True):
                answers[place] = answer
            within_s *= 2
        return [answer for answer in answers if answer is not None]

    async def _answered(
        self, wanted: Sequence[AnswerWanted], within_s: float
    ) -> list[Answer | None]:
        """None for what has not come in time, which begins once a sampler is there. Raises `AnswersLost`, `BrokerError`."""
        await self._offered(wanted[0].question.policy.base_model)
        async with self._questions.ask_for(wanted, within_s=within_s) as asked:
            await asyncio.wait(asked, timeout=within_s)
            answers = [future.result() if future.done() else None for future in asked]
        return [None if one is None or is_past_deadline(one) else one for one in answers]

    def _ended(self, name: str, one: Awaited, task: asyncio.Task[None]) -> None:
        self._give_back(one)
        one.task = None
        one.is_done.set()
        if self._awaited.get(name) is one:
            del self._awaited[name]


def _awaited(owner: str, ask: Ask, body: bytes) -> Awaited:
    question = ask.question
    return Awaited(owner, question.policy.base_model, question.n, _n_kib(body, question.n))


def _n_kib(body: bytes, n_answers: int) -> int:
    """The prompt travels once for each answer."""
    return -(-len(body) * n_answers // 1024)
