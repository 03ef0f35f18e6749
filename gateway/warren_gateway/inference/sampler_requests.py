"""Requests to the samplers: a `Generate` for each answer wanted, and a queue for what comes back.

A question is an episode of one turn that belongs to no run. Its answer comes to this gateway's home
queue; if nobody takes from that for a while, it falls back to a queue that all gateways share. Who
finds it there and did not ask leaves it to the others for `ELSEWHERE_S`: its gateway may have lost
the broker for a moment. If it has died, whoever asked is gone with the connection, and the answer is
dropped.

Invariants: every question is answered, fails with `AnswersLost`, or is given up by its asker, and
then samplers are told to stop; an answer that nobody waits for (a duplicate, or one that came too late)
is dropped. How many answers may be waited for, and by whom, is a budget of the asker's.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerClosed, BrokerUnavailable, Unroutable
from warren_broker.inbox import receive
from warren_broker.port import Broker
from warren_broker.topology import CANCELLATIONS, Home, WorkQueue, generate, home, interact
from warren_schemas.config import Sampling
from warren_schemas.control import EpisodeCancelled
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    EpisodeEnded,
    EpisodePurpose,
    EpisodeSpec,
    Failed,
    FailureKind,
    Generate,
    PolicyRef,
    Step,
    TaskRef,
)
from warren_schemas.ids import (
    EpisodeId,
    made_ms,
    new_episode_id,
    new_group_id,
    new_worker_id,
)
from warren_schemas.token_options import MAX_SEED, TokenOptions
from warren_schemas.transcript import Transcript

ENVIRONMENT = "warren/chat"
"""Stands where other episodes name their environment; nobody hosts it."""
ELSEWHERE_S = 60.0
"""So old does an answer get that goes round among the gateways."""
_ROUND_S = 0.5
_PREFETCH = 64

Answer = Step | EpisodeEnded
Answers = list["asyncio.Future[Answer]"]

log = logging.getLogger(__name__)


class AnswersLost(BrokerClosed):
    """The gateway stopped before the answer came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    answer_s: float = 600.0
    """How long the samplers have for what `ask` asks."""


QUESTION_LIMITS = QuestionLimits()


@dataclass(frozen=True, slots=True)
class Question:
    policy: PolicyRef
    transcript: Transcript
    sampling: Sampling
    n: int
    """Answers wanted."""
    is_plain: bool = False
    options: TokenOptions | None = None

    def options_of(self, number: int) -> TokenOptions | None:
        """Of one answer: each draws by a seed of its own, and the first alone tells of the prompt."""
        if self.options is None or number == 0:
            return self.options
        seed = None if self.options.seed is None else (self.options.seed + number) % MAX_SEED
        return TokenOptions(end_ids=self.options.end_ids, seed=seed, prompt=self.options.prompt)


class AnswerWanted(NamedTuple):
    """One of a question's answers."""

    question: Question
    number: int


