"""Machines over which vLLM is spread: they find each other, agree, and notice when one is gone."""

import socket
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path

import pytest
from tests.support.machines import BASE, Others, leave, raw_machine, spread_settings
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.machines.connections import read_line
from warren_gpu_worker.sampler.engines.vllm.rendezvous import (
    Gathered,
    Hello,
    Refused,
    gather,
    own_hello,
)


@pytest.fixture(autouse=True)
def own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen for vLLM's network is gone afterwards."""
    for name in ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return model_in(tmp_path / "model", b"weights")


@pytest.fixture
def others() -> Generator[Others]:
    machines = Others()
    yield machines
    machines.close()


def model_in(folder: Path, weights: bytes) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def unheard(n_missing: int) -> None:
    pass


def test_each_is_told_its_place_and_the_settings_of_the_first(
    folder: Path, tmp_path: Path, others: Others
) -> None:
    settings, missing = spread_settings(folder, 3, max_batch=7), list[int]()
    elsewhere = model_in(tmp_path / "elsewhere", b"weights")
    own = settings.model_copy(update={"base_models": {BASE: str(elsewhere)}, "max_batch": 9})
    joining = [others.join(own), others.join(own)]
    first = gather(settings, missing.append)
    joined = [one.result(PATIENCE_S) for one in joining]
    assert missing == [2, 1, 0]
    assert {one.place.node_rank for one in joined} == {1, 2}
    assert first.place.node_rank == 0
    for one in joined:
        assert one.place.model_copy(update={"node_rank": 0}) == first.place
        assert one.settings.max_batch == 7
        assert one.settings.base_models == {BASE: str(elsewhere)}
        assert one.settings.seed == first.settings.seed is not None
    assert (first.place.nnodes, first.place.master_addr) == (3, "127.0.0.1")
    leave(first)


def test_one_with_other_weights_is_told_why_and_the_first_waits_for_another(
    folder: Path, tmp_path: Path, others: Others
) -> None:
    settings, missing = spread_settings(folder), list[int]()
    wrong = {BASE: str(model_in(tmp_path / "wrong", b"others"))}
    stranger = others.join(settings.model_copy(update={"base_models": wrong}))
    another: Future[Future[Gathered]] = Future()
    stranger.add_done_callback(lambda _: another.set_result(others.join(settings)))
    first = gather(settings, missing.append)
    another.result(PATIENCE_S).result(PATIENCE_S)
    with pytest.raises(Refused, match="base model base is another one on a machine that joins"):
        stranger.result(PATIENCE_S)
    assert missing == [1, 0]
    leave(first)


def with_other_version(hello: Hello) -> str:
    return hello.model_copy(update={"warren": "0.0.1"}).model_dump_json()


def without_version(hello: Hello) -> str:
    return hello.model_dump_json(exclude={"warren"})


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (with_other_version, "and 0.0.1 on a machine that joins; install the same version of War"),
        (without_version, "and what came here is not of that version; install the same version"),
    ],
)
def test_one_with_another_version_of_warren_is_told_so(
    folder: Path, others: Others, say: Callable[[Hello], str], why: str
) -> None:
    settings, refused = spread_settings(folder), list[socket.socket]()

    def note(n_missing: int) -> None:
        if n_missing and not refused:
            refused.append(raw_machine(settings, say(own_hello(settings))))
            others.join(settings)

    first = gather(settings, note)
    assert why in read_line(refused[0]).decode()
    refused[0].close()
    leave(first)


def test_a_first_machine_that_says_what_this_version_can_not_read_is_told_so(
    folder: Path, others: Others
) -> None:
    settings = spread_settings(folder)
    address = settings.rendezvous_address
    assert address is not None
    with socket.create_server(address) as door:
        joining = others.join(settings)
        connection, _ = door.accept()
        with connection:
            read_line(connection)
            connection.sendall(b'{"settings": {"of a later version": 1}}\n')
            with pytest.raises(Refused, match=r"can't be read by Warren .* install the same vers"):
                joining.result(PATIENCE_S)


def test_whoever_left_before_all_were_there_is_not_counted_and_only_changes_are_told(
    folder: Path, others: Others
) -> None:
    settings, seen, left = spread_settings(folder, 3), list[int](), list[socket.socket]()

    def note(n_missing: int) -> None:
        seen.append(n_missing)
        match len(seen):
            case 1:
                raw_machine(settings, "GET / HTTP/1.1").close()
                left.append(raw_machine(settings))
            case 2:
                left.pop().close()
            case 3:
                others.join(settings)
                others.join(settings)
            case _:
                pass

    first = gather(settings, note)
    assert seen == [2, 1, 2, 1, 0]
    leave(first)


def test_each_learns_that_another_is_gone(folder: Path, others: Others) -> None:
    settings = spread_settings(folder)
    joining = others.join(settings)
    first, other = gather(settings, unheard), joining.result(PATIENCE_S)
    here: Future[str] = Future()
    there: Future[str] = Future()
    first.watch(here.set_result)
    other.watch(there.set_result)
    (connection,) = other.others
    connection.shutdown(socket.SHUT_WR)
    assert here.result(PATIENCE_S) == "127.0.0.1: it has left"
    leave(first)
    assert there.result(PATIENCE_S) == "127.0.0.1: it has left"


def test_an_address_of_another_machine_is_told(folder: Path) -> None:
    settings = spread_settings(folder, rendezvous="192.0.2.1:29400")
    with pytest.raises(
        ValueError, match=r"no rendezvous at 192.0.2.1:29400: .* an address of this"
    ):
        gather(settings, unheard)
