"""A check, run in a process of its own and watched: it may hang, crash or print what it likes.

Invariants: every check ends, with a finding, whatever the environment does; nobody waits for longer
than `PULSE_S` without a word, which says where the environment is.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict

from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.check import wire
from warren_env_worker.check.finding import Finding, bad
from warren_env_worker.check.printed import Printed
from warren_env_worker.check.wire import Begun, Done, Imported, Job, NotImported
from warren_env_worker.host.protocol import Config
from warren_env_worker.output.log import OutputLog
from warren_env_worker.output.pump import pumped
from warren_env_worker.output.stack import asked, own_place, places, read_dump

CHILD_MODULE = "warren_env_worker.check.child"
PULSE_S = 4.0
_CLOSE_S = 1.0
_LAST_WORDS_S = 0.5

Tell = Callable[[Finding], None]
Say = Callable[[str], None]


class CannotImport(Exception):
    """The text is for a person."""


async def watched(
    reference: str, config: Config, split: str, log: OutputLog, tell: Tell, say: Say
) -> tuple[list[Finding], Printed]:
    """All findings, of which `tell` hears at once; `say` is for the time in between.

    Raises `CannotImport`.
    """
    printed = Printed(log, secrets.token_hex(8))
    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        tell(finding)

    async with _started(reference, config, split, printed) as (child, stacks):
        await _Watch(child, stacks, note, say).until_done()
    printed.end()
    return findings, printed


@asynccontextmanager
async def _started(
    reference: str, config: Config, split: str, printed: Printed
) -> AsyncGenerator[tuple[Child, int]]:
    """The process, and the descriptor from which its stacks are read."""
    with ExitStack() as ours:
        stacks, watch = os.pipe()
        ours.callback(os.close, stacks)
        with ExitStack() as theirs:
            theirs.callback(os.close, watch)
            sink, pump = theirs.enter_context(pumped(reference, printed.keep))
            job = json.dumps(asdict(Job(reference, config, split, printed.mark, watch)))
            child = await Child.spawn(
                reference,
                CHILD_MODULE,
                (job,),
                inherited=os.environ,  # it runs for whoever started this, with all that is theirs
                output=sink,
                descriptors=(watch,),
            )
        try:
            yield child, stacks
        finally:
            await child.close(grace_s=_CLOSE_S)
            await asyncio.to_thread(pump.drain)


class _Watch:
    def __init__(self, child: Child, stacks: int, note: Tell, say: Say) -> None:
        self._child = child
        self._stacks = stacks
        self._reading = asyncio.Lock()
        self._read = ""
        """The last dump that was asked for: that of its death may have come with it."""
        self._note = note
        self._say = say
        self._root = ""
        self._what = ""
        self._begun_s = 0.0

    async def until_done(self) -> None:
        clock = asyncio.create_task(self._keep_saying(), name="say what is going on")
        try:
            while not self._is_over(wire.unpack(await self._child.receive())):
                pass
        except ChildDied as death:
            self._note(bad(self._what, await self._how(death)))
        finally:
            clock.cancel()

    def _is_over(self, told: wire.Told) -> bool:
        match told:
            case Begun():
                self._what, self._begun_s = told.what, asyncio.get_running_loop().time()
            case Imported():
                self._root = told.root
            case NotImported():
                raise CannotImport(told.reason)
            case Finding():
                self._note(told)
            case Done():
                return True
        return False

    async def _keep_saying(self) -> None:
        while True:
            await asyncio.sleep(PULSE_S)
            taken_s = asyncio.get_running_loop().time() - self._begun_s
            async with self._reading:
                self._read = await asyncio.to_thread(asked, self._child.pid, self._stacks)
            place = own_place(places(self._read), self._root)
            self._say(f"{self._what}: {taken_s:.0f} s" + (f", now at {place}" if place else ""))

    async def _how(self, death: ChildDied) -> str:
        async with self._reading:
            dump = self._read + await asyncio.to_thread(read_dump, self._stacks, _LAST_WORDS_S)
        place = own_place(places(dump), self._root)
        how = str(death)
        if "Timeout (" in dump:
            how = "a call hangs in native code, which no deadline can end; its process was killed"
        return how + (f" at {place}" if place else "")