class SamplerRequests:
    def __init__(self, broker: Broker, limits: QuestionLimits = QUESTION_LIMITS) -> None:
        self.limits = limits
        self._broker = broker
        self._batch_publisher = BatchPublisher(broker)
        self._name = new_worker_id("gateway")
        self._waiting: dict[EpisodeId, asyncio.Future[Answer]] = {}
        self._unwanted: list[EpisodeCancelled] = []
        self._has_unwanted = asyncio.Event()
        self._is_stopped = False

    @property
    def n_waiting(self) -> int:
        """Answers that are waited for."""
        return len(self._waiting)

    async def run(self) -> None:
        """Take answers in until cancelled."""
        await self._broker.declare(CANCELLATIONS, interact(ENVIRONMENT))
        try:
            async with asyncio.TaskGroup() as tasks:
                own, shared = home(self._name, ENVIRONMENT), interact(ENVIRONMENT)
                tasks.create_task(self._take_answers(own), name="answers")
                tasks.create_task(self._take_answers(shared), name="orphaned answers")
                tasks.create_task(self._tell_unwanted(), name="cancelled questions")
        finally:
            self.stop()

    def stop(self) -> None:
        """Answer those who wait with `AnswersLost`, and everybody who comes later."""
        self._is_stopped = True
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(AnswersLost("the gateway stops"))

    @asynccontextmanager
    async def ask(self, question: Question) -> AsyncGenerator[Answers]:
        """Its answers as they come; whoever leaves this context wants no more of them.

        Raises `AnswersLost`, `BrokerError`.
        """
        wanted = [AnswerWanted(question, number) for number in range(question.n)]
        async with self.ask_for(wanted, within_s=self.limits.answer_s) as answers:
            yield answers

    @asynccontextmanager
    async def ask_for(
        self, wanted: Sequence[AnswerWanted], *, within_s: float
    ) -> AsyncGenerator[Answers]:
        """`ask` for these answers, all of one base model; samplers drop what they have not answered `within_s`.

        Raises `AnswersLost`, `BrokerError`.
        """
        if self._is_stopped:
            raise AnswersLost("the gateway stops")
        loop, deadline_s = asyncio.get_running_loop(), time.time() + within_s
        futures: dict[EpisodeId, asyncio.Future[Answer]] = {
            new_episode_id(): loop.create_future() for _ in wanted
        }
        self._waiting |= futures
        try:
            turns = zip(wanted, futures, strict=True)
            await self._send([self._turn(one, episode, deadline_s) for one, episode in turns])
            yield list(futures.values())
        finally:
            self._give_up(futures)

    def _turn(self, wanted: AnswerWanted, episode: EpisodeId, deadline_s: float) -> Generate:
        question, number = wanted
        return Generate(
            envelope=Envelope(episode=episode, deadline_s=deadline_s),
            spec=_spec(question),
            transcript=question.transcript,
            turn=0,
            home=self._name,
            is_plain=question.is_plain,
            token_options=question.options_of(number),
        )

    async def _send(self, turns: list[Generate]) -> None:
        """A sampler has declared its queue; where that was deleted it is made again."""
        queue = generate(turns[0].spec.policy.base_model)
        try:
            await self._batch_publisher.send_all(queue, turns)
        except Unroutable:
            await self._broker.declare(queue)
            await self._batch_publisher.send_all(queue, turns)

    def _give_up(self, futures: dict[EpisodeId, "asyncio.Future[Answer]"]) -> None:
        for episode, future in futures.items():
            self._waiting.pop(episode)
            if not future.done() or future.cancelled():  # an asker's end cancels what it awaits
                self._unwanted.append(EpisodeCancelled(envelope=Envelope(episode=episode)))
                self._has_unwanted.set()
            else:
                future.exception()  # seen: its asker may have left at another one
            future.cancel()

    async def _take_answers(self, queue: Home | WorkQueue) -> None:
        """Those in the home queue are for this gateway or for nobody."""
        is_shared = isinstance(queue, WorkQueue)
        kinds = (Step, EpisodeEnded)
        while True:
            async with receive(self._broker, queue, kinds, prefetch=_PREFETCH) as inbox:
                async for claims in inbox:
                    for claim in claims:
                        is_ours = self._answered(claim.item)
                        if is_shared and not is_ours and is_young(claim.item, time.time()):
                            claim.hand_back(delay_s=_ROUND_S)
                        else:
                            claim.done()

    def _answered(self, answer: Answer) -> bool:
        """Whether it is waited for here."""
        episode = answer.envelope.episode
        future = self._waiting.get(episode) if episode else None
        if future and not future.done():
            future.set_result(answer)
        return future is not None

    async def _tell_unwanted(self) -> None:
        """Nobody depends on it: a sampler that misses this generates what is dropped here."""
        while True:
            await self._has_unwanted.wait()
            self._has_unwanted.clear()
            items, self._unwanted = self._unwanted, []
            try:
                await self._batch_publisher.send_all(CANCELLATIONS, items)
            except BrokerUnavailable as error:
                log.warning("%d questions were not called back: %s", len(items), error)


def is_past_deadline(answer: Answer) -> bool:
    """Whether a sampler has dropped the question, because its time was over."""
    outcome = answer.outcome if isinstance(answer, EpisodeEnded) else None
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.DEADLINE


def is_young(answer: Answer, now_s: float) -> bool:
    """Whether it was made so lately that another gateway may still come and take it.

    By the clock of the sampler that made it; where that is far off, the answer counts as old.
    """
    return abs(now_s - made_ms(answer.envelope.id) / 1000) < ELSEWHERE_S


def _spec(question: Question) -> EpisodeSpec:
    return EpisodeSpec(
        group=new_group_id(),
        member=0,
        purpose=EpisodePurpose.EVALUATE,
        environment=ENVIRONMENT,
        task=TaskRef(index=0),
        seed=0,
        policy=question.policy,
        sampling=question.sampling,
        max_turns=1,
    )
