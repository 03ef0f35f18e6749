"""A process of its own for every episode, forked from this one, which has everything imported.

The nursery speaks the same protocol with the supervisor as a child that plays the episodes itself;
to each episode's process it speaks that protocol again. User code runs here only to load tasks,
once for each config and split, so that all episodes share them.

Invariants: every call is answered once, by the episode's process or, when that is late or dead, by
the nursery; whatever an episode does, the others do not notice. A process that has given its last
answer may take its time to close, up to its limit, and nobody waits for it.
"""

import os
import selectors
import socket
import time
from typing import Any

from warren.environment import Env
from warren_broker.worker.child import Channel
from warren_env_worker.host.caller import Caller
from warren_env_worker.host.catalogue import Catalogue
from warren_env_worker.host.cell import Cell
from warren_env_worker.host.inward import Inward
from warren_env_worker.host.loops import serve
from warren_env_worker.host.offspring import Offspring, fork, make_room_for_files
from warren_env_worker.host.protocol import (
    IDLE,
    Answer,
    Call,
    Observed,
    Refused,
    pack,
    pack_answers,
    unpack_answers,
)
from warren_env_worker.host.refusal import blame
from warren_env_worker.host.stage import is_last
from warren_env_worker.output.stack import own_root
from warren_schemas.episode import FailureKind

LOOK_S = 0.05
"""How often deadlines are looked at while calls are under way."""
STUCK_S = 5.0
"""How long after the limits of its calls a silent process counts as stuck."""


