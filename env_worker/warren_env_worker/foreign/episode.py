"""One episode in a foreign package, played anew where its process was lost.

Invariant: what the policy was shown is what the episode went through. Made again, it must answer as before, up to
the action that is new; else it is `NotReplayable`. An action at which the process dies again and again fails it.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from warren.environment import ConfigError, NotReplayable
from warren_env_worker.foreign.package import Package
from warren_env_worker.foreign.package_process import PackageProcess, ProcessLost

LEAVE_S = 5.0
MAX_LOSSES = 3
"""In one action."""

log = logging.getLogger(__name__)


class PackageFailed(Exception):
    """The package raised, or its process dies each time."""


class ForeignEpisode:
    def __init__(self, package: Package, made: Mapping[str, object]) -> None:
        """`made` is what the program's `make` gets."""
        self._package = package
        self._requests: list[Mapping[str, object]] = [{"make": made}]
        self._answers: list[dict[str, Any]] = []
        self._process: PackageProcess | None = None

    async def begin(self) -> dict[str, Any]:
        """Raises `ConfigError`, `PackageFailed`, `StartFailed`."""
        return await self._last_answer()

    async def step(self, asked: object) -> dict[str, Any]:
        """`asked` is what the program's `step` gets. Raises `PackageFailed`, `NotReplayable`, `StartFailed`."""
        self._requests.append({"step": asked})
        return await self._last_answer()

    async def leave(self, asked: object) -> None:
        """Closes after a last request, for a program that has something to give back; at once where it is still in a step."""
        try:
            if self._process is not None and not self._process.is_asking:
                async with asyncio.timeout(LEAVE_S):
                    await self._process.ask({"step": asked})
        except (ProcessLost, TimeoutError):
            log.info("a process was gone, or hung, when it was to leave")
        finally:
            self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()

    async def _last_answer(self) -> dict[str, Any]:
        for _ in range(MAX_LOSSES):
            try:
                answer = await self._asked()
            except ProcessLost:
                log.warning("a process of %s was lost; its episode is replayed", self._package.name)
                self._process = None
                continue
            self._answers.append(answer)
            return answer
        raise PackageFailed(f"its process died {MAX_LOSSES} times at this action")

    async def _asked(self) -> dict[str, Any]:
        if self._process is None:
            self._process = await self._package.episode()
            for number, before in enumerate(self._answers):
                if await self._answer(self._requests[number]) != before:
                    raise NotReplayable(
                        f"its process was lost; replayed, it answered action {number} differently"
                    )
        return await self._answer(self._requests[-1])

    async def _answer(self, request: Mapping[str, object]) -> dict[str, Any]:
        assert self._process is not None  # `_asked` opens it
        answer = await self._process.ask(request)
        if "error" in answer:
            raise (ConfigError if answer["misfit"] else PackageFailed)(answer["error"])
        return answer
