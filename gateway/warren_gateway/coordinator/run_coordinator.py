"""The coordinator of one run: reads what comes in, decides, commits, and only then settles its claims.

Invariants
- One task decides and commits, one decision at a time; readers only hand over.
- Claims are settled after the change that they led to is committed, so a crash repeats and never
  loses; duplicates are recognised by `decisions`.
- A store that is away stops the run where it is; it goes on when the store is back.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

from warren_broker.inbox import follow, receive
from warren_broker.port import Broker
from warren_broker.topology import results, train
from warren_gateway.coordinator import answering, decisions, ending, records
from warren_gateway.coordinator.clients import looking, reading
from warren_gateway.coordinator.lease import job
from warren_gateway.coordinator.mailbox import ANSWERS, Mail, Mailbox, hand_over
from warren_gateway.coordinator.notices import log_lines
from warren_gateway.coordinator.replaying.files import OpenArchive, no_archive
from warren_gateway.coordinator.replaying.reader import RecordingSources, play
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.retrying import RETRY_S, Retrying
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.rollouts.fair_shares import Shares
from warren_gateway.coordinator.rollouts.queue_depths import watch_queues
from warren_gateway.coordinator.run_leases import Renewed
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.coordinator.state.client_change import Answered
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.group_parts import Reading
from warren_gateway.coordinator.trainer_search import TrainerSearch
from warren_gateway.registry import Registry
from warren_gateway.runs.streams import recording, streams_of
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_schemas.episode import EpisodeEnded
from warren_schemas.group_scoring import GroupScored
from warren_schemas.training import JobTaken

LONGEST_NAP_S = 10.0
"""Deadlines are times of day: a clock that is set back makes a nap too long by no more than this."""
RESULTS_PREFETCH = 64
RESTART_GRACE_S = 5.0
"""After a time in which nobody read, this long is left to read endings before any counts as missing.
With a broker that forgets, episodes in flight are started again after a restart and this."""


class RunCoordinator:
    """Drives one run until it is over."""

    def __init__(
        self,
        state: CoordinatorState,
        store: Store,
        broker: Broker,
        registry: Registry,
        relay: Relay,
        shares: Shares,
        *,
        reschedule: Callable[[], None] = lambda: None,
        answered: Answered = lambda _model, _requests: None,
        open_archive: OpenArchive = no_archive,
        mailbox: Mailbox | None = None,
        retry_s: float = RETRY_S,
    ) -> None:
        """A store or broker that is away is tried again every `retry_s`; `reschedule` is called when the
        run's job has changed, `answered` when requests of a client's model have their outcomes."""
        self._answered = answered
        self._reschedule = reschedule
        self._open_archive = open_archive
        self._state = state
        self._broker = broker
        self._registry = registry
        self._relay = relay
        self._shares = shares
        self._mailbox = mailbox or Mailbox()
        self._retrying = Retrying(state.run, store, broker, retry_s, was_away=self._be_back)
        self._trainer_search = TrainerSearch(
            state, registry, self._retrying, relay, commit=self._commit
        )

    def notify(self) -> None:
        """The run's row has changed (somebody wants it cancelled, or has set other limits)."""
        self._mailbox.wake(is_control_changed=True)

    def notify_of_request(self, arrived: Arrived | None) -> None:
        """The client of the run's model has asked for this, or for something that the store knows."""
        self._mailbox.put_request(arrived)

    def notice_requests(self, renewed: Renewed) -> None:
        """What the owner wants and the scheduler says, as every renewal of the lease tells it."""
        state, seen = self._state, self._state.observed
        known = seen.is_cancel_requested, seen.stop_request, seen.given_up, state.limits_number
        is_let_in = renewed.is_admitted and not state.lease.is_admitted
        if renewed.asked != known or is_let_in:
            self.notify()

    async def run(self) -> None:
        """Until the run is over and cleaned up.

        Raises `LeaseLost` when another coordinator has taken it over, `LimitsChanged` when what was decided
        is void, `BrokerError`.
        """
        if self._state.is_clients:
            self.notify()
        if not self._state.is_over:
            await self._work()
        await self._clean_up()

    async def stand_still(self, reason: str) -> None:
        """Wait for a moment for the rows of the run's data sets, which can't be read, and say so."""
        self._state.now_s, self._state.observed.without_rows = time.time(), reason
        decisions.stand_still(self._state, self._registry.alive)
        await self._commit()
        if not self._state.is_over and (await self._mailbox.take(RETRY_S)).is_control_changed:
            await self._look_for_requests()

    async def _work(self) -> None:
        state = self._state
        await self._prepare()
        stream, start = recording(state.run, state.config), state.rollouts.stream_offset
        streams = (
            follow(self._broker, stream, EpisodeEnded, start=start),
            receive(self._broker, results(state.model), ANSWERS, prefetch=RESULTS_PREFETCH),
        )
        async with streams[0] as endings, streams[1] as answers, asyncio.TaskGroup() as tasks:
            reading = {
                "endings": hand_over(endings, self._mailbox.put_endings),
                "answers": hand_over(answers, self._mailbox.put_answers),
                "workers": self._watch_workers(),
                "queues": watch_queues(state, self._broker),
            }
            if isinstance(source := state.source, Recorded):
                reading["recording"] = play(source.readings, self._sources(), self._mailbox)
            named = ((f"{state.run} {what}", work) for what, work in reading.items())
            readers = [tasks.create_task(work, name=name) for name, work in named]
            await self._drive()
            for reader in readers:
                reader.cancel()

    def _sources(self) -> RecordingSources:
        transact, rows = self._retrying.transact, self._state.rows
        return RecordingSources(self._broker, transact, self._open_archive, rows)

    async def _prepare(self) -> None:
        state = self._state
        has_epoch = state.lease.holder is not None or state.lease.is_job_sent
        epoch = state.lease.epoch + (not has_epoch)
        queues = results(state.model), train(state.model, epoch)
        # In one go: it takes time until new queues would survive a crash.
        await self._retrying.declare(*streams_of(state.run, state.config), *queues)
        state.now_s = time.time()
        await self._retrying.transact(lambda session: records.send_unanswered(session, state))
        self._relay.notify()
        if not self._broker.is_durable:
            episodes.start_all_again(state.rollouts, state.now_s)
        episodes.reprieve(state.rollouts, state.now_s + RESTART_GRACE_S)

    async def _drive(self) -> None:
        while not self._state.is_over:
            self._state.now_s = time.time()
            is_wanted = decisions.wants_trainer(self._state, self._registry.alive)
            if is_wanted:
                await self._trainer_search.go_on()
            job.note_wanted(self._state, is_wanted)
            self._decide()
            await self._commit()
            if not self._state.is_over:
                await self._take_mail()

    def _decide(self) -> None:
        self._state.observed.shares = self._shares.of(self._state.run)
        self._state.observed.owner_share = self._shares.of_owner(self._state.run)
        self._state.observed.message_sizes = self._shares.message_sizes_of(self._state.run)
        decisions.decide(self._state, self._registry.alive)

    async def _take_mail(self) -> None:
        self._ask_for_recorded()
        nap_s = min(decisions.next_deadline_s(self._state) - time.time(), LONGEST_NAP_S)
        mail = await self._mailbox.take(nap_s)
        self._notice_sleep()
        if mail.is_control_changed:
            await self._look_for_requests()
        if self._state.is_clients:
            await looking.look(self._state, self._retrying.transact, mail)
        if mail.is_recorder_changed:
            await self._look_for_end_of_recording()
        self._absorb(mail)
        self._decide()
        await self._commit()
        for claim in (*(claim for _, claim in mail.endings), *mail.answers, *mail.recorded_claims):
            claim.done()

    def _notice_sleep(self) -> None:
        """No nap is as long as the time in which this machine slept, or was stopped."""
        before_s, self._state.now_s = self._state.now_s, time.time()
        if self._state.now_s - before_s > LONGEST_NAP_S + RESTART_GRACE_S:
            self._be_back()

    def _absorb(self, mail: Mail) -> None:
        state = self._state
        for position, ended in mail.endings:
            if ended.item.envelope.run == state.run:
                decisions.absorb_ending(state, ended.item, position)
            episodes.note_read(state.rollouts, position.offset)
        for answer in mail.answers:
            if isinstance(item := answer.item, JobTaken):
                job.absorb_taken(state, item)
            elif isinstance(item, GroupScored):
                answering.absorb_group(state, item)
            else:
                answering.absorb_answer(state, item)
        if mail.recorded is not None and self._is_read_now(mail.reading):
            decisions.absorb_recorded(state, mail.recorded)

    def _is_read_now(self, reading: Reading | None) -> bool:
        """What comes late of a recording that was read is dropped."""
        source = self._state.source
        return isinstance(source, Recorded) and source.readings.now == reading

    def _ask_for_recorded(self) -> None:
        source = self._state.source
        if not isinstance(source, Recorded):
            return
        self._mailbox.go_on_to(source.readings.now)
        if source.wants_more(self._state):
            self._mailbox.ask_for_recorded()

    async def _look_for_end_of_recording(self) -> None:
        source = self._state.source
        if isinstance(source, Recorded):
            read = source.recording
            read.end_offset = await self._retrying.read(
                lambda session: records.end_of_recording(session, read)
            )

    async def _look_for_requests(self) -> None:
        state = self._state
        requests = await self._retrying.read(
            lambda session: records.requests_of(session, state.run, state.limits_number)
        )
        state.observed.is_cancel_requested = requests.is_cancel_requested
        state.observed.stop_request = requests.stop_request
        state.observed.given_up = requests.given_up
        state.observed.served = requests.served
        if requests.limits is not None:
            state.take_limits(requests.limits, requests.limits_number)
        job.note_admission(state, requests.is_admitted)

    async def _commit(self) -> None:
        change = self._state.take_change()
        if change.is_empty:
            return
        save = partial(records.save, state=self._state, change=change)
        has_posted = await self._retrying.transact(save)
        log_lines.tell(self._state.run, change)
        if has_posted:
            self._relay.notify()
        if change.job:
            self._reschedule()
        if not change.client.is_empty:
            self._answered(self._state.model, change.client.answered)

    def _be_back(self) -> None:
        """The store was away for a while, or this machine was: nobody could be heard meanwhile."""
        self._state.now_s = time.time()
        episodes.reprieve(self._state.rollouts, self._state.now_s + RESTART_GRACE_S)
        reading.attend(self._state)

    async def _watch_workers(self) -> None:
        while True:
            await self._registry.changed()
            self._mailbox.wake()

    async def fail(self, reason: str) -> None:
        """End the run as failed, as the store knows it: what was not committed is void.

        Raises `LeaseLost`.
        """
        run, epoch = self._state.run, self._state.epoch
        state = await self._retrying.read(lambda session: records.load(session, run, time.time()))
        state.epoch = epoch  # of our own lease, so that its loss is noticed
        self._state = state
        ending.end(state, ending.failed(reason))
        await self._commit()

    async def _clean_up(self) -> None:
        """The run's queues have done their work; its streams stay to be replayed."""
        await self._retrying.delete(*job.own_queues(self._state))

    def stop_declaring_queues(self) -> None:
        """The run is somebody else's now, and so are its queues."""
        self._broker.stop_declaring(*job.own_queues(self._state))
