"""Processes for episodes, forked from this one, which has everything imported.

The fork server speaks the same protocol with the supervisor as a child that plays the episodes
itself; to each episode's process it speaks that protocol again. User code runs here only to load
tasks, once for each config and split, so that all episodes share them.

Invariants: every call is answered once, by the episode's process or, when that is late or dead, by
the fork server. A process has at most one live episode, and gets another only after it has said that
the last one is closed and left nothing behind, and only with the same secrets as before or with its
first ones. No value of a secret is copied here, so no process is forked with one. Whatever an episode does, the others do not notice:
one that waits for a process that turns out to be of no use gets another. Episodes that no process holds
while they wait for the policy's words (`trial` says which) begin again with their next call.
"""

import selectors
import socket
import time
from typing import Any

from warren.environment import Env
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.live_episodes import is_last
from warren_env_worker.host.forked.complaints import Complaints
from warren_env_worker.host.forked.episode_main import play
from warren_env_worker.host.forked.episode_process import EpisodeProcess
from warren_env_worker.host.forked.forking import fork
from warren_env_worker.host.forked.leftovers import Template
from warren_env_worker.host.forked.messages import Closed, unpack_told
from warren_env_worker.host.forked.processes import Processes
from warren_env_worker.host.forked.stateless.episodes import StatelessEpisodes
from warren_env_worker.host.forked.supervisor import Supervisor, ended_in, refused
from warren_env_worker.host.forked.task_loader import TaskLoader
from warren_env_worker.host.forked.waiting import Waiting
from warren_env_worker.host.protocol import Answer, Call, Observed, Refused
from warren_schemas.episode import FailureKind

LOOK_S = 0.05
"""How often deadlines are looked at while calls are under way."""
MAX_FORKS = 8
"""Of one turn: meanwhile nobody is heard."""


