"""Where ranks meet: at one address, and nobody else can come."""

import socket
from pathlib import Path

import pytest
from tests.support.processes import free_port

from warren_gpu_worker.base_models.fingerprint import fingerprint
from warren_gpu_worker.machines.network import address_towards, interface_of
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.launching.rendezvous import (
    Place,
    RendezvousAddress,
    host_rendezvous,
    join_rendezvous,
)


def _settings(**fields: object) -> GpuWorkerSettings:
    return GpuWorkerSettings.model_validate({"base_models": {"tiny": "/nowhere"}, **fields})


def test_ranks_of_one_machine_meet_on_loopback_alone() -> None:
    store, address = host_rendezvous(_settings(devices=2))
    store.set("first", "1")
    assert address.joined().get("first") == b"1"
    assert address_towards(address.host, address.port) == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError), socket.socket() as stranger:
        stranger.connect(("127.0.0.2", address.port))


def test_machines_meet_where_they_are_told_to() -> None:
    port = free_port()
    settings = _settings(machines=2, rendezvous=f"127.0.0.3:{port}")
    store, address = host_rendezvous(settings)
    store.set("last words", "none")
    joined, again = join_rendezvous(settings.model_copy(update={"join": True}))
    assert joined.get("last words") == b"none"
    assert again == address == RendezvousAddress("127.0.0.3", port)


def test_an_address_of_ipv6_is_told_from_its_port() -> None:
    assert _settings(machines=2, rendezvous="[fd00::1]:29400").rendezvous_address == (
        "fd00::1",
        29400,
    )


def test_whichever_machine_torchrun_counts_first_the_ranks_of_the_one_with_a_broker_come_first() -> (
    None
):
    places = [Place(rank, 4, rank % 2, 2) for rank in range(4)]
    assert [place.numbered_from(0) for place in places] == [0, 1, 2, 3]
    assert [place.numbered_from(2) for place in places] == [2, 3, 0, 1]


def test_an_interface_is_found_by_its_address() -> None:
    assert interface_of("127.0.0.1") == interface_of("127.0.0.2") == "lo"
    assert interface_of("192.0.2.1") is None, "of documentation, so of nobody"


def test_settings_are_those_of_the_first_machine_and_folders_are_ones_own() -> None:
    first = _settings(machines=2, rendezvous="a:1", micro_batch_tokens=7, checkpoint_url="/shared")
    own = _settings(machines=2, rendezvous="a:1", base_models={"tiny": "/elsewhere"}, join=True)
    told = first.with_own(own)
    assert (told.micro_batch_tokens, told.checkpoint_url) == (7, "/shared")
    assert told.base_models == {"tiny": "/elsewhere"}


def test_a_base_model_is_known_by_its_weights(tmp_path: Path) -> None:
    def folder(name: str, weights: bytes) -> str:
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text("{}")
        (path / "model.safetensors").write_bytes(weights)
        return str(path)

    zeros = bytes(3 << 20)
    one, same = folder("one", zeros), folder("same", zeros)
    other, longer = folder("other", zeros[:-1] + b"1"), folder("longer", zeros + b"0")
    assert fingerprint(one) == fingerprint(same)
    assert len({fingerprint(path) for path in (one, other, longer)}) == 3
