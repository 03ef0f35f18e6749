"""Copies of policies in the host's memory: whole, few, of this user, and never needed."""

import os
import shutil
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fsspec.implementations.memory import (  # pyright: ignore[reportMissingTypeStubs]
    MemoryFileSystem,
)
from tests.support.trainer import FULL, MODEL, apply_all, engine_for, opened, some_ops

from warren_gpu_worker.atomic_folder import SEAL, FolderUnreadable, delete_folder
from warren_gpu_worker.policy_copies import LocalCopies, find_copy
from warren_gpu_worker.weights import PolicyView, as_sampled, fetch_policy, write_policy
from warren_schemas.training import PublishPolicy


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A host's memory, where nobody else leaves anything."""
    folder = tmp_path / "memory"
    folder.mkdir()
    return folder


@pytest.fixture
def copies(memory: Path) -> Generator[LocalCopies]:
    copies = LocalCopies(memory)
    yield copies
    copies.close()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A place that is no disk of this host."""
    return f"memory://{tmp_path.name}/policies"


def policy(value: float, size: int = 4) -> PolicyView:
    return PolicyView("full", {"w": torch.full((size,), value)}, "{}")


def first_weight(url: str, memory: Path) -> float:
    return float(fetch_policy(url, memory).tensors["w"][0])


def test_a_copy_serves_where_the_store_is_away(
    copies: LocalCopies, store: str, memory: Path
) -> None:
    write_policy(policy(1.0), f"{store}/v1", copies)
    assert first_weight(f"{store}/v1", memory) == 1.0
    delete_folder(f"{store}/v1")
    assert first_weight(f"{store}/v1", memory) == 1.0


def test_the_newest_of_each_model_is_kept_and_the_store_has_the_others(
    copies: LocalCopies, store: str, memory: Path
) -> None:
    for version in (1, 2, 3):
        write_policy(policy(float(version)), f"{store}/v{version}", copies)
    write_policy(policy(7.0), f"{store}/../other/v1", copies)
    assert [find_copy(f"{store}/v{version}", memory) is not None for version in (1, 2, 3)] == [
        False, False, True,
    ]  # fmt: skip
    assert [first_weight(f"{store}/v{version}", memory) for version in (1, 2, 3)] == [1.0, 2.0, 3.0]
    copies.drop_copy(store)
    assert find_copy(f"{store}/v3", memory) is None
    assert find_copy(f"{store}/../other/v1", memory) is not None


def test_all_go_with_their_trainer(store: str, memory: Path) -> None:
    with closing(LocalCopies(memory)) as copies:
        write_policy(policy(1.0), f"{store}/v1", copies)
        assert list(memory.iterdir()) != []
    assert list(memory.iterdir()) == []


def test_a_policy_that_is_written_again_replaces_its_copy(
    copies: LocalCopies, store: str, memory: Path
) -> None:
    for value in (1.0, 2.0):
        write_policy(policy(value), f"{store}/v1", copies)
    delete_folder(f"{store}/v1")
    assert first_weight(f"{store}/v1", memory) == 2.0


def test_a_damaged_or_half_removed_copy_only_costs_the_way_to_the_store(
    copies: LocalCopies, store: str, memory: Path
) -> None:
    url = f"{store}/v1"
    write_policy(policy(1.0), url, copies)
    copy = find_copy(url, memory)
    assert copy is not None
    (copy / "model.safetensors").write_bytes(b"half")
    assert first_weight(url, memory) == 1.0
    (copy / "model.safetensors").unlink()
    assert first_weight(url, memory) == 1.0


def test_without_space_there_is_no_copy(
    copies: LocalCopies, store: str, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_policy(policy(0.0), f"{store}/v0", copies)

    def nearly_full(_: Path) -> SimpleNamespace:
        return SimpleNamespace(free=31)

    monkeypatch.setattr(shutil, "disk_usage", nearly_full)
    write_policy(policy(1.0), f"{store}/v1", copies)
    assert find_copy(f"{store}/v1", memory) is None
    assert first_weight(f"{store}/v1", memory) == 1.0


def test_a_store_that_fails_leaves_no_copy(
    copies: LocalCopies, store: str, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the store is full")

    with monkeypatch.context() as broken:
        broken.setattr(MemoryFileSystem, "put_file", refuse)
        with pytest.raises(OSError, match="the store is full"):
            write_policy(policy(1.0), f"{store}/v1", copies)
    assert find_copy(f"{store}/v1", memory) is None
    with pytest.raises(FolderUnreadable):
        fetch_policy(f"{store}/v1")


@pytest.fixture
def on_disk(tmp_path: Path, copies: LocalCopies) -> Path:
    """A policy on a disk of this host."""
    folder = tmp_path / "policies" / "v1"
    write_policy(policy(1.0), folder.as_uri(), copies)
    return folder


def test_on_a_disk_of_this_host_what_was_just_written_is_not_verified(
    on_disk: Path, memory: Path, tmp_path: Path
) -> None:
    """For it is found without its seal, by whoever sees the link alone."""
    link = find_copy(on_disk.as_uri(), memory)
    assert link is not None
    (on_disk / SEAL).unlink()
    (link / SEAL).unlink()
    assert first_weight(on_disk.as_uri(), memory) == 1.0
    with pytest.raises(FolderUnreadable):
        fetch_policy(on_disk.as_uri(), tmp_path)


def test_what_was_changed_since_it_was_linked_is_verified(on_disk: Path, memory: Path) -> None:
    (on_disk / "model.safetensors").write_bytes(b"half")
    with pytest.raises(FolderUnreadable, match="is damaged"):
        fetch_policy(on_disk.as_uri(), memory)


def test_what_is_gone_from_the_disk_is_not_there(on_disk: Path, memory: Path) -> None:
    delete_folder(on_disk.as_uri())
    with pytest.raises(FolderUnreadable, match="is not there"):
        fetch_policy(on_disk.as_uri(), memory)


def test_a_new_version_takes_the_links_place(
    on_disk: Path, memory: Path, copies: LocalCopies
) -> None:
    newer = (on_disk.parent / "v2").as_uri()
    write_policy(policy(2.0), newer, copies)
    assert find_copy(on_disk.as_uri(), memory) is None
    assert first_weight(newer, memory) == 2.0
    assert first_weight(on_disk.as_uri(), memory) == 1.0


def test_a_policy_has_the_type_that_is_sampled_with() -> None:
    given = policy(1.0)
    assert as_sampled(given, None) is given
    assert as_sampled(given, torch.bfloat16).tensors["w"].dtype is torch.bfloat16
    whole = PolicyView("full", {"ids": torch.arange(3)}, "{}")
    assert as_sampled(whole, torch.bfloat16).tensors["ids"].dtype is torch.int64
    adapter = PolicyView("lora", given.tensors, "{}")
    assert as_sampled(adapter, torch.bfloat16) is adapter


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
def test_what_another_user_left_is_not_read(copies: LocalCopies, store: str, memory: Path) -> None:
    write_policy(policy(1.0), f"{store}/v1", copies)
    copy = find_copy(f"{store}/v1", memory)
    assert copy is not None
    os.chown(copy.parent, 65534, 65534)
    assert find_copy(f"{store}/v1", memory) is None


def test_a_trainer_leaves_copies_until_it_closes_the_model(
    copies: LocalCopies, store: str, base_folder: Path
) -> None:
    engine = opened(engine_for(base_folder, store, copies=copies), FULL)
    apply_all(engine, [*some_ops(2), PublishPolicy()])
    (copied,) = copies._newest.values()  # pyright: ignore[reportPrivateUsage]
    assert (copied / "model.safetensors").exists()
    engine.close(MODEL)
    assert not copied.exists()
