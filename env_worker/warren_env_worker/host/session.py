"""A child process from its first frame to its exit.

Invariants: at most one request of a slot is in the child; every request that was handed over is
answered, or is among the `unfinished` of the death, unless its slot was closed meanwhile. The event
loop never waits for user code: a call that outlives its deadline dies with the child.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.worker.child import Child
from warren_broker.worker.until_death import until_death
from warren_env_worker.host.backlog import Backlog, Entry
from warren_env_worker.host.call_status import SharedCallStatus
from warren_env_worker.host.calls import Calls
from warren_env_worker.host.late import too_long
from warren_env_worker.host.protocol import (
    IDLE,
    Answer,
    Description,
    pack,
    unpack_answers,
)
from warren_env_worker.host.replacement import DRAIN_S, Replacement
from warren_env_worker.host.request import Request
from warren_env_worker.output.kept import KeptOutput
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

STUCK_S = 5.0
"""How long after its longest limit a silent child counts as stuck."""
MIN_PAUSE_S = 0.05

CLOSE_GRACE_S = 1.0
"""How long a child may take to leave before it is killed."""

log = logging.getLogger(__name__)

_REPLACED = "it was replaced, as it had taken more than Limits.memory_mb of its class"
_CRASHED = FailureKind.ENVIRONMENT_CRASHED
_TIMEOUT = FailureKind.ENVIRONMENT_TIMEOUT


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended, and what that means for the requests that it held."""

    reason: str
    kind: FailureKind
    unfinished: Sequence[Request]
    """In the order in which they were handed over; without the guilty one."""
    guilty: Request | None
    is_clear: bool
    """False if one of the unfinished may be guilty and nothing tells which."""


class Session:
    def __init__(
        self,
        child: Child,
        status: SharedCallStatus,
        description: Description,
        policy: OperatorPolicy,
        printed: KeptOutput | None = None,
    ) -> None:
        self.description = description
        self._printed = printed
        self._child = child
        self._status = status
        self._backlog = Backlog()
        self._calls = Calls(description, policy)
        self._is_busy = asyncio.Event()
        self._is_free = asyncio.Event()
        self._is_free.set()
        self._culprit = IDLE
        self._sentence: str | None = None
        self._replacement = Replacement(moves_episodes=description.is_replayable)
        self._is_replaced = False

    async def run(self, backlog: Backlog) -> Death:
        """Serve the backlog until the child dies."""
        self._backlog = backlog
        name = self._child.name
        death = await until_death(
            {
                f"send to {name}": self._send(backlog),
                f"watch {name}": self._watch(),
                f"receive from {name}": self._receive(),
                f"replace {name}": self._replace(),
            }
        )
        backlog.put_first(self._replacement.waiting)
        return self._death(str(death))

    async def _send(self, backlog: Backlog) -> None:
        while True:
            await backlog.filled()
            suspect = backlog.take_suspect()
            if suspect is None:
                await self._hand_over(backlog.take())
            else:
                await self._is_free.wait()
                await self._hand_over([suspect])
                await self._is_free.wait()

    async def _hand_over(self, entries: Sequence[Entry]) -> None:
        entries = self._replacement.for_this_child(entries, self._calls.held)
        calls = [call for entry in entries if (call := self._calls.made_of(entry)) is not None]
        if self._calls.under_way:
            self._is_free.clear()
        self._look_at_replacement()
        if not calls:
            return
        self._is_busy.set()
        await self._child.send(pack(calls))

    async def _receive(self) -> None:
        while True:
            for answer in self._understood(await self._child.receive()):
                self._settle(answer)
            if not self._calls.under_way:
                self._is_busy.clear()
                self._is_free.set()
            if self._status.wants_replacement:
                self._replacement.is_wanted.set()
            self._look_at_replacement()

    def _look_at_replacement(self) -> None:
        self._replacement.look(is_idle=not self._calls.under_way, n_held=len(self._calls.held))

    async def _replace(self) -> None:
        """End the child once it asks for it and has ended what it began, or has had time enough."""
        await self._replacement.is_wanted.wait()
        log.warning(
            "%s has taken more than Limits.memory_mb of its class and is replaced; %d episodes %s",
            self._child.name, len(self._calls.held),
            "are rebuilt" if self.description.is_replayable else "may end before, as they can't be rebuilt",
        )  # fmt: skip
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(DRAIN_S, self.description.longest_s)):
                await self._replacement.is_drained.wait()
        self._is_replaced = True
        await self._child.close(grace_s=CLOSE_GRACE_S)

    def _understood(self, frame: bytes) -> Sequence[Answer]:
        try:
            return unpack_answers(frame)
        except (TypeError, ValueError):  # user code got hold of the channel
            self._condemn(IDLE, "it sent what is no answer")
            return ()

    def _settle(self, answer: Answer) -> None:
        again = self._calls.settle(answer)
        if again is not None:  # rebuilt before it may be closed
            self._backlog.put_back([again], as_suspects=False)

    async def _watch(self) -> None:
        """Condemn the child when a call is past its deadline, or when nothing moves at all."""
        loop, status = asyncio.get_running_loop(), self._status
        pause_s = max(self.description.shortest_s, MIN_PAUSE_S)
        patience_s = self.description.longest_s + STUCK_S
        vitals, moved_s = None, loop.time()
        while True:
            await self._is_busy.wait()
            call, remaining_s = status.call, status.remaining_s
            if vitals != self._vitals():
                vitals, moved_s = self._vitals(), loop.time()
            if call != IDLE and remaining_s <= 0:
                # Before we ask where it waits: another call may be entered meanwhile.
                limit_s = status.limit_s
                late = too_long(limit_s, self.description.raisable_s, await self._where())
                return self._condemn(call, f"a call {late}")
            if call == IDLE and loop.time() - moved_s > patience_s:
                return self._condemn(IDLE, f"it was silent for {patience_s:g} s")
            # A call that begins meanwhile can't be late before the pause is over.
            await asyncio.sleep(pause_s if call == IDLE else min(pause_s, remaining_s))

    def _vitals(self) -> tuple[int, int, int]:
        return self._status.progress, self._calls.n_made, len(self._calls.under_way)

    async def _where(self) -> str:
        """Where the child waits, as the end of a sentence."""
        if self._printed is None:
            return ""
        pid, root = self._child.pid, self.description.root
        return await asyncio.to_thread(self._printed.where, pid, root)

    def _condemn(self, call: int, sentence: str) -> None:
        self._culprit = call
        self._sentence = sentence
        self._child.kill()

    def _death(self, reason: str) -> Death:
        if self._is_replaced and self._sentence is None:
            return Death(_REPLACED, _CRASHED, self._calls.wanted, None, is_clear=True)
        culprit = self._status.call if self._sentence is None else self._culprit
        under_way = self._calls.under_way
        guilty = under_way.get(culprit)
        if culprit == IDLE and len(under_way) == 1:
            guilty = next(iter(under_way.values()))
        return Death(
            reason=self._sentence or reason,
            kind=_CRASHED if self._sentence is None else _TIMEOUT,
            unfinished=[request for request in self._calls.wanted if request is not guilty],
            guilty=guilty,
            is_clear=guilty is not None or culprit != IDLE,
        )
