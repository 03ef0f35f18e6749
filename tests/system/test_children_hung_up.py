"""A child whose supervisor hangs up before the child could say that it is ready: no traceback."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S

from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.host.call_status import SharedCallStatus
from warren_gpu_worker.settings import GpuWorkerSettings

"""Some have to import torch first."""
SETTINGS = GpuWorkerSettings(base_models={"mine": "/nowhere"}, device="cpu").model_dump_json()


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("warren_gpu_worker.trainer.child.main", [SETTINGS, "0", ""]),
        ("warren_gpu_worker.sampler.child.main", [SETTINGS, "mine"]),
        ("warren_env_worker.host.child_main", ["warren_env_worker.environments.guess:Guess", ""]),
        ("warren_env_worker.host.child_main", ["no_such_module:Guess", ""]),
        ("warren_env_worker.verifier.worker", []),
    ],
)
async def test_it_leaves_without_a_word(
    module: str, arguments: Sequence[str], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    child = await Child.spawn("child", module, arguments, log_path=log)
    await child.close(grace_s=PATIENCE_S)
    assert "Traceback" not in log.read_text()


async def test_an_environments_process_leaves_without_ending_its_interpreter() -> None:
    """At that end, threads of libraries may abort it, which looked like a crash of the environment."""
    status = SharedCallStatus()
    arguments = ("tests.support.aborting:Aborting", status.path)
    child = await Child.spawn("child", "warren_env_worker.host.child_main", arguments)
    await child.receive()
    await child.close(grace_s=PATIENCE_S)
    status.close()
    with pytest.raises(ChildDied) as death:
        await child.receive()
    assert death.value.exit_code == 0
