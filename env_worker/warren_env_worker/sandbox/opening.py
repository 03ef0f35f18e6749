"""Chooses a tier by what this host allows, and logs it.

Invariants: a tier counts as working when a cell has run in it and found itself isolated; a tier
that was asked for by name is never replaced by another; and there is no tier without isolation.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from yarl import URL

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.sandbox import bubblewrap, containers, landlock
from warren_env_worker.sandbox.allowance import allowance
from warren_env_worker.sandbox.container_session import ContainerSandbox
from warren_env_worker.sandbox.interpreter import MontySandbox
from warren_env_worker.sandbox.kubernetes import pod
from warren_env_worker.sandbox.kubernetes.session import KubernetesSandbox
from warren_env_worker.sandbox.max_limits import allowed
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.process import ProcessSandbox
from warren_env_worker.sandbox.remote import RemoteSandbox, run_code_url
from warren_env_worker.sandbox.spares import Spares, Waiting
from warren_schemas.isolation.kubernetes import Kubernetes

AUTOMATIC = ("bubblewrap", "landlock", "monty")
"""In the order in which they are tried, for settings without an image."""
AUTOMATIC_WITH_IMAGE = (*containers.ENGINES, "kubernetes")
PROBE_S = 30.0
PROBE = """
import os, socket
def closed(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
print(closed(open, "/etc/hostname"), closed(os.listdir, "/home"), closed(open, "/usr/x", "w"),
    closed(socket.socket, socket.AF_INET), closed(socket.socket, socket.AF_NETLINK))
"""
CLOSED = "True True True True True\n"

log = logging.getLogger(__name__)


class Startable(Waiting, Protocol):
    async def start(self) -> None:
        """Start the session now and not with its first cell. Raises `SandboxFailed`."""
        ...


Makers = Mapping[str, Callable[[SandboxSettings], Startable]]


def _maker(
    settings: SandboxSettings, permissions: Permissions, makers: Makers
) -> Callable[[str], Startable]:
    """From a tier to a sandbox that was not started; what the settings name is checked before."""
    if settings.image is not None:
        permissions.require_image(settings.image)
    elif settings.python is not None:
        permissions.require_python(settings.python)
    if settings.libraries is not None:
        permissions.require_libraries(settings.libraries)
    service = settings.url and permissions.service(
        run_code_url(settings.url), settings.key_variable
    )

    def make(tier: str) -> Startable:
        if service:
            return RemoteSandbox(service, settings.limits)
        if tier == "kubernetes":
            return _in_cluster(permissions.kubernetes, settings)
        return makers[tier](settings)

    return make


def _in_cluster(place: Kubernetes | None, settings: SandboxSettings) -> Startable:
    """Raises `SandboxFailed`."""
    if place is None:
        raise SandboxFailed("the operator's policy names no namespace (kubernetes.namespace)")
    return KubernetesSandbox(place, settings)


MAKERS: Makers = {
    "bubblewrap": lambda settings: ProcessSandbox("bubblewrap", lambda: bubblewrap.plan(settings)),
    "landlock": lambda settings: ProcessSandbox("landlock", lambda: landlock.plan(settings)),
    "monty": MontySandbox,
    "podman": lambda settings: ContainerSandbox("podman", settings),
    "docker": lambda settings: ContainerSandbox("docker", settings),
}
"""Of the tiers on this machine."""


class Sandboxes:
    """Opens sandboxes of one kind, for one event loop; the tier is chosen once."""

    def __init__(
        self,
        settings: SandboxSettings,
        permissions: Permissions,
        makers: Makers = MAKERS,
        spares: Spares | None = None,
    ) -> None:
        """`permissions` are those of the config from which the settings come; `makers` has one for each tier; `spares` keeps
        started ones, None for none.

        Raises `ConfigError` for settings that name what may not be reached, or ask for more than allowed.
        """
        self.settings = allowed(settings, permissions)
        """Those that hold: limits that the config leaves open may be lower by the operator's policy."""
        self._make = _maker(self.settings, permissions, makers)
        self._choosing = asyncio.Lock()
        self._service = str(URL(settings.url).origin()) if settings.url else None
        self._tier: str | None = None
        self._spares = spares or Spares(0)

    async def open(self) -> Sandbox:
        """A started session. Raises `SandboxFailed`, with what each tier lacks here."""
        async with self._choosing:
            if self._tier is None:
                self._tier = await self._chosen()
        sandbox = self._spares.take(self) or await self._started()
        if sandbox.keeps_state:  # what keeps none has nothing to start
            self._spares.order(self, self._started)
        return sandbox

    async def _started(self) -> Startable:
        """Of the tier that was chosen."""
        assert self._tier is not None
        sandbox = self._make(self._tier)
        async with allowance().starting(self._place(self._tier)):
            await sandbox.start()
        return sandbox

    async def run(self, sandbox: Sandbox, code: str, limit_s: float | None = None) -> CellResult:
        """Run a cell when its turn comes: its time limit should not be used up by others.

        `limit_s` is that of the settings unless given. Raises `SandboxFailed`.
        """
        async with allowance().running(self._place(self._tier)):
            return await sandbox.run(code, limit_s or self.settings.limits.cell_s)

    def _place(self, tier: str | None) -> str | None:
        """The cluster or service where such a sandbox works; None: here."""
        return tier if tier == "kubernetes" else self._service

    async def _chosen(self) -> str:
        asked = self.settings.tier
        automatic = AUTOMATIC if self.settings.image is None else AUTOMATIC_WITH_IMAGE
        lacks: list[str] = []
        for tier in automatic if asked == "auto" else (asked,):
            try:
                async with allowance().starting(self._place(tier)):
                    await _probe(self._make(tier), self.settings)
            except SandboxFailed as error:
                lacks.append(f"{tier}: {error}")
            else:
                log.info("code runs in the sandbox tier %s%s", tier, _because(lacks))
                return tier
        raise SandboxFailed(f"no sandbox works here ({'; '.join(lacks)})")


async def _probe(sandbox: Startable, settings: SandboxSettings) -> None:
    if not isinstance(sandbox, ProcessSandbox):
        await sandbox.start()
        return await sandbox.close()
    try:
        if isinstance(sandbox, KubernetesSandbox):
            await sandbox.prepare_probe()
        result = await sandbox.run(_probe_of(sandbox, settings), PROBE_S)
    finally:
        await sandbox.close()
    if result.status in (CellStatus.MEMORY, CellStatus.LOST):
        raise SandboxFailed(
            f"the interpreter does not live through its first cell ({result.status}); memory_mib:"
            f" {settings.limits.memory_mib} may be too little for it"
        )
    if (result.status, result.output) != (CellStatus.OK, CLOSED):
        raise SandboxFailed(f"it is not isolated: {result.status} {result.output[-200:]}")


def _probe_of(sandbox: ProcessSandbox, settings: SandboxSettings) -> str:
    if isinstance(sandbox, KubernetesSandbox):
        return pod.PROBE
    return PROBE if settings.image is None else containers.PROBE


def _because(lacks: list[str]) -> str:
    return f" ({'; '.join(lacks)})" if lacks else ""
