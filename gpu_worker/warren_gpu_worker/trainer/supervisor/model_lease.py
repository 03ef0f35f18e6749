"""One model that this worker holds: opened, then its ops in order, until the lease ends.

Invariants:
- Each op is applied once, in the order of numbers (see `sequence`).
- An op's claim is settled only after its answer was confirmed, so a lost worker or broker leads to
  an answer that comes twice and never to one that is missing.
- Answers leave in the order of numbers.
- A model that nobody waits for the answers of is not opened: a grant that nobody made leaves no queue behind. Neither does
  a lease that ends after its run has: our consumer may have been cut off then, and makes its queue anew as it comes back.
- A gap that does not close ends the lease: the coordinator grants it anew and sends every op again.
- What a lease does while it ends can't reach a newer one: everything carries the epoch.
"""

import asyncio
import logging

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerError, BrokerUnavailable, Unroutable
from warren_broker.inbox import Claim, Inbox, receive
from warren_broker.port import Broker
from warren_broker.run_logs.run_logger import RunLogger
from warren_broker.topology import POLICIES, results, train
from warren_gpu_worker.trainer.messages import Answer, Apply, Close, Open
from warren_gpu_worker.trainer.supervisor.child_process import TrainerProcess
from warren_gpu_worker.trainer.supervisor.op_order import MAX_EARLY, OpSequence
from warren_schemas.control import HeldModel, PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, RunId
from warren_schemas.training import (
    CloseModel,
    KeepForJob,
    LoadBaseModel,
    Op,
    OpDone,
    OpenModel,
    OpFailed,
    OpOutcome,
    OpResult,
    is_full,
)

PREFETCH = MAX_EARLY + 16
"""Messages; more than can wait for a gap to close."""

TIDY_S = 2.0
"""How long a lease that ends waits for the broker to say whether its run has ended."""
OP_GAP_S = 120.0
"""An op that is missing for so long while later ones are here has been lost on its way."""

log = logging.getLogger(__name__)
run_log = RunLogger(__name__)

WorkerOrder = OpenModel | CloseModel | KeepForJob | LoadBaseModel
"""What comes to a trainer's own queue."""
AnyClaim = Claim[Op] | Claim[WorkerOrder]
_Reply = tuple[OpResult, list[AnyClaim]]
"""An answer, and what to settle once it is confirmed."""


class OpLost(Exception):
    """An op of the log has not come, although later ones have."""

    def __init__(self, number: int, waited_s: float) -> None:
        super().__init__(number, waited_s)
        self.number = number
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"op {self.number} has not come within {self.waited_s:g} s, although later ones have"


async def is_awaited(broker: Broker, model: ModelId) -> bool:
    """Whether it has a coordinator, which made a queue for its answers before it was granted to anybody."""
    return await broker.depth(results(model)) is not None


