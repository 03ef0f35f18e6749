"""Sandboxes in pods: the real `kubectl`, before an API server of ours whose node is this machine."""

import asyncio
import contextlib
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fake_kubernetes import Fake
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.serviced_environments import MARK, become, pids_called

from warren.host_services import CellResult, CellStatus, SandboxFailed, SandboxSettings
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.sandbox.kubernetes.cluster import Deadlines
from warren_env_worker.sandbox.kubernetes.pod import program
from warren_env_worker.sandbox.kubernetes.session import KubernetesSandbox
from warren_env_worker.sandbox.opening import Sandboxes
from warren_schemas.isolation.kubernetes import Kubernetes

pytestmark = several_waits

SETTINGS = SandboxSettings.model_validate(
    {"image": "python:3.12", "tier": "kubernetes", "limits": {"memory_mib": 256, "disk_mib": 8}}
)
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
HOLD = """
import asyncio, sys
from warren.host_services import SandboxSettings
from warren_env_worker.sandbox.kubernetes.session import KubernetesSandbox
from warren_schemas.isolation.kubernetes import Kubernetes

async def main():
    place, settings = Kubernetes.model_validate_json(sys.argv[1]), SandboxSettings(image="python:3.12")
    sandbox = KubernetesSandbox(place, settings)
    await sandbox.start()
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


def sandboxes(place: Kubernetes | None) -> Sandboxes:
    return Sandboxes(SETTINGS, Permissions(is_trusted=True, kubernetes=place))


async def busy(sandbox: KubernetesSandbox, name: str) -> asyncio.Task[CellResult]:
    """A cell that has begun and does not end."""
    cell = asyncio.create_task(sandbox.run(f"{MARK.format(name)}\nwhile True: pass", 300.0))
    await become(lambda: bool(pids_called(name)))
    return cell


async def test_a_session_is_a_pod_and_goes_with_it(fake: Fake) -> None:
    cluster, place = fake
    opened = sandboxes(place)
    sandbox = await opened.open()
    assert sandbox.tier == "kubernetes"
    assert (await opened.run(sandbox, "x = 6")).status is CellStatus.OK
    assert (await opened.run(sandbox, "print('so')\nx * 7")).output == "so\n42\n"
    full = await opened.run(sandbox, "open('/tmp/a', 'wb').write(b'a' * (9 << 20))")
    assert full.status is CellStatus.ERROR
    late = await opened.run(sandbox, "while True: pass", 0.5)
    assert late.status is CellStatus.TIMEOUT
    assert (await opened.run(sandbox, "x")).output == "6\n"
    assert len(cluster.created) == 2, "of the probe and of the session"
    await sandbox.close()
    assert cluster.pods == {}


async def test_a_network_that_is_open_is_found_out(fake: Fake) -> None:
    cluster, place = fake
    cluster.has_open_network = True
    with pytest.raises(SandboxFailed, match=r"kubernetes: .*no NetworkPolicy denies its traffic"):
        await sandboxes(place).open()
    assert cluster.pods == {}


async def test_a_container_to_which_nobody_comes_ends_itself_although_it_is_process_1() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    pipe = asyncio.subprocess.PIPE
    container = await asyncio.create_subprocess_exec(
        *("bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--as-pid-1", "--die-with-parent"),
        *("--", sys.executable, "-S", "-c", program(0.1)),
        stdin=pipe, stderr=pipe,
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE_S):
            assert await container.wait() == 1
        assert container.stderr is not None
        assert await container.stderr.read() == b"", "it is no error of its own that ended it"
    finally:
        with contextlib.suppress(ProcessLookupError):
            container.kill()


async def test_without_a_namespace_or_kubectl_there_is_no_such_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SandboxFailed, match=r"kubernetes: .*kubernetes\.namespace"):
        await sandboxes(None).open()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxFailed, match="kubernetes: kubectl is not installed"):
        await sandboxes(Kubernetes(namespace="sandboxes")).open()


async def test_a_kubectl_that_can_not_be_started_is_a_failure_of_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/nowhere/sh\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxFailed, match="kubernetes: kubectl can't be started: "):
        await sandboxes(Kubernetes(namespace="sandboxes")).open()


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImageNeverPull", "the image is not present"),
        ("CreateContainerConfigError", "container has runAsNonRoot"),
    ],
)
async def test_a_pod_that_will_never_run_is_told_at_once(
    fake: Fake, reason: str, message: str
) -> None:
    cluster, place = fake
    waiting = {"state": {"waiting": {"reason": reason, "message": message}}}
    cluster.hindrance = {"phase": "Pending", "containerStatuses": [waiting]}
    with pytest.raises(SandboxFailed, match=f"it is Pending; {reason}: {message}"):
        await KubernetesSandbox(place, SETTINGS).start()
    assert cluster.pods == {}


async def test_a_pod_that_finds_no_node_is_given_up(fake: Fake) -> None:
    cluster, place = fake
    cluster.hindrance = {"phase": "Pending", "conditions": [UNSCHEDULED | {"message": "0/3 nodes"}]}
    sandbox = KubernetesSandbox(place, SETTINGS, Deadlines(start_s=0.1))
    with pytest.raises(
        SandboxFailed, match="does not run: it is Pending; Unschedulable: 0/3 nodes"
    ):
        await sandbox.start()
    assert cluster.pods == {}


async def test_an_api_server_that_refuses_is_quoted(fake: Fake) -> None:
    cluster, place = fake
    cluster.refusal = (403, "Forbidden")
    with pytest.raises(SandboxFailed, match=r"kubernetes: kubectl: .*\(Forbidden\)"):
        await sandboxes(place).open()


async def test_an_api_server_that_is_silent_or_away_is_a_failure(fake: Fake) -> None:
    cluster, place = fake
    cluster.is_silent = True
    with pytest.raises(SandboxFailed, match=r"does not answer within 0.2 s \(create\)"):
        await KubernetesSandbox(place, SETTINGS, Deadlines(request_s=0.2)).start()
    await cluster.stop()
    with pytest.raises(SandboxFailed, match=r"kubectl: .*refused"):
        await KubernetesSandbox(place, SETTINGS).start()


async def test_a_pod_that_is_evicted_during_a_cell_is_no_fault_of_the_cell(fake: Fake) -> None:
    cluster, place = fake
    sandbox = KubernetesSandbox(place, SETTINGS)
    cell = await busy(sandbox, "k-evicted")
    cluster.pod.end(reason="Evicted", message="The node was low on resource: memory.")
    with pytest.raises(SandboxFailed, match=r"it is Failed; Evicted: The node was low on"):
        await cell
    assert cluster.pods == {}
    assert (await sandbox.run("6 * 7", 60.0)).output == "42\n"
    await sandbox.close()


async def test_a_cell_that_takes_its_pods_memory_loses_the_session(fake: Fake) -> None:
    cluster, place = fake
    sandbox = KubernetesSandbox(place, SETTINGS)
    cell = await busy(sandbox, "k-memory")
    cluster.pod.end(terminated={"reason": "OOMKilled", "exitCode": 137})
    assert (await cell).status is CellStatus.LOST
    assert (await sandbox.run("6 * 7", 60.0)).output == "42\n"
    await sandbox.close()


async def test_a_connection_that_breaks_ends_the_pod_and_is_no_fault_of_the_cell(
    fake: Fake,
) -> None:
    cluster, place = fake
    sandbox = KubernetesSandbox(place, SETTINGS, Deadlines(end_s=0.1))
    cell = await busy(sandbox, "k-cut-off")
    cluster.pod.cut_off()
    with pytest.raises(SandboxFailed, match="the connection to it, has ended"):
        await cell
    await become(lambda: not pids_called("k-cut-off"))
    await sandbox.start()
    cluster.refusal = (503, "ServiceUnavailable")
    cluster.pod.cut_off()
    with pytest.raises(SandboxFailed, match="ServiceUnavailable"):
        await sandbox.run("6 * 7", 60.0)


async def test_a_pod_that_somebody_deletes_is_told_as_that(fake: Fake) -> None:
    cluster, place = fake
    sandbox = KubernetesSandbox(place, SETTINGS)
    cell = await busy(sandbox, "k-deleted")
    pod = cluster.pods.pop(cluster.pod.name)
    pod.end()
    with pytest.raises(SandboxFailed, match="its pod was deleted"):
        await cell


async def test_of_a_worker_that_is_killed_nothing_runs_on_and_the_next_one_tidies_up(
    fake: Fake,
) -> None:
    cluster, place = fake
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, place.model_dump_json(), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout is not None
    assert await worker.stdout.readline() == b"ready\n"
    left = cluster.pod
    assert not left.has_ended
    worker.kill()
    await worker.wait()
    await become(lambda: left.has_ended)
    running = KubernetesSandbox(place, SETTINGS)
    await running.start()
    await KubernetesSandbox(place, SETTINGS).prepare_probe()
    assert left.name not in cluster.pods
    assert not cluster.pod.has_ended, "that of a worker that lives"
    await running.close()


async def test_a_pod_that_has_just_ended_is_left_to_its_worker_which_may_not_have_read_why(
    fake: Fake,
) -> None:
    cluster, place = fake
    sandbox = KubernetesSandbox(place, SETTINGS)
    await sandbox.start()
    soon = datetime.now(UTC) + timedelta(hours=1)  # a node's clock may be ahead
    cluster.pod.end(reason="Evicted", terminated={"exitCode": 137, "finishedAt": soon.isoformat()})
    await become(lambda: cluster.pod.has_ended)
    await KubernetesSandbox(place, SETTINGS).prepare_probe()
    with pytest.raises(SandboxFailed, match="it is Failed; Evicted"):
        await sandbox.run("6 * 7", 60.0)
    assert cluster.pods == {}
