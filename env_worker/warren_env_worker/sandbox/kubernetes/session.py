"""A session in a pod: `kubectl attach` is its process, as `podman run` is that of a container.

Invariants: a pod is deleted when its session is closed, also when it never began. Of an env worker that was killed, the
containers end with their connection, and whoever starts next deletes what is left of their pods. A session that ends because of the
cluster is `SandboxFailed`, never the doing of the cell that ran just then.
"""

import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren_env_worker.sandbox.containers import JOIN
from warren_env_worker.sandbox.kubernetes.cluster import Cluster, Deadlines, variables
from warren_env_worker.sandbox.kubernetes.pod import greeting, new_name, pod_of
from warren_env_worker.sandbox.kubernetes.status import Pod
from warren_env_worker.sandbox.plan import Plan
from warren_env_worker.sandbox.process import ProcessSandbox
from warren_schemas.isolation.kubernetes import Kubernetes

PENDING = timedelta(hours=1)
"""A pod that waits for longer, or of which nobody knows when it ended, has nobody any more."""
UNREAD = timedelta(minutes=1)
"""The worker of a pod that has ended reads why, and deletes it, within that time."""

log = logging.getLogger(__name__)


class KubernetesSandbox(ProcessSandbox):
    def __init__(
        self, place: Kubernetes, settings: SandboxSettings, deadlines: Deadlines | None = None
    ) -> None:
        """Raises `SandboxFailed` where there is no `kubectl`."""
        super().__init__("kubernetes", self._attached)
        self._place = place
        self._settings = settings
        self._cluster = Cluster(place, deadlines)
        self._name: str | None = None
        self._checks_network = False

    async def prepare_probe(self) -> None:
        """The session that begins next finds out whether its pod's network is closed. Raises `SandboxFailed`."""
        self._checks_network = True
        for pod in await self._cluster.left_behind():
            if _is_left_behind(pod):
                await self._deleted(pod.metadata.name)

    async def start(self) -> None:
        if self._child is not None:
            return
        self._name = new_name()
        try:
            await self._cluster.create(pod_of(self._name, self._place, self._settings))
            await self._cluster.running(self._name)
            await super().start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await super().close()
        name, self._name = self._name, None
        if name is not None:
            await self._deleted(name)

    async def _ended(self) -> None:
        assert self._name is not None
        pod = await self._cluster.ended(self._name)
        if pod is None:
            raise SandboxFailed("its pod was deleted")
        if not pod.was_ended_within:
            raise SandboxFailed(f"its pod, or the connection to it, has ended: {pod}")

    async def _deleted(self, name: str) -> None:
        try:
            await self._cluster.delete(name)
        except SandboxFailed as error:  # the container has ended with its input all the same
            log.warning("the pod %s is not deleted: %s", name, error)

    def _attached(self) -> Plan:
        assert self._name is not None
        attach = self._cluster.attach(self._name)
        return Plan(
            self.tier,
            lambda socket: _joined(socket, attach),
            (),
            variables=variables(),
            greeting=greeting(self._place, self._settings, checks_network=self._checks_network),
        )


def _joined(socket: int, command: Sequence[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", JOIN, str(socket), *command]


def _is_left_behind(pod: Pod) -> bool:
    now = datetime.now(UTC)
    if pod.ended_at is not None:
        return now - pod.ended_at > UNREAD
    return not pod.is_running and now - pod.metadata.creation_timestamp > PENDING
