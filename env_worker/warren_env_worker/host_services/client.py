"""The episode's end of the host services.

Invariants: a session is a connection, and everything that was opened is closed with the episode; a session that was left
between a question and its answer is not asked again, and the next `python` of the episode begins a new one.
"""

import asyncio
import socket
from collections.abc import Callable, Generator
from typing import TypeVar

from warren.environment import ConfigError, TaskError
from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.reply import Reply
from warren.host_services.settings import SandboxSettings
from warren.host_services.verdict import AnswerForm, Verdict, VerificationFailed
from warren_env_worker.host_services.frames import (
    Fields,
    hear,
    hear_later,
    packed,
    tell,
    tell_later,
)
from warren_env_worker.permissions.permissions import Permissions

Connect = Callable[[], socket.socket]
ResultT = TypeVar("ResultT")
Steps = Generator[bytes | None, Fields, ResultT]
"""What is asked, question by question (None: nothing, the answer is owed), and the result from the answers."""

_ERRORS = {
    "config": ConfigError,
    "task": TaskError,
    "verification": VerificationFailed,
    "sandbox": SandboxFailed,
}


class Line:
    """One connection; its questions are asked one by one."""

    def __init__(self, connect: Connect, lost: type[Exception]) -> None:
        """`lost` is what is raised where the other end has gone."""
        self._lost = lost
        self._turn = asyncio.Lock()
        try:
            self._connection = connect()
        except OSError as error:
            raise lost(f"the env worker can't be asked: {error}") from error

    @property
    def is_open(self) -> bool:
        return self._connection.fileno() >= 0

    def tell(self, frame: bytes) -> None:
        """Ask, and hear the answer later."""
        try:
            tell(self._connection, frame)
        except OSError as error:
            self.close()
            raise self._gone() from error

    def asked(self, steps: Steps[ResultT]) -> ResultT:
        """In a method that blocks."""
        is_done = False
        try:
            question = next(steps)
            while True:
                if question is not None:
                    tell(self._connection, question)
                question = steps.send(hear(self._connection))
        except StopIteration as end:
            is_done = True
            return end.value
        except OSError as error:
            raise self._gone() from error
        finally:
            if not is_done:
                self.close()

    async def asked_later(self, steps: Steps[ResultT]) -> ResultT:
        """In an `async` method."""
        async with self._turn:
            is_done = False
            try:
                question = next(steps)
                while True:
                    if question is not None:
                        await tell_later(self._connection, question)
                    question = steps.send(await hear_later(self._connection))
            except StopIteration as end:
                is_done = True
                return end.value
            except OSError as error:
                raise self._gone() from error
            finally:
                if not is_done:
                    self.close()

    def close(self) -> None:
        self._connection.close()

    def _gone(self) -> Exception:
        return self._lost("it has ended: it was closed, left in the middle of a question, or lost")


class Session:
    """A sandbox that begins to start when this is made."""

    def __init__(
        self, connect: Connect, settings: SandboxSettings, permissions: Permissions
    ) -> None:
        self._line = Line(connect, SandboxFailed)
        self._is_started = False
        self._line.tell(packed({"settings": settings, "permissions": permissions}))

    @property
    def is_open(self) -> bool:
        return self._line.is_open

    def run(self, code: str, *, limit_s: float | None = None) -> Reply[CellResult]:
        line = self._line
        return Reply(
            lambda: line.asked(self._ran(code, limit_s)),
            lambda: line.asked_later(self._ran(code, limit_s)),
        )

    def close(self) -> None:
        self._line.close()

    def _ran(self, code: str, limit_s: float | None) -> Steps[CellResult]:
        code = code.encode(errors="replace").decode()
        if not self._is_started:
            _answer((yield None))
            self._is_started = True
        fields = _answer((yield packed({"code": code, "limit_s": limit_s})))
        return CellResult(CellStatus(fields["status"]), fields["output"])


class EpisodeServices:
    """Of one episode; to be closed with it."""

    def __init__(self, connect: Connect, permissions: Permissions) -> None:
        self._connect = connect
        self._permissions = permissions
        self._opened: list[Session] = []
        self._own: dict[str, Session] = {}

    def sandbox(self, settings: SandboxSettings) -> Session:
        session = Session(self._connect, settings, self._permissions)
        self._opened.append(session)
        return session

    def python(
        self, code: str, settings: SandboxSettings, limit_s: float | None
    ) -> Reply[CellResult]:
        """The session is opened with the first cell that is awaited or waited for."""
        return Reply(
            lambda: self._session(settings).run(code, limit_s=limit_s).wait(),
            lambda: self._ran_later(code, settings, limit_s),
        )

    def verify(self, answer: str, gold: str, form: AnswerForm | None) -> Reply[Verdict]:
        def asked() -> Steps[Verdict]:
            said = answer.encode(errors="replace").decode()
            fields = _answer((yield packed({"answer": said, "gold": gold, "form": form})))
            return Verdict(fields["verdict"])

        return Reply(lambda: self._verified(asked()), lambda: self._verified_later(asked()))

    def close(self) -> None:
        """End all that was opened."""
        for session in self._opened:
            session.close()

    def _session(self, settings: SandboxSettings) -> Session:
        key = settings.model_dump_json()
        session = self._own.get(key)
        if session is None or not session.is_open:
            session = self._own[key] = self.sandbox(settings)
        return session

    async def _ran_later(
        self, code: str, settings: SandboxSettings, limit_s: float | None
    ) -> CellResult:
        return await self._session(settings).run(code, limit_s=limit_s)

    def _verified(self, steps: Steps[Verdict]) -> Verdict:
        line = Line(self._connect, VerificationFailed)
        try:
            return line.asked(steps)
        finally:
            line.close()

    async def _verified_later(self, steps: Steps[Verdict]) -> Verdict:
        line = Line(self._connect, VerificationFailed)
        try:
            return await line.asked_later(steps)
        finally:
            line.close()


def _answer(fields: Fields) -> Fields:
    """Raises what was answered as a failure."""
    if "failed" in fields:
        raise _ERRORS[fields["kind"]](fields["failed"])
    return fields
