"""Base models for tests: the tiny family, built once for each session."""

from pathlib import Path

import pytest

from warren_gpu_worker.base_models import resolve_base_models


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name -> folder of `warren/tiny` and `warren/tiny-lora`."""
    folder: Path = tmp_path_factory.mktemp("models")
    return resolve_base_models(["warren/tiny", "warren/tiny-lora"], folder)


@pytest.fixture(scope="session")
def even_model(tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model that every engine can run."""
    from tests.support.engines import build_even_model

    folder = tmp_path_factory.mktemp("even")
    build_even_model(folder, tiny_models["warren/tiny-lora"])
    return str(folder)
