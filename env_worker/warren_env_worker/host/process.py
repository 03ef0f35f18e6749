"""A child process that is started when it is wanted, and again after each death.

Invariants: every request is answered once. A death fails the one request that is to blame for it;
all others are asked again of a fresh child, which rebuilds their episodes by replay. Nobody is to blame
for a child that was killed while it imported (`MOST_STARTS` in a row are): whatever waited goes on waiting.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager

from warren_broker.worker.child import Child
from warren_env_worker.host.backlog import Backlog, Entry
from warren_env_worker.host.greeting import Greeting
from warren_env_worker.host.protocol import IDLE, Description, Refused
from warren_env_worker.host.session import Death, Session
from warren_env_worker.host.startup import (
    EnvironmentUnusable,
    SpawnChild,
    StartCutShort,
    opened,
)
from warren_env_worker.output.log import OutputLog
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

MOST_STARTS = 3

log = logging.getLogger(__name__)


class EnvironmentProcess:
    def __init__(
        self,
        reference: str,
        policy: OperatorPolicy,
        output: OutputLog | None = None,
        *,
        spawn_child: SpawnChild = Child.spawn,
    ) -> None:
        self._reference = reference
        self._policy = policy
        self._output = output
        self._spawn_child = spawn_child
        self._backlog = Backlog()
        self._n_cut_short = 0
        self._wanted = asyncio.Event()
        self._greeting = Greeting()

    @property
    def description(self) -> Description | None:
        return self._greeting.description

    def put(self, entry: Entry) -> None:
        self._backlog.put(entry)
        self._wanted.set()

    async def start(self) -> Description:
        """The description that the child gives. Raises `EnvironmentUnusable`."""
        self._wanted.set()
        return await self._greeting.heard()

    async def run(self) -> None:
        """One child after the other, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                async with self._opened() as session:
                    self._n_cut_short = 0
                    self._greeting.tell(session.description)
                    death = await session.run(self._backlog)
            except StartCutShort as error:
                self._start_again(error)
            except EnvironmentUnusable as error:
                self._n_cut_short = 0
                self._give_up(error)
            else:
                self._judge(death)

    def _opened(self) -> AbstractAsyncContextManager[Session]:
        return opened(self._reference, self._policy, self._output, spawn_child=self._spawn_child)

    def _start_again(self, error: StartCutShort) -> None:
        """Somebody, or a lack of memory, killed it; if that goes on, the environment is too large."""
        self._n_cut_short += 1
        if self._n_cut_short >= MOST_STARTS:
            self._n_cut_short = 0
            return self._give_up(EnvironmentUnusable(f"{error}, {MOST_STARTS} times in a row"))
        log.warning("%s: %s; started again", self._reference, error)
        self._wanted.set()

    def _give_up(self, error: EnvironmentUnusable) -> None:
        log.error("%s can't be hosted: %s%s", self._reference, error, self._hint)
        self._greeting.fail(error)
        for request in self._backlog.drain():
            request.answer(Refused(IDLE, FailureKind.ENVIRONMENT_ERROR, str(error)))

    @property
    def _hint(self) -> str:
        return f"; what it printed is in {self._output.path}" if self._output else ""

    def _judge(self, death: Death) -> None:
        n_unfinished = len(death.unfinished)
        costs_something = n_unfinished > 0 or death.guilty is not None
        log.log(
            logging.ERROR if costs_something else logging.DEBUG,
            "the process of %s is gone: %s; %d requests are asked again%s",
            self._reference, death.reason, n_unfinished, self._hint,
        )  # fmt: skip
        self._backlog.put_back(death.unfinished, as_suspects=not death.is_clear)
        if death.guilty is not None:
            reason = f"in {death.guilty.method}, {death.reason}"
            death.guilty.answer(Refused(IDLE, death.kind, reason))
        if not self._backlog.is_empty:
            self._wanted.set()
