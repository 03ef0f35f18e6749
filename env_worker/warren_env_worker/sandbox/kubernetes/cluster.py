"""What a sandbox asks of the API server, by `kubectl`: the operator's own, which knows their cluster's ways to log in.

Invariants: nothing is asked without a deadline; all that can go wrong is `SandboxFailed` with what `kubectl` said;
it is told one configuration, never that of the user's home.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson
from pydantic import ValidationError

from warren.host_services.cells import SandboxFailed
from warren_broker.worker.credentials import harmless_variables
from warren_env_worker.sandbox.kubernetes.pod import CONTAINER, LABELS, START_S
from warren_env_worker.sandbox.kubernetes.status import Event, Pod, Pods
from warren_schemas.isolation.kubernetes import Kubernetes

MAX_EVENT_BYTES = 4 << 20
"""Of one line of a watch."""
_MAX_COMPLAINT_BYTES = 500
_DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Deadlines:
    start_s: float = START_S
    """Until a pod runs."""
    request_s: float = 20.0
    """Until an answer to a request."""
    end_s: float = 10.0
    """Until the API server knows of the end of a container."""


class Cluster:
    def __init__(self, place: Kubernetes, deadlines: Deadlines | None = None) -> None:
        """Raises `SandboxFailed`."""
        program = shutil.which("kubectl")
        if program is None:
            raise SandboxFailed("kubectl is not installed")
        self.deadlines = deadlines or Deadlines()
        self._path = f"/api/v1/namespaces/{place.namespace}/pods"
        self._kubectl = [program, "--kubeconfig", place.kubeconfig or os.devnull]
        self._namespace = place.namespace

    async def create(self, pod: Mapping[str, object]) -> None:
        """Raises `SandboxFailed`."""
        path = f"{self._path}?fieldValidation=Strict"
        await self._answer("create", "--raw", path, "-f", "-", sent=orjson.dumps(pod))

    async def delete(self, name: str) -> None:
        """One that is gone already is fine. Raises `SandboxFailed`."""
        try:
            await self._answer("delete", "--raw", f"{self._path}/{name}")
        except SandboxFailed as error:
            if "(NotFound)" not in str(error):
                raise

    async def left_behind(self) -> Sequence[Pod]:
        """All pods of sandboxes. Raises `SandboxFailed`."""
        labels = ",".join(f"{name}={value}" for name, value in LABELS.items())
        return await self._pods({"labelSelector": labels})

    async def found(self, name: str) -> Pod | None:
        """Raises `SandboxFailed`."""
        return next(iter(await self._pods({"fieldSelector": f"metadata.name={name}"})), None)

    async def running(self, name: str) -> None:
        """Return once the pod runs. Raises `SandboxFailed`, with what hinders it."""
        is_told = await self._reached(
            name, self.deadlines.start_s, lambda pod: pod.is_running or pod.is_hopeless
        )
        pod = is_told or await self.found(name)
        if pod is None or pod.is_hopeless or not pod.is_running:
            raise SandboxFailed(f"its pod does not run: {pod or 'it was deleted'}")

    async def ended(self, name: str) -> Pod | None:
        """What has become of a pod whose session has ended; None if it is gone. Raises `SandboxFailed`."""
        pod = await self.found(name)
        if pod is None or pod.has_ended:
            return pod
        return await self._reached(name, self.deadlines.end_s, lambda pod: pod.has_ended) or pod

    def attach(self, name: str) -> list[str]:
        """The command that is the input and output of the pod's container, until either ends."""
        named = ("--namespace", self._namespace, "--container", CONTAINER)
        return [*self._kubectl, "attach", "--stdin", "--quiet", *named, name]

    async def _reached(
        self, name: str, within_s: float, is_reached: Callable[[Pod], bool]
    ) -> Pod | None:
        """The pod in such a state; None if that takes longer, or the pod is deleted before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s), aclosing(self._states(name)) as states:
                async for pod in states:
                    if is_reached(pod):
                        return pod
        return None

    async def _pods(self, query: Mapping[str, str]) -> Sequence[Pod]:
        answer = await self._answer("get", "--raw", f"{self._path}?{urlencode(query)}")
        try:
            return Pods.model_validate_json(answer).items
        except ValidationError as error:
            raise SandboxFailed(f"the API server's list of pods can't be read: {error}") from error

    async def _states(self, name: str) -> AsyncGenerator[Pod]:
        """As they are told; it ends when the pod is deleted, or the API server wants no more of it."""
        query = urlencode({"watch": "1", "fieldSelector": f"metadata.name={name}"})
        async with self._started("get", "--raw", f"{self._path}?{query}") as process:
            assert process.stdout is not None
            async for line in process.stdout:
                event = _event(line)
                yield event.object
                if event.type == _DELETED:
                    return
            await _succeeded(process)

    async def _answer(self, *arguments: str, sent: bytes = b"") -> bytes:
        try:
            async with (
                asyncio.timeout(self.deadlines.request_s),
                self._started(*arguments) as process,
            ):
                answer, complaint = await process.communicate(sent)
                if process.returncode:
                    raise _failed(complaint)
                return answer
        except TimeoutError as error:
            verb = arguments[0]
            raise SandboxFailed(
                f"the API server does not answer within {self.deadlines.request_s:g} s ({verb})"
            ) from error

    @asynccontextmanager
    async def _started(self, *arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._kubectl, *arguments,
                stdin=pipe, stdout=pipe, stderr=pipe, env=variables(), limit=MAX_EVENT_BYTES, start_new_session=True,
            )  # fmt: skip
        except OSError as error:  # no memory, no descriptors, or it was replaced just now
            raise SandboxFailed(f"kubectl can't be started: {error}") from error
        try:
            yield process
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what helps it to log in
                await process.communicate()


def variables() -> dict[str, str]:
    """What `kubectl`, and the program by which it may log in, get of ours: no credential of Warren's."""
    return harmless_variables()


def _event(line: bytes) -> Event:
    try:
        return Event.model_validate_json(line)
    except ValidationError as error:
        told = line[:_MAX_COMPLAINT_BYTES].decode(errors="replace")
        raise SandboxFailed(f"the API server no longer tells of the pod: {told}") from error


async def _succeeded(process: asyncio.subprocess.Process) -> None:
    _, complaint = await process.communicate()
    if process.returncode:
        raise _failed(complaint)


def _failed(complaint: bytes) -> SandboxFailed:
    text = " ".join(complaint[-_MAX_COMPLAINT_BYTES:].decode(errors="replace").split())
    return SandboxFailed(f"kubectl: {text or 'it failed without a word'}")
