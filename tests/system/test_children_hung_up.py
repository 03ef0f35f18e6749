"""A child whose supervisor hangs up before the child could say that it is ready: no traceback."""

import socket
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S

from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.host.call_status import SharedCallStatus
from warren_gpu_worker.settings import GpuWorkerSettings

"""Some have to import torch first."""
SETTINGS = GpuWorkerSettings(base_models={"mine": "/nowhere"}, device="cpu").model_dump_json()
HOST = "warren_env_worker.host.child_main"


@pytest.fixture
def front() -> Generator[int]:
    """What its episodes ask for host services over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield theirs.fileno()


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("warren_gpu_worker.trainer.child.main", [SETTINGS, "0", ""]),
        ("warren_gpu_worker.sampler.child.main", [SETTINGS, "mine"]),
        (HOST, ["warren_env_worker.environments.guess:Guess", ""]),
        (HOST, ["no_such_module:Guess", ""]),
        ("warren_env_worker.verifier.worker", []),
    ],
)
async def test_it_leaves_without_a_word(
    module: str, arguments: Sequence[str], front: int, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    if module == HOST:
        arguments = [*arguments, str(front)]
    child = await Child.spawn("child", module, arguments, log_path=log, descriptors=(front,))
    await child.close(grace_s=PATIENCE_S)
    assert "Traceback" not in log.read_text()


async def test_an_environments_process_leaves_without_ending_its_interpreter(front: int) -> None:
    """At that end, threads of libraries may abort it, which looked like a crash of the environment."""
    status = SharedCallStatus()
    arguments = ("tests.support.aborting:Aborting", status.path, str(front))
    child = await Child.spawn("child", HOST, arguments, descriptors=(front,))
    await child.receive()
    await child.close(grace_s=PATIENCE_S)
    status.close()
    with pytest.raises(ChildDied) as death:
        await child.receive()
    assert death.value.exit_code == 0
