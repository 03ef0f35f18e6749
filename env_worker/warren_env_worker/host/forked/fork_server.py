"""Processes for episodes, forked from this one, which has everything imported.

The fork server speaks the same protocol with the supervisor as a child that plays the episodes
itself; to each episode's process it speaks that protocol again. User code runs here only to load
tasks, once for each config and split, so that all episodes share them.

Invariants: every call is answered once, by the episode's process or, when that is late or dead, by
the fork server. A process has at most one live episode, and gets another only after it has said that
the last one is closed and left nothing behind, and only with the same secrets as before or with its
first ones. No value of a secret is copied here, so no process is forked with one. Whatever an episode does, the others do not notice:
one that waits for a process that turns out to be of no use gets another.
"""

import os
import selectors
import socket
import time
from typing import Any

from warren.environment import Env
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.live_episodes import is_last
from warren_env_worker.host.forked.complaints import Complaints
from warren_env_worker.host.forked.episode_process import EpisodeProcess
from warren_env_worker.host.forked.forking import fork, raise_open_files_limit
from warren_env_worker.host.forked.leftovers import Template
from warren_env_worker.host.forked.pool import Pool
from warren_env_worker.host.forked.supervisor import Supervisor, ended_in, refused
from warren_env_worker.host.forked.task_loader import TaskLoader
from warren_env_worker.host.forked.told import Closed, unpack_told
from warren_env_worker.host.forked.waiting import Waiting
from warren_env_worker.host.forked.within import play
from warren_env_worker.host.protocol import Call, Refused
from warren_env_worker.output.stack import own_root
from warren_schemas.episode import FailureKind

