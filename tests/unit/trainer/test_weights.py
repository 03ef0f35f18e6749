"""Policies and sealed folders: whole or not there, on any fsspec URL, for any tool."""

import os
from pathlib import Path

import pytest
import torch
from fsspec.implementations.memory import (  # pyright: ignore[reportMissingTypeStubs]
    MemoryFileSystem,
)
from peft import PeftModel
from tests.support.sealed_folders import url, write_text
from tests.support.trainer import (
    LORA,
    MODEL,
    apply_all,
    digest,
    engine_for,
    failed,
    opened,
    some_ops,
)
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.atomic_folder import (
    FolderUnreadable,
    delete_folder,
    list_folders,
    open_folder,
    sweep,
    write_folder,
)
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.weights import fetch_policy, save_policy
from warren_schemas.training import PublishPolicy

__all__ = ["url"]

IDS = torch.arange(3, 20)[None]


def logits_of(model: PreTrainedModel | PeftModel) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


def read_text(url: str) -> str:
    with open_folder(url) as folder:
        return (folder / "text").read_text()


@pytest.mark.parametrize("tied", [True, False])
def test_full_weights_load_with_transformers(tmp_path: Path, tied: bool) -> None:
    config = Qwen3Config(
        vocab_size=56,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=48,
        tie_word_embeddings=tied,
    )
    model = Qwen3ForCausalLM(config).eval()
    size_bytes = save_policy(model, str(tmp_path / "v1"))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "v1")  # pyright: ignore[reportUnknownMemberType]
    assert torch.equal(logits_of(loaded), logits_of(model))
    policy = fetch_policy(str(tmp_path / "v1"))
    assert policy.kind == "full"
    assert policy.adapter_config is None
    assert ("lm_head.weight" in policy.tensors) is not tied
    n_bytes = sum(tensor.nbytes for tensor in policy.tensors.values())
    assert n_bytes < size_bytes < n_bytes + 8000


def test_an_adapter_loads_with_peft(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    apply_all(engine, [*some_ops(6), PublishPolicy()])
    (folder,) = (tmp_path / MODEL / "policies").iterdir()
    model = engine._entries[MODEL].model  # pyright: ignore[reportPrivateUsage]
    base = load_base(str(base_folder))
    plain = logits_of(base)
    adapted = PeftModel.from_pretrained(base, str(folder))  # pyright: ignore[reportUnknownMemberType]
    assert torch.equal(logits_of(adapted), logits_of(model.network.causal))
    assert not torch.equal(logits_of(adapted), plain)
    policy = fetch_policy(str(folder))
    assert policy.kind == "lora"
    assert digest(policy.tensors[name] for name in model.parameters) == digest(
        model.parameters.values()
    )
    assert policy.adapter_config is not None
    assert policy.adapter_config["r"] == 4
    assert policy.adapter_config["base_model_name_or_path"] == LORA.base_model


def test_a_folder_is_written_read_replaced_and_deleted(url: str) -> None:
    with pytest.raises(FolderUnreadable, match="is not there"):
        read_text(url)
    assert write_text("one", url) == 3
    assert read_text(url) == "one"
    assert write_text("three", url) == 5
    assert read_text(url) == "three"
    parent, _, name = url.rpartition("/")
    assert list_folders(parent) == [name]
    delete_folder(url)
    delete_folder(url)
    assert list_folders(parent) == []


def test_a_writer_that_died_while_replacing_leaves_the_old_one_readable(url: str) -> None:
    write_text("old", url)
    fs = MemoryFileSystem() if url.startswith("memory") else None
    path = url.removeprefix("file://")
    if fs is not None:
        fs.mv(path, path + "~previous", recursive=True)  # pyright: ignore[reportUnknownMemberType]
        fs.pipe_file(path.removeprefix("memory:/") + "/text", b"half")  # pyright: ignore[reportUnknownMemberType]
    else:
        Path(path).rename(path + "~previous")
    assert read_text(url) == "old"
    write_text("new", url)
    assert read_text(url) == "new"
    assert list_folders(url.rpartition("/")[0]) == [url.rpartition("/")[2]]


def test_a_durable_folder_is_on_disk_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sync, synced = tmp_path / "it", os.fsync, list[tuple[Path, bool]]()

    def noted(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink(), folder.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_folder(str(folder), lambda f: (f / "text").write_text("hello"), durable=True)
    *contents, entry = synced
    assert {(path.name, is_there) for path, is_there in contents} > {("text", False)}
    assert entry == (tmp_path, True)


def test_what_dead_writers_left_is_swept(tmp_path: Path) -> None:
    write_text("whole", str(tmp_path / "v1"))
    (tmp_path / ".v2.partial-abc").mkdir()
    (tmp_path / ".v2.partial-abc" / "text").write_text("half")
    write_text("replaced", str(tmp_path / "v1~previous"))
    sweep(str(tmp_path))
    sweep(str(tmp_path / "nowhere"))
    assert [p.name for p in tmp_path.iterdir()] == ["v1"]


@pytest.mark.parametrize("content", [b"", b"hellx", b"hello, world"])
def test_a_damaged_file_is_noticed(tmp_path: Path, content: bytes) -> None:
    write_text("hello", str(tmp_path / "it"))
    (tmp_path / "it" / "text").write_bytes(content)
    with pytest.raises(FolderUnreadable, match="text is not what was written"):
        read_text(str(tmp_path / "it"))


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "text").write_text("half")
        raise OSError("no space left")

    write_text("old", str(tmp_path / "it"))
    with pytest.raises(OSError, match="no space left"):
        write_folder(str(tmp_path / "it"), fail)
    assert read_text(str(tmp_path / "it")) == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["it"]


def test_a_policy_that_cannot_be_written_fails_the_op(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path / "checkpoints"), LORA)
    (tmp_path / "checkpoints").write_text("a file where a folder should be")
    assert "Error" in failed(engine.apply(MODEL, 1, PublishPolicy()))