class ForkServer:
    def __init__(
        self, talk: socket.socket, status: CallStatus, environment: type[Env[Any]], *, reuses: bool
    ) -> None:
        self._supervisor = Supervisor(talk)
        self._status = status
        self._environment = environment
        self._reuses = reuses
        self._began_s = time.time()
        self._package = environment.__module__.partition(".")[0]
        self._tasks = TaskLoader(status, environment)
        self._selector = selectors.DefaultSelector()
        self._selector.register(talk, selectors.EVENT_READ)
        self._processes = Processes(self._selector, reuses=reuses)
        self._waiting = Waiting()
        self._is_behind = False
        """More processes are to be forked than one turn allows."""
        self._stateless = StatelessEpisodes(environment, reuses=reuses)
        self._complaints = Complaints(environment.name or environment.__name__)
        self._template: Template | None = None
        """What kept processes compare themselves with: as it was after the last load of tasks."""
        self._looked_s = 0.0

    def serve(self) -> None:
        """Until the supervisor goes; all processes end with it."""
        try:
            while self._turn():
                pass
        finally:
            for process in self._processes:
                process.reap()

    def _turn(self) -> bool:
        """Do what is to be done now; False when the supervisor has gone."""
        for key, _ in self._selector.select(self._pause_s()):
            if key.data is None:
                calls = self._supervisor.calls()
                if calls is None:
                    return False
                for call in calls:
                    self._take(call)
            else:
                self._attend(*key.data)
        self._place()
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            self._enforce_limits(now_s)
        self._status.show_life()
        self._supervisor.flush()
        return True

    def _pause_s(self) -> float | None:
        if self._is_behind:
            return 0.0
        if self._processes.n_busy or self._waiting:
            return LOOK_S
        remaining_s = self._processes.pool.remaining_s
        return None if remaining_s is None else max(remaining_s, LOOK_S)

    def _take(self, call: Call) -> None:
        process = self._processes.of(call.slot)
        if call.closes:
            self._close(process, call)
        elif process is not None:
            self._ask(process, call)
        elif call.start is not None:
            self._load(call)
        elif (whole := self._stateless.whole(call)) is not None:
            self._load(whole)
        else:  # its process died between two calls; the supervisor knows how to go on
            self._supervisor.answer(Refused(call.id, FailureKind.LOST, "its process is gone"))

    def _load(self, call: Call) -> None:
        """See to its tasks, and then to a process for it."""
        try:
            if not self._tasks.has(call):
                self._supervisor.flush()
                self._template = None
                with self._processes.unheard():
                    self._tasks.load(call)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            self._supervisor.answer(refused(call, error, self._package))
            return
        self._waiting.put(call, self._tasks.loaded_at(call))

    def _place(self) -> None:
        """Give those that wait a process: an idle one, one that is soon idle, or a new one."""
        n_forks = MAX_FORKS
        self._is_behind = False
        while self._waiting and (self._processes.n_more or not self._is_stateless):
            process = self._processes.pool.take(*self._waiting.first)
            if process is None:
                if len(self._waiting) <= self._processes.n_soon(*self._waiting.first):
                    return
                if not n_forks:
                    self._is_behind = True
                    return
                n_forks -= 1
                process = self._forked()
            if process is not None:
                self._begin(process)

    def _forked(self) -> EpisodeProcess | None:
        """A new process; if there is none to be had, the one that waits longest is refused."""
        if self._reuses and self._template is None:
            self._template = Template(self._environment, self._began_s)
        try:
            process = fork(self._tasks.task_cache.n_loads, self._play)
        except OSError as error:
            self._supervisor.answer(refused(self._waiting.take(), error, self._package))
            return None
        self._processes.add(process)
        return process

    def _play(self, talk: socket.socket, status: CallStatus) -> None:
        """In the episode's process."""
        self._selector.close()
        self._supervisor.close()
        self._processes.leave_all()
        play(talk, status, self._environment, self._tasks.task_cache, self._template)

    @property
    def _is_stateless(self) -> bool:
        """Whether the call that waits longest needs a process only while it is under way."""
        return self._stateless.take_in(self._waiting.first[0])

    def _begin(self, process: EpisodeProcess) -> None:
        """Give it the episode that waits longest, or several calls that are stateless."""
        try:
            if self._is_stateless:
                n_more = self._processes.n_more
                self._processes.at_work.add(process)
                process.begin_stateless(self._stateless.batch(self._waiting, process, n_more))
            else:
                call = self._waiting.take()
                self._stateless.forget_episode(call.slot)
                self._processes.hold(call.slot, process)
                process.begin(call)
        except OSError:
            self._end(process)

    def _ask(self, process: EpisodeProcess, call: Call) -> None:
        try:
            process.ask(call)
        except OSError:
            self._end(process)

    def _close(self, process: EpisodeProcess | None, call: Call) -> None:
        """The supervisor needs this episode no more, nor what it last asked of it."""
        slot = call.slot
        if process is None:
            self._stateless.forget_episode(slot)
            unanswered = self._waiting.drop_call(slot) or self._processes.drop_call(slot)
        else:
            unanswered = process.drop_call(slot)
        self._supervisor.answer_close(call, unanswered)
        if process is None:
            return
        is_idle = unanswered is None
        if is_idle:
            try:
                process.ask(call)
            except OSError:  # it is dead, and that was not heard of yet
                is_idle = False
        process.drop_call(slot)
        if is_idle:
            self._processes.let_close(process)
        else:  # dead, or at work for nobody
            self._end(process)

    def _attend(self, process: EpisodeProcess, kind: str) -> None:
        if process not in self._processes:
            return  # reaped earlier in this turn
        if kind == "output":
            if not process.pass_output_on():
                self._selector.unregister(process.output)
            return
        try:
            for frame in process.hear():
                self._hear(process, frame)
        except OSError:
            self._end(process)
            return
        if kind == "exit":
            self._end(process)

    def _hear(self, process: EpisodeProcess, frame: bytes) -> None:
        """Of what a process says, only the answers to the calls that it was asked count.

        Raises `OSError` when the conversation is over.
        """
        try:
            told = unpack_told(frame)
        except (TypeError, ValueError):
            raise ConnectionAbortedError("it sent what is no answer") from None
        if isinstance(told, Closed):
            self._hear_closed(process, told)
            return
        for answer in told:
            call = process.calls.pop(answer.id, None)
            if call is not None:
                self._hear_answer(process, call, answer)

    def _hear_answer(self, process: EpisodeProcess, call: Call, answer: Answer) -> None:
        if call.is_stateless:
            if self._stateless.hear(call, answer):
                self._supervisor.answer(answer)
            if process.is_released:
                raise ConnectionAbortedError("it is at work for nobody")
            return
        self._supervisor.answer(answer)
        if call is process.first and isinstance(answer, Observed):
            process.shown = answer.digest
        if is_last(call, answer):
            self._processes.let_close(process)

    def _hear_closed(self, process: EpisodeProcess, closed: Closed) -> None:
        if not self._processes.expect_end(process):
            return
        if closed.leftover is not None:
            self._complaints.note(closed.leftover)
            if process.is_stateless:
                self._stateless.stop()
            raise ConnectionAbortedError("it is of no more use")
        repeat = self._stateless.ready(process)
        if repeat is None:
            self._processes.rest(process)
        else:
            process.begin_stateless([repeat])

    def _end(self, process: EpisodeProcess) -> None:
        """Dead, or about to be; who waits for it is told, or gets another if it has not begun."""
        self._processes.remove(process)
        guilty, others = process.unfinished()
        how = process.reap()
        if process.is_stateless:
            guilty, others = self._stateless.end(guilty, others)
        self._waiting.put_first(others, self._tasks.loaded_at)
        if guilty is not None:
            self._supervisor.answer(ended_in(guilty, how, late=process.sentence))

    def _enforce_limits(self, now_s: float) -> None:
        self._processes.dismiss_old(now_s)
        for process in self._processes:
            if process.is_overdue(
                self._environment, now_s, closes=self._processes.expect_end(process)
            ):
                self._end(process)
            elif process.is_slow:
                self._stateless.stop()
                self._waiting.put_first(process.release(), self._tasks.loaded_at)