LOOK_S = 0.05
"""How often deadlines are looked at while calls are under way."""
SOON_S = 0.05
"""So long a new episode waits for a process that is about to be free."""
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
        self._root = own_root(environment)
        self._tasks = TaskLoader(status, environment)
        self._selector = selectors.DefaultSelector()
        self._selector.register(talk, selectors.EVENT_READ)
        self._processes: set[EpisodeProcess] = set()
        """All that were not reaped: live, closing, idle, or dismissed."""
        self._live: dict[int, EpisodeProcess] = {}
        self._closing: set[EpisodeProcess] = set()
        """Have given their last answer; they will say that they are ready, or end."""
        self._pool = Pool()
        self._waiting = Waiting()
        self._complaints = Complaints(environment.name or environment.__name__)
        self._template: Template | None = None
        """What kept processes compare themselves with: as it was after the last load of tasks."""
        self._looked_s = 0.0

    def serve(self) -> None:
        """Until the supervisor goes; all processes end with it."""
        raise_open_files_limit()
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
        if self._waiting and len(self._waiting) > self._n_soon():
            return 0.0
        if len(self._processes) > len(self._pool) or self._waiting:
            return LOOK_S
        remaining_s = self._pool.remaining_s
        return None if remaining_s is None else max(remaining_s, LOOK_S)

    def _take(self, call: Call) -> None:
        process = self._live.get(call.slot)
        if call.closes:
            self._close(process, call)
        elif process is not None:
            self._ask(process, call)
        elif call.start is None:  # it died between two calls; the supervisor knows how to go on
            self._supervisor.answer(Refused(call.id, FailureKind.LOST, "its process is gone"))
        else:
            self._load(call)

    def _load(self, call: Call) -> None:
        """See to its tasks, and then to a process for it."""
        try:
            if not self._tasks.has(call):
                self._supervisor.flush()
                self._template = None
                self._load_tasks(call)
        except BaseException as error:  # noqa: BLE001 - user code may raise anything
            self._supervisor.answer(refused(call, error, self._package))
            return
        self._waiting.put(call, self._tasks.loaded_at(call))

    def _load_tasks(self, call: Call) -> None:
        began_s = time.monotonic()
        try:
            self._tasks.load(call)
        finally:
            deaf_s = time.monotonic() - began_s
            for process in self._processes:  # nobody listened, so nobody was silent
                process.asked_s += deaf_s

    def _place(self) -> None:
        """Give those that wait a process: an idle one, one that is soon idle, or a new one."""
        while self._waiting and (process := self._pool.take(*self._waiting.first)) is not None:
            self._begin(process, self._waiting.take())
        for _ in range(MAX_FORKS):
            if len(self._waiting) <= self._n_soon():
                return
            if self._reuses and self._template is None:
                self._template = Template(self._environment, self._began_s)
            call = self._waiting.take()
            try:
                process = fork(self._tasks.task_cache.n_loads, self._play)
            except OSError as error:  # no process to be had
                self._supervisor.answer(refused(call, error, self._package))
                continue
            self._add(process)
            self._begin(process, call)

    def _n_soon(self) -> int:
        """Processes that are about to be free for the one that waits longest."""
        if not (self._reuses and self._waiting and self._closing):
            return 0
        since_s = time.monotonic() - SOON_S
        first = self._waiting.first
        return sum(p.asked_s > since_s and p.suits(*first) for p in self._closing)

    def _add(self, process: EpisodeProcess) -> None:
        self._processes.add(process)
        for kind in ("talk", "output", "exit"):
            source = getattr(process, kind)
            self._selector.register(source, selectors.EVENT_READ, (process, kind))

    def _play(self, talk: socket.socket, status: CallStatus) -> None:
        """In the episode's process."""
        self._selector.close()
        self._supervisor.close()
        for sibling in self._processes:
            sibling.forget_output()
            sibling.close()
            os.close(sibling.exit)
        play(talk, status, self._environment, self._tasks.task_cache, self._template)

    def _begin(self, process: EpisodeProcess, call: Call) -> None:
        self._live[call.slot] = process
        try:
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
        unanswered = process.call if process else self._waiting.drop_call(call.slot)
        self._supervisor.answer_close(call, unanswered)
        if process is None:
            return
        is_idle = unanswered is None
        if is_idle:
            try:
                process.ask(call)
            except OSError:  # it is dead, and that was not heard of yet
                is_idle = False
        process.call = None
        if is_idle:
            self._let_close(process)
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
        """Of what a process says, only the answer to the call that it was asked counts.

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
            call = process.call
            if call is None or answer.id != call.id:
                continue
            process.call = None
            self._supervisor.answer(answer)
            if is_last(call, answer):
                self._let_close(process)

    def _let_close(self, process: EpisodeProcess) -> None:
        """It has said all; what it still does is to close its episode."""
        assert process.slot is not None
        del self._live[process.slot]
        process.slot = None
        process.asked_s = time.monotonic()
        self._closing.add(process)
        if not self._reuses:
            process.talk.shutdown(socket.SHUT_WR)

    def _hear_closed(self, process: EpisodeProcess, closed: Closed) -> None:
        if process not in self._closing:
            return
        if closed.leftover is not None:
            self._complaints.note(closed.leftover)
            raise ConnectionAbortedError("it is of no more use")
        self._closing.remove(process)
        process.rest()
        self._pool.put(process)

    def _end(self, process: EpisodeProcess) -> None:
        """Dead, or about to be; who waits for it is told, or gets another if it has not begun."""
        for source in (process.talk, process.output, process.exit):
            if source in self._selector.get_map():
                self._selector.unregister(source)
        self._processes.remove(process)
        self._closing.discard(process)
        self._pool.remove(process)
        if process.slot is not None:
            del self._live[process.slot]
        call, has_begun, how = process.call, process.has_begun, process.reap()
        if call is None:
            return
        if call.start is not None and not has_begun:
            self._waiting.put_first(call, self._tasks.loaded_at(call))
            return
        self._supervisor.answer(ended_in(call, how, late=process.sentence))

    def _enforce_limits(self, now_s: float) -> None:
        while (old := self._pool.take_old()) is not None:
            old.asked_s = now_s
            old.talk.shutdown(socket.SHUT_WR)
            self._closing.add(old)
        step_s = self._environment.limits.step_s
        for process in tuple(self._processes):
            if process.is_overdue(self._root, step_s, now_s, closes=process in self._closing):
                self._end(process)