class Lease:
    def __init__(
        self,
        opening: Claim[WorkerOrder],
        order: OpenModel,
        broker: Broker,
        batch_publisher: BatchPublisher,
        process: TrainerProcess,
        *,
        op_gap_s: float = OP_GAP_S,
    ) -> None:
        self._order = order
        self._openings: list[AnyClaim] = [opening]
        self._opened: OpResult | None = None
        self._broker = broker
        self._batch_publisher = batch_publisher
        self._process = process
        self._op_gap_s = op_gap_s
        self._sequence = OpSequence(order.model, order.epoch, order.next_op)
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    @property
    def held(self) -> HeldModel:
        return HeldModel(model=self._order.model, epoch=self._order.epoch)

    @property
    def of_run(self) -> RunId | None:
        """Whose model it is."""
        return self._order.envelope.run

    @property
    def is_full(self) -> bool:
        """All weights of the model are trained."""
        return is_full(self._order.spec)

    def on_answer(self, answer: Answer) -> None:
        """The child has answered the opening (0) or an op of this lease."""
        self._answers.put_nowait(answer)

    async def open_again(self, claim: Claim[WorkerOrder]) -> None:
        """The same grant came twice."""
        if self._opened is None:
            self._openings.append(claim)
        else:
            await self._reply([(self._opened, [claim])])

    async def run(self) -> None:
        """Hold the model; returns when nobody waits for it, when it can't be opened, or its queue of ops was deleted.

        Cancelled, it hands back what was not answered. Raises `BrokerClosed`, and `OpLost` when an
        op doesn't come.
        """
        if not await is_awaited(self._broker, self._order.model):
            return log.info("nobody waits for the answers of %s", self._order.model)
        await self._process.until_ready()
        if await self._open():
            try:
                await self._work()
            finally:
                await self._tidy()

    def end(self) -> None:
        """After `run`, however it went: forget the model.

        A grant that was not answered is settled all the same: it is lost, and given anew with a new
        epoch.
        """
        self._process.order(Close(self._order.model, self._order.epoch))
        for claim in self._openings:
            claim.done()

    async def _open(self) -> bool:
        order = self._order
        self._process.order(
            Open(
                order.model,
                order.epoch,
                order.spec,
                order.checkpoint_url,
                order.next_op,
                order.owner,
            )
        )
        answer = await self._answers.get()
        _tell_opened(order, answer.outcome)
        self._opened = self._result(answer, order.envelope)
        await self._reply([(self._opened, self._openings)])
        self._openings = []
        return not isinstance(answer.outcome, OpFailed)

    async def _work(self) -> None:
        ops = train(self._order.model, self._order.epoch)
        async with (
            receive(self._broker, ops, Op, prefetch=PREFETCH) as inbox,
            asyncio.TaskGroup() as tasks,
        ):
            answering = tasks.create_task(self._answer_all(), name=f"answers {self.held.model}")
            try:
                async with asyncio.timeout(None) as patience:
                    await self._take_all(inbox, patience)
            except TimeoutError as error:
                raise OpLost(self._sequence.next_op, self._op_gap_s) from error
            answering.cancel()

    async def _tidy(self) -> None:
        """Of a run that goes on, whoever drives it deletes the queue; it may still be looked at."""
        try:
            async with asyncio.timeout(TIDY_S):
                if not await is_awaited(self._broker, self._order.model):
                    await self._broker.delete(train(self._order.model, self._order.epoch))
        except (BrokerError, TimeoutError) as error:
            log.info("whether the run of %s has ended is not known: %r", self._order.model, error)

    async def _take_all(self, inbox: Inbox[Op], patience: asyncio.Timeout) -> None:
        """Hand ops to the child as soon as it is their turn; it works them off one by one."""
        async for claims in inbox:
            again = self._sequence.take(claims)
            if ops := self._sequence.ready():
                numbered = tuple((op.number, op.body) for op in ops)
                self._process.order(Apply(self._order.model, self._order.epoch, numbered))
                patience.reschedule(None)
            if self._sequence.has_gap and patience.when() is None:
                patience.reschedule(asyncio.get_running_loop().time() + self._op_gap_s)
            if again:
                await self._reply([(answer, [claim]) for claim, answer in again])

    async def _answer_all(self) -> None:
        while True:
            answers = [await self._answers.get()]
            while not self._answers.empty():
                answers.append(self._answers.get_nowait())
            await self._reply([self._note(answer) for answer in answers])

    def _note(self, answer: Answer) -> _Reply:
        _tell_applied(self._order, answer.number, answer.outcome)
        op = self._sequence.id_of(answer.number)
        result = self._result(answer, self._order.envelope).model_copy(update={"op": op})
        return result, [*self._sequence.answered(result)]

    def _result(self, answer: Answer, cause: Envelope) -> OpResult:
        return OpResult(
            envelope=Envelope(run=cause.run),
            model=answer.model,
            epoch=answer.epoch,
            number=answer.number,
            outcome=answer.outcome,
        )

    async def _reply(self, replies: list[_Reply]) -> None:
        """Tell samplers and the model's coordinator; then settle."""
        answers = [result for result, _ in replies]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._announce(answers), name=f"policies {self.held.model}")
            await self._send(answers)
        for _, claims in replies:
            for claim in claims:
                claim.done()

    async def _announce(self, answers: list[OpResult]) -> None:
        """Nobody depends on hearing this: the next `Generate` names the policy as well."""
        done = [answer.outcome for answer in answers if isinstance(answer.outcome, OpDone)]
        published = [
            PolicyPublished(
                envelope=Envelope(run=self._order.envelope.run),
                model=self._order.model,
                base_model=self._order.spec.base_model,
                policy=outcome.policy,
            )
            for outcome in done
            if outcome.policy is not None and outcome.policy.is_live
        ]
        if not published:
            return
        try:
            await self._batch_publisher.send(POLICIES, *published)
        except (BrokerUnavailable, Unroutable) as error:
            log.warning("policy of %s not announced: %s", self._order.model, error)

    async def _send(self, answers: list[OpResult]) -> None:
        """Until it is confirmed, however long the broker is away."""
        while True:
            try:
                await self._batch_publisher.send(results(self._order.model), *answers)
            except BrokerUnavailable as error:
                log.warning("answers of %s not confirmed yet: %s", self._order.model, error)
            except Unroutable:
                log.info("nobody wants the answers of %s any more", self._order.model)
                return
            else:
                return


def _tell_opened(order: OpenModel, outcome: OpOutcome) -> None:
    run = order.envelope.run
    if isinstance(outcome, OpFailed):
        return run_log.error(run, f"{order.model} can't be opened: {outcome.reason}")
    begun = "goes on from a checkpoint" if order.checkpoint_url else "is new"
    run_log.info(run, f"{order.model} is open and {begun}: policy version {outcome.version}")


def _tell_applied(order: OpenModel, number: int, outcome: OpOutcome) -> None:
    run = order.envelope.run
    if isinstance(outcome, OpFailed):
        return run_log.warning(run, f"op {number} failed: {outcome.reason}")
    if outcome.policy is not None:
        run_log.info(run, f"op {number}: policy version {outcome.version} is published")
    elif outcome.checkpoint_url is not None:
        run_log.info(
            run, f"op {number}: a checkpoint of {outcome.checkpoint_bytes:,} bytes is saved"
        )