class Nursery:
    def __init__(self, talk: socket.socket, cell: Cell, environment: type[Env[Any]]) -> None:
        self._talk = talk
        self._inward = Inward(talk)
        self._cell = cell
        self._environment = environment
        self._package = environment.__module__.partition(".")[0]
        self._root = own_root(environment)
        self._catalogue = Catalogue(environment)
        self._loader = Caller(cell, is_async=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(talk, selectors.EVENT_READ)
        self._live: dict[int, Offspring] = {}
        self._leaving: set[Offspring] = set()
        self._ready: list[Answer] = []

    def serve(self) -> None:
        """Until the supervisor goes; all processes end with it."""
        make_room_for_files()
        try:
            while self._turn():
                pass
        finally:
            for offspring in (*self._live.values(), *self._leaving):
                offspring.bury()

    def _turn(self) -> bool:
        """Do what is to be done now; False when the supervisor has gone."""
        for key, _ in self._selector.select(LOOK_S if self._live or self._leaving else None):
            if key.data is None:
                calls = self._inward.calls()
                if calls is None:
                    return False
                for call in calls:
                    self._take(call)
            else:
                self._attend(*key.data)
        self._enforce_limits()
        self._cell.show_life()
        self._flush()
        return True

    def _take(self, call: Call) -> None:
        offspring = self._live.get(call.slot)
        if call.closes:
            self._close(offspring, call)
        elif offspring is None:
            self._begin(call)
        else:
            self._ask(offspring, call)

    def _begin(self, call: Call) -> None:
        """A process for an episode, the first time or to rebuild it."""
        start = call.start
        if start is None:  # it died between two calls; the supervisor knows how to go on
            self._answer(Refused(call.id, FailureKind.LOST, "its process is gone"))
            return
        try:
            if not self._catalogue.has_loaded(start):
                self._load(call)
            limit_mb = self._environment.limits.memory_mb
            offspring = fork(call.slot, start, limit_mb, self._play)
        except BaseException as error:  # noqa: BLE001 - user code, or no process to be had
            refusal = blame(error, self._package)
            self._answer(Refused(call.id, refusal.kind, refusal.reason, refusal.is_retryable))
            return
        self._live[call.slot] = offspring
        for kind in ("talk", "output", "exit"):
            source = getattr(offspring, kind)
            self._selector.register(source, selectors.EVENT_READ, (offspring, kind))
        self._ask(offspring, call)

    def _load(self, call: Call) -> None:
        """In this process: the supervisor's watch is over it."""
        assert call.start is not None
        self._flush()
        load_s = self._environment.limits.load_s
        coroutine = self._loader.call(call.id, load_s, self._catalogue.load, call.start)
        began_s = time.monotonic()
        try:
            coroutine.send(None)
        except StopIteration:
            return
        finally:
            self._was_deaf(time.monotonic() - began_s)
        raise RuntimeError("tasks() waited")

    def _was_deaf(self, deaf_s: float) -> None:
        """Nobody listened meanwhile, so nobody was silent."""
        for offspring in (*self._live.values(), *self._leaving):
            offspring.asked_s += deaf_s

    def _play(self, channel: Channel, cell: Cell) -> None:
        """In the episode's process."""
        self._selector.close()
        self._talk.close()
        for sibling in (*self._live.values(), *self._leaving):
            sibling.talk.close()
            os.close(sibling.output)
            os.close(sibling.exit)
        serve(channel, cell, self._environment, self._catalogue)

    def _ask(self, offspring: Offspring, call: Call) -> None:
        try:
            offspring.ask(call, pack([call]))
        except OSError:
            self._end(offspring)

    def _close(self, offspring: Offspring | None, call: Call) -> None:
        """The supervisor needs this episode no more."""
        self._answer(Observed(call.id))
        if offspring is None:
            return
        is_idle = offspring.call is None
        if is_idle:
            try:
                offspring.ask(call, pack([call]))
            except OSError:  # it is dead, and that was not heard of yet
                is_idle = False
        offspring.call = None
        if is_idle:
            self._let_go(offspring)
        else:  # dead, or at work for nobody
            self._end(offspring)

    def _attend(self, offspring: Offspring, kind: str) -> None:
        if offspring.slot not in self._live and offspring not in self._leaving:
            return  # buried earlier in this turn
        if kind == "output":
            if not offspring.pass_output_on():
                self._selector.unregister(offspring.output)
            return
        try:
            for frame in offspring.hear():
                self._hear(offspring, frame)
        except OSError:
            self._end(offspring)
            return
        if kind == "exit":
            self._end(offspring)

    def _hear(self, offspring: Offspring, frame: bytes) -> None:
        """Of what a process says, only the answer to the call that it was asked counts."""
        try:
            answers = unpack_answers(frame)
        except (TypeError, ValueError):
            raise ConnectionAbortedError("it sent what is no answer") from None
        for answer in answers:
            call = offspring.call
            if call is None or answer.id != call.id:
                continue
            offspring.call = None
            self._answer(answer)
            if is_last(call, answer):
                self._let_go(offspring)

    def _let_go(self, offspring: Offspring) -> None:
        """It has said all; what it still does is to close."""
        del self._live[offspring.slot]
        self._leaving.add(offspring)
        offspring.asked_s = time.monotonic()
        offspring.talk.shutdown(socket.SHUT_WR)

    def _end(self, offspring: Offspring) -> None:
        """Dead, or about to be; who waits for it is told."""
        for source in (offspring.talk, offspring.output, offspring.exit):
            if source in self._selector.get_map():
                self._selector.unregister(source)
        if offspring in self._leaving:
            self._leaving.remove(offspring)
        else:
            del self._live[offspring.slot]
        call, how = offspring.call, offspring.bury()
        if call is None:
            return
        kind = FailureKind.ENVIRONMENT_CRASHED
        if offspring.sentence is not None:
            kind, how = FailureKind.ENVIRONMENT_TIMEOUT, offspring.sentence
        method = "step()" if call.actions else "reset()"
        self._answer(Refused(call.id, kind, f"in {method}, {how}"))

    def _enforce_limits(self) -> None:
        for offspring in (*self._live.values(), *self._leaving):
            if offspring.cell.call != IDLE and offspring.cell.remaining_s <= 0:
                limit_s = offspring.cell.limit_s
                where = offspring.where(self._root)
                offspring.sentence = f"a call took longer than {limit_s:g} s{where}"
                self._end(offspring)
            elif self._is_stuck(offspring):
                offspring.sentence = "its process was silent for too long"
                self._end(offspring)

    def _is_stuck(self, offspring: Offspring) -> bool:
        """Alive and in no call, and yet without an answer, or not gone."""
        if offspring.cell.call != IDLE or (
            offspring.call is None and offspring not in self._leaving
        ):
            return False
        n_steps = 1 + len(offspring.call.actions) if offspring.call else 1
        patience_s = self._environment.limits.step_s * n_steps + STUCK_S
        return time.monotonic() - offspring.asked_s > patience_s

    def _answer(self, answer: Answer) -> None:
        self._ready.append(answer)

    def _flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            frame = pack_answers(ready)
            self._talk.sendall(len(frame).to_bytes(4, "little") + frame)
