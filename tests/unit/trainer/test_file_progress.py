# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false, reportPrivateImportUsage=false
"""Whoever waits for a trainer is told of every step over files, with its bytes, before it begins."""

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from fsspec.implementations.memory import (  # pyright: ignore[reportMissingTypeStubs]
    MemoryFileSystem,
)
from safetensors import TensorSpec
from safetensors import torch as tensor_files
from tests.support.trainer import BASE, FULL, MODEL, done
from transformers import AutoModelForCausalLM

from warren_gpu_worker.atomic_folder import open_folder, write_folder
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.training import LoadState, PublishPolicy, SaveState


def of_descriptor(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def of_stream(stream: BinaryIO, _: str) -> int:
    return os.fstat(stream.fileno()).st_size


def of_tensors(tensors: Mapping[str, TensorSpec], *_: object, **__: object) -> int:
    return sum(tensor.data_len for tensor in tensors.values())


def of_base(folder: str, *_: object, **__: object) -> int:
    return sum(file.stat().st_size for file in Path(folder).iterdir())


def of_upload(_: MemoryFileSystem, file: str, *__: object, **___: object) -> int:
    return os.stat(file).st_size


def of_download(store: MemoryFileSystem, file: str, *_: object, **__: object) -> int:
    return cast("int", store.size(file))  # pyright: ignore[reportUnknownMemberType]


SIDE_BY_SIDE = "hash"
"""Of several files at once, whose bytes are told together."""


class Steps:
    """Refuses a step whose bytes were not told since the last one; counts those that were."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.told_bytes: list[int] = []
        self.n: Counter[str] = Counter()

    def progress(self, size_bytes: int = 0, /) -> None:
        self.told_bytes.append(size_bytes)

    def watched(
        self, name: str, step: Callable[..., object], size_of: Callable[..., int]
    ) -> Callable[..., object]:
        def wrapper(*arguments: object, **more: object) -> object:
            size_bytes = size_of(*arguments, **more)
            with self._lock:
                told_bytes = sum(self.told_bytes)
                assert told_bytes >= size_bytes, f"{name} of {size_bytes} bytes, told {told_bytes}"
                self.told_bytes = [told_bytes - size_bytes] if name == SIDE_BY_SIDE else []
                self.n[name] += 1
            return step(*arguments, **more)

        return wrapper


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    watched = steps.watched
    monkeypatch.setattr(os, "fsync", watched("sync", os.fsync, of_descriptor))
    monkeypatch.setattr(
        hashlib, "file_digest", watched(SIDE_BY_SIDE, hashlib.file_digest, of_stream)
    )
    write, read = tensor_files.serialize_file, AutoModelForCausalLM.from_pretrained
    monkeypatch.setattr(tensor_files, "serialize_file", watched("write", write, of_tensors))
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", watched("read a base", read, of_base)
    )
    upload, download = MemoryFileSystem.put_file, MemoryFileSystem.get_file
    monkeypatch.setattr(MemoryFileSystem, "put_file", watched("upload", upload, of_upload))
    monkeypatch.setattr(MemoryFileSystem, "get_file", watched("download", download, of_download))
    return steps


def all_steps(engine: Engine) -> None:
    done(engine.open(MODEL, FULL, checkpoint_url=None, next_op=1))
    saved = done(engine.apply(MODEL, 1, SaveState(name="it"))).checkpoint_url
    assert saved is not None
    done(engine.apply(MODEL, 2, PublishPolicy()))
    done(engine.apply(MODEL, 3, LoadState(url=saved)))
    done(engine.open(MODEL, FULL, checkpoint_url=saved, next_op=2))


def test_on_a_disk(base_folder: Path, tmp_path: Path, steps: Steps) -> None:
    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path))
    all_steps(Engine(config, steps.progress))
    assert steps.n == {"read a base": 2, "write": 3, "hash": 4 + 2 + 4 + 4, "sync": 7}


def test_in_a_store(base_folder: Path, tmp_path: Path, steps: Steps) -> None:
    config = EngineConfig({BASE: str(base_folder)}, f"memory://{tmp_path.name}")
    all_steps(Engine(config, steps.progress))
    moved = {"upload": 5 + 3, "download": 5 + 5}
    assert steps.n == {"read a base": 2, "write": 3, "hash": 4 + 2 + 4 + 4, **moved}


def test_every_piece_of_a_large_file_is_told_on_its_way_to_a_store_and_back(tmp_path: Path) -> None:
    """However slow the line is, then, what moves is seen to."""
    pieces = 4
    content = bytes(pieces * MemoryFileSystem.blocksize)
    url, told = f"memory://{tmp_path.name}/large", Steps()
    write_folder(url, lambda folder: (folder / "it").write_bytes(content), progress=told.progress)
    assert len(told.told_bytes) >= pieces
    told.told_bytes.clear()
    with open_folder(url, told.progress) as folder:
        assert (folder / "it").read_bytes() == content
    assert len(told.told_bytes) >= pieces
