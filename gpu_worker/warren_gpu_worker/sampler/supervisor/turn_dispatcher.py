"""The dispatcher: `Generate` items in, their turns at the engine, `Step` items out.

Invariants:
- A claim's successor is a `Step` to the episode's home, or an `EpisodeEnded` to the run's stream (of
  a turn that belongs to no run: to its home). `broker/successors` settles the claim once that is
  confirmed.
- Every claim is settled, or handed back: by the inbox when the dispatcher stops, or by the dispatcher
  when the child can't be replaced. The ledger (`open_turns`) hands each turn out for one end.
- Items of an ended run or a cancelled episode are dropped; a failure of ours never becomes a turn.
Duplicates are generated twice, and whoever receives both tells them apart by turn number.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence

from warren_broker.inbox import Claim
from warren_broker.successors import SuccessorPublisher
from warren_broker.topology import Home, Stream, trajectories
from warren_broker.worker.unwanted import Unwanted
from warren_gpu_worker.sampler.messages import FinishedTurn, Published, Rendered, TurnRequest
from warren_gpu_worker.sampler.supervisor.child_process import (
    Answered,
    SamplerProcess,
)
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource
from warren_gpu_worker.sampler.supervisor.process_factory import MakeSamplerProcess
from warren_gpu_worker.sampler.supervisor.run_notices import RunNotices
from warren_gpu_worker.sampler.supervisor.turn_items import (
    PAST_DEADLINE,
    end_of,
    home_of,
    judged,
    objection,
    request_of,
    step_of,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import Generate, Outcome
from warren_schemas.ids import RunId, WorkerId


class TurnDispatcher:
    """The dispatcher of one base model; `publisher` outlives `process.run` and carries what it answers.

    Turns come from the queue that all samplers share, and from this sampler's own (see `turn_queues`).
    """

    def __init__(
        self,
        base_model: str,
        publisher: SuccessorPublisher,
        settings: GpuWorkerSettings,
        *,
        worker: WorkerId,
        time_share: TimeShare | None = None,
        make_process: MakeSamplerProcess = SamplerProcess,
    ) -> None:
        self.turns = OpenTurns(2 * settings.max_batch)  # one batch at work and one that waits
        self.process = make_process(
            base_model,
            settings,
            self.turns,
            self._answered,
            self._given_back,
            time_share=time_share,
        )
        self.worker = worker
        self.publisher = publisher
        self._unwanted = Unwanted()
        self._notices = RunNotices()

    def take(self, claims: Sequence[Claim[Generate]], source: TurnSource) -> None:
        """Begin these turns; their claims are settled when they end."""
        turns = self.turns.open(claims, source)
        self.process.submit_turns([request for turn in turns if (request := self._begin(turn))])

    def run_ended(self, run: RunId) -> None:
        """Drop what is held of the run, and what still comes."""
        self._unwanted.end_run(run)
        self._drop_unwanted()

    def episodes_cancelled(self, envelopes: Iterable[Envelope]) -> None:
        """Drop what is held of these attempts at episodes, and what still comes."""
        for envelope in envelopes:
            self._unwanted.cancel(envelope)
        self._drop_unwanted()

    def policy_published(self, news: Published) -> None:
        self.process.policy_published(news)

    def close(self) -> None:
        """No deadline rings any more: what is owed goes back with its claims."""
        self.turns.release([turn.id for turn in self.turns.owed()])

    def _drop_unwanted(self) -> None:
        ids = [t.id for t in self.turns.owed() if t.item.envelope in self._unwanted]
        for turn in self.process.cancel_turns(ids):
            turn.drop()

    def _begin(self, turn: OpenTurn) -> TurnRequest | None:
        """The request for the engine, or None where the turn found another end."""
        item, now_s = turn.item, time.time()
        if item.envelope in self._unwanted:
            turn.drop()
            return None
        if failure := objection(item, self.process.base_model, now_s):
            self._publish(turn, failure)
            return None
        self._notices.begins(item)
        request = request_of(turn.id, item)
        self.turns.owe(turn, request)
        if (deadline_s := item.envelope.deadline_s) is not None:
            loop = asyncio.get_running_loop()
            turn.deadline = loop.call_later(deadline_s - now_s, self._expire, turn.id)
        return request

    def _expire(self, turn_id: int) -> None:
        for turn in self.process.cancel_turns([turn_id]):
            self._publish(turn, PAST_DEADLINE)

    def _answered(self, answered: Answered) -> None:
        for turn, answer in answered:
            self._publish(turn, judged(turn.item, answer))

    def _given_back(self, turns: Sequence[OpenTurn]) -> None:
        """Nobody works on these here any more."""
        for turn in turns:
            turn.hand_back()

    def _publish(self, turn: OpenTurn, outcome: FinishedTurn | Rendered | Outcome) -> None:
        address, successor = self._successor(turn, outcome)
        self._notices.follows(successor)
        self.publisher.put(address, successor, [turn])

    def _successor(
        self, turn: OpenTurn, outcome: FinishedTurn | Rendered | Outcome
    ) -> tuple[Home | Stream, Item]:
        """What the turn's outcome is to its run's stream, or to its home if it belongs to no run."""
        item = turn.item
        its_home = home_of(item)
        if isinstance(outcome, FinishedTurn):
            return_to = self.worker if self.process.caches_prefixes else None
            return its_home, step_of(item, outcome, return_to)
        ended = end_of(item, outcome, self.worker, taken_s=turn.taken_s, now_s=time.time())
        run = item.envelope.run
        return (trajectories(run) if run else its_home), ended
