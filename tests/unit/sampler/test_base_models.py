# pyright: reportUnknownMemberType=false
"""Base models: the tiny family is what was promised, and every other choice has a clear answer."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.base_models import build_tiny

from warren_gpu_worker.base_models import (
    UnknownBaseModel,
    load_base,
    load_tokenizer,
    resolve_base_models,
)


def test_the_tiny_family_is_as_described(tiny_models: dict[str, str]) -> None:
    for name, std in (("warren/tiny", 0.07), ("warren/tiny-lora", 0.2)):
        model = load_base(tiny_models[name])
        assert sum(p.numel() for p in model.parameters()) == 102_272
        embedding = model.get_parameter("model.embed_tokens.weight").detach()
        assert float(embedding.std()) == pytest.approx(std, rel=0.1)
        assert load_tokenizer(tiny_models[name]).chat_template


def test_the_one_that_reads_more_differs_in_that_alone(
    tiny_models: dict[str, str], tmp_path: Path
) -> None:
    long = build_tiny("warren/tiny-long", tmp_path)
    files = [Path(folder) / "model.safetensors" for folder in (long, tiny_models["warren/tiny"])]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert load_base(str(long)).config.max_position_embeddings == 16_384
    assert load_tokenizer(str(long)).model_max_length == 16_384


def test_a_second_worker_finds_what_the_first_has_built(tiny_models: dict[str, str]) -> None:
    models_folder = Path(tiny_models["warren/tiny"]).parent.parent
    weights = Path(tiny_models["warren/tiny"]) / "model.safetensors"
    made_ns = weights.stat().st_mtime_ns
    assert resolve_base_models(tiny_models, models_folder) == tiny_models
    assert weights.stat().st_mtime_ns == made_ns


def test_a_folder_is_offered_under_the_name_that_was_given(tiny_models: dict[str, str]) -> None:
    folder = tiny_models["warren/tiny"]
    assert resolve_base_models([f"Mine/One={folder}"], Path("unused")) == {"Mine/One": folder}
    assert resolve_base_models([folder], Path("unused")) == {Path(folder).name: folder}


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ("/nowhere/at/all", "is no folder"),
        ("mine=/nowhere", "is no folder"),
        ("=/nowhere", "name before '=' is empty"),
        ("warren/tinny", "Did you mean warren/tiny"),
    ],
)
def test_what_is_not_there_is_named(
    choice: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UnknownBaseModel, match=reason):
        resolve_base_models([choice], tmp_path)


def test_a_connection_to_the_hub_that_is_lost_is_no_end_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hub, ThreadPoolExecutor() as thread:
        address = f"http://127.0.0.1:{hub.getsockname()[1]}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        hanging_up = thread.submit(hang_up, hub)
        try:
            with pytest.raises(UnknownBaseModel, match="the Hugging Face hub did not give it"):
                resolve_base_models(["some/model"], tmp_path)
        finally:
            hub.shutdown(socket.SHUT_RDWR)
        hanging_up.result()


def hang_up(hub: socket.socket) -> None:
    """On each request, until the socket is shut down."""
    with suppress(OSError):
        while True:
            connection, _ = hub.accept()
            with connection:
                connection.recv(4096)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownBaseModel, match=r"no config\.json"):
        resolve_base_models([f"mine={tmp_path}"], tmp_path)


def test_one_name_for_two_folders_is_refused(tiny_models: dict[str, str]) -> None:
    first, second = tiny_models.values()
    with pytest.raises(UnknownBaseModel, match="given twice"):
        resolve_base_models([f"a={first}", f"a={second}"], Path("unused"))
