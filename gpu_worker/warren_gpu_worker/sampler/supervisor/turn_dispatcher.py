"""the dispatcher: `Generate` items in hand, their turns at the engine, `Step` items out.

Invariants:
- A claim's successor is a `Step` to the episode's home, or an `EpisodeEnded` to the run's stream (of
  a turn that belongs to no run: to its home). `outgoing` settles the claim once that is confirmed.
- Every claim is settled, or handed back: by the inbox when the dispatcher stops, or by the dispatcher when the
  child can't be replaced.
- Items of an ended run or a cancelled episode are dropped; a failure of ours never becomes a turn.
Duplicates are generated twice, and whoever receives both tells them apart by turn number.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from warren_broker.inbox import Claim
from warren_broker.port import Broker
from warren_broker.topology import Home, Stream, trajectories
from warren_broker.worker.unwanted import Unwanted
from warren_gpu_worker.sampler.messages import FinishedTurn, Published, TurnRequest
from warren_gpu_worker.sampler.supervisor.child_process import Answers, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurns
from warren_gpu_worker.sampler.supervisor.results import Results
from warren_gpu_worker.sampler.supervisor.turn_items import (
    PAST_DEADLINE,
    home_of,
    judged,
    objection,
    request_of,
    step_of,
    successor_envelope,
)
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import EpisodeEnded, Generate, Outcome
from warren_schemas.ids import RunId, WorkerId


@dataclass(slots=True)
class _Held:
    """An item whose turn is being taken."""

    claim: Claim[Generate]
    received_s: float
    expiry: asyncio.TimerHandle | None = None


class TurnDispatcher:
    """the dispatcher of one base model; `sending` outlives `process.run` and carries what it answers.

    Turns come from the queue that all samplers share, and from this sampler's own (see `taking`).
    """

    def __init__(
        self,
        base_model: str,
        broker: Broker,
        settings: GpuWorkerSettings,
        *,
        worker: WorkerId,
        sending: asyncio.TaskGroup,
        time_share: TimeShare | None = None,
    ) -> None:
        self.process = SamplerProcess(
            base_model, settings, self._answered, gave_back=self._gave_back, time_share=time_share
        )
        self.shared = OpenTurns(2 * settings.max_batch)  # one batch at work and one that waits
        self.own = OpenTurns(2 * settings.max_batch)
        self.worker = worker
        self._results = Results(broker, sending)
        self._ids = count(1)
        self._held: dict[int, _Held] = {}
        self._unwanted = Unwanted()

    @property
    def n_open(self) -> int:
        """Turns that are not settled yet."""
        return self.shared.n_open + self.own.n_open

    @property
    def n_done(self) -> int:
        return self._results.n_settled

    def take(self, claims: Sequence[Claim[Generate]]) -> None:
        """Begin these turns; their claims are settled when they end."""
        requests = [request for claim in claims if (request := self._begin(claim))]
        self.process.submit(requests)

    def run_ended(self, run: RunId) -> None:
        """Drop what is held of the run, and what still comes."""
        self._unwanted.end_run(run)
        self._drop_unwanted()

    def episodes_cancelled(self, envelopes: Iterable[Envelope]) -> None:
        """Drop what is held of these attempts at episodes, and what still comes."""
        for envelope in envelopes:
            self._unwanted.cancel(envelope)
        self._drop_unwanted()

    def _drop_unwanted(self) -> None:
        ids = [i for i, held in self._held.items() if held.claim.item.envelope in self._unwanted]
        self.process.cancel(ids)
        for request_id in ids:
            self._release(request_id).claim.done()

    def published(self, news: Published) -> None:
        self.process.published(news)

    def close(self) -> None:
        """No deadline rings any more: what is held goes back with its claims."""
        for request_id in list(self._held):
            self._release(request_id)

    def _begin(self, claim: Claim[Generate]) -> TurnRequest | None:
        """The request for the engine, or None where the claim found another end."""
        item, now_s = claim.item, time.time()
        if item.envelope in self._unwanted:
            claim.done()
            return None
        held = _Held(claim, now_s)
        if failure := objection(item, self.process.base_model, now_s):
            self._deliver_all([(held, failure)])
            return None
        request_id = next(self._ids)
        self._held[request_id] = held
        if (deadline_s := item.envelope.deadline_s) is not None:
            loop = asyncio.get_running_loop()
            held.expiry = loop.call_later(deadline_s - now_s, self._expire, request_id)
        return request_of(request_id, item)

    def _release(self, request_id: int) -> _Held:
        held = self._held.pop(request_id)
        if held.expiry:
            held.expiry.cancel()
        return held

    def _expire(self, request_id: int) -> None:
        self.process.cancel([request_id])
        self._deliver_all([(self._release(request_id), PAST_DEADLINE)])

    def _answered(self, answers: Answers) -> None:
        known = [(self._release(a.id), a) for a in answers if a.id in self._held]
        self._deliver_all([(held, judged(held.claim.item, answer)) for held, answer in known])

    def _gave_back(self, ids: Sequence[int]) -> None:
        """Nobody works on these here any more."""
        for request_id in ids:
            if request_id in self._held:
                self._release(request_id).claim.hand_back()

    def _deliver_all(self, outcomes: Iterable[tuple[_Held, FinishedTurn | Outcome]]) -> None:
        self._results.put(
            (*self._successor(held, outcome), held.claim) for held, outcome in outcomes
        )

    def _successor(
        self, held: _Held, outcome: FinishedTurn | Outcome
    ) -> tuple[Home | Stream, Item]:
        """What the turn's outcome is to its run's stream, or to its home if it belongs to no run."""
        item = held.claim.item
        its_home = home_of(item)
        if isinstance(outcome, FinishedTurn):
            return_to = self.worker if self.process.caches_prefixes else None
            return its_home, step_of(item, outcome, return_to)
        ended = EpisodeEnded(
            envelope=successor_envelope(item),
            spec=item.spec,
            transcript=item.transcript,
            outcome=outcome,
            worker=self.worker,
            started_s=held.received_s,
            ended_s=time.time(),
        )
        run = item.envelope.run
        return (trajectories(run) if run else its_home), ended
