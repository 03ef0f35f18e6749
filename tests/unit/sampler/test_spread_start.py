"""A sampler's child on several machines that can't start: a machine that is gone is no fault of the model's."""

from collections.abc import Generator
from pathlib import Path
from socket import socket

import pytest
from tests.support.machines import Others, abort, leave, raw_machine, spread_settings
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.device_faults import Fault
from warren_gpu_worker.sampler.child.machines import why_not_started
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Gathered, MachineLost, gather
from warren_gpu_worker.sampler.messages import Broken, DeviceFailed
from warren_gpu_worker.settings import GpuWorkerSettings

OF_VLLM = ValueError("vLLM did not start: Connection closed by peer")


@pytest.fixture(autouse=True)
def own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen for vLLM's network is gone afterwards."""
    for name in ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def settings(tmp_path: Path) -> GpuWorkerSettings:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return spread_settings(tmp_path)


@pytest.fixture
def others() -> Generator[Others]:
    machines = Others()
    yield machines
    machines.close()


def gathered_with(others: Others, settings: GpuWorkerSettings) -> tuple[Gathered, Gathered]:
    """The first machine and the one that has joined it."""
    joining = others.join(settings)
    return gather(settings, lambda _: None), joining.result(PATIENCE_S)


def test_an_error_of_vllm_after_which_a_machine_is_gone_is_the_loss_of_that_machine(
    settings: GpuWorkerSettings, others: Others
) -> None:
    first, other = gathered_with(others, settings)
    leave(other)
    word = why_not_started(OF_VLLM, first, within_s=PATIENCE_S)
    leave(first)
    assert isinstance(word, DeviceFailed)
    assert word.fault.kind is Fault.MACHINE_LOST
    assert word.fault.details == f"127.0.0.1: it has left; here {OF_VLLM}"


def test_an_error_while_all_machines_are_there_is_one_of_the_model(
    settings: GpuWorkerSettings, others: Others
) -> None:
    first, _ = gathered_with(others, settings)
    assert why_not_started(OF_VLLM, first, within_s=0.0) == Broken(str(OF_VLLM))
    leave(first)
    assert why_not_started(OF_VLLM, None) == Broken(str(OF_VLLM))


def test_a_machine_that_leaves_before_it_is_told_its_place_is_lost(
    settings: GpuWorkerSettings,
) -> None:
    def note(n_missing: int) -> None:
        if n_missing:
            joined.append(raw_machine(settings))
        else:
            abort(joined.pop())

    joined = list[socket]()
    with pytest.raises(MachineLost) as lost:
        gather(settings, note)
    word = why_not_started(lost.value, None)
    assert isinstance(word, DeviceFailed)
    assert word.fault.kind is Fault.MACHINE_LOST
