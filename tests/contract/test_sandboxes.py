"""What every sandbox owes, over each tier that can be had here: containers where Podman can run one."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator

import pytest
from tests.support.container_images import IMAGE, podman_with_image
from tests.support.patience import several_waits
from tests.support.serviced_environments import MARK, a_name, become, pids_called

from warren.host_services import CellStatus, SandboxFailed, SandboxLimits, SandboxSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox.opening import Sandboxes
from warren_env_worker.sandbox.port import Sandbox

pytestmark = [pytest.mark.slow, several_waits]

MINUTES = [pytest.mark.storm, pytest.mark.thorough]
TIERS = ("bubblewrap", "landlock", "monty", pytest.param("podman", marks=MINUTES))
LIMITS = {"memory_mib": 256, "output_bytes": 1000, "processes": 16}
HOLD = """
import asyncio, sys
from warren.host_services import SandboxSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox.opening import Sandboxes

async def main():
    sandboxes = Sandboxes(SandboxSettings.model_validate_json(sys.argv[1]), TRUSTED)
    sandbox = await sandboxes.open()
    await sandbox.run(sys.argv[2], 60.0)
    print("ready", flush=True)
    await sandbox.run("while True: pass", 5.0)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


@pytest.fixture(scope="module", params=TIERS)
def settings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[SandboxSettings]:
    tier: str = request.param
    if tier != "podman":
        yield SandboxSettings.model_validate({"tier": tier, "limits": LIMITS})
        return
    with podman_with_image(tmp_path_factory.mktemp("containers")):
        yield SandboxSettings.model_validate({"image": IMAGE, "limits": LIMITS})


@pytest.fixture
async def sandbox(settings: SandboxSettings) -> AsyncGenerator[Sandbox]:
    sandbox = await Sandboxes(settings, TRUSTED).open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def test_cells_share_variables_and_errors_are_shown(sandbox: Sandbox) -> None:
    assert sandbox.keeps_state
    assert (await sandbox.run("x = 6", 60.0)).output == ""
    result = await sandbox.run("print('so')\nx * 7", 60.0)
    assert (result.status, result.output) == (CellStatus.OK, "so\n42\n")
    failed = await sandbox.run("1 / 0", 60.0)
    assert failed.status is CellStatus.ERROR
    assert failed.output.endswith("division by zero\n")


async def test_a_cell_that_takes_too_long_is_stopped(sandbox: Sandbox) -> None:
    await sandbox.run("x = 42", 60.0)
    late = await sandbox.run("while True: pass", 1.0)
    assert late.status in (CellStatus.TIMEOUT, CellStatus.LOST)
    after = await sandbox.run("x", 60.0)
    assert ("42" in after.output) == (late.status is CellStatus.TIMEOUT)


async def test_it_has_no_network_and_writes_nothing_of_the_hosts(sandbox: Sandbox) -> None:
    for code in (
        "import socket; socket.create_connection(('127.0.0.1', 22), 5)",
        "import socket; socket.create_connection(('192.0.2.1', 80), 5)",
        "open('/usr/warren', 'w')",
        "open('/etc/shadow').read()",
    ):
        assert (await sandbox.run(code, 60.0)).status is CellStatus.ERROR, code


async def test_too_much_memory_or_output_is_no_harm(sandbox: Sandbox) -> None:
    heavy = await sandbox.run("x = [1] * (1 << 30)", 60.0)
    assert heavy.status in (CellStatus.ERROR, CellStatus.MEMORY, CellStatus.DIED, CellStatus.LOST)
    long = await sandbox.run("print('a' * 100000)", 60.0)
    assert len(long.output) < 1100
    assert (await sandbox.run("6 * 7", 60.0)).output == "42\n"


async def test_nothing_is_left_once_it_is_closed_or_its_owner_is_killed(
    settings: SandboxSettings,
) -> None:
    if settings.tier == "monty":
        pytest.skip("its cells can't be given a name, for they reach no system call")
    name = a_name()
    sandbox = await Sandboxes(settings, TRUSTED).open()
    await sandbox.run(MARK.format(name), 60.0)
    assert pids_called(name)
    await sandbox.close()
    await become(lambda: not pids_called(name))

    told = settings.model_dump_json(exclude_unset=True)
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, told, MARK.format(name), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline() == b"ready\n"
    assert pids_called(name)
    owner.kill()
    await owner.wait()
    await become(lambda: not pids_called(name))


async def test_what_can_not_be_had_is_told_before_a_cell_runs(settings: SandboxSettings) -> None:
    if settings.image is None:
        pytest.skip("of containers alone")
    missing = SandboxSettings(image="localhost/warren/none:1", limits=SandboxLimits())
    with pytest.raises(SandboxFailed, match=r"no sandbox works here .*podman: .*none:1"):
        await Sandboxes(missing, TRUSTED).open()
