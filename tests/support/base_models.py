"""Base models for tests: the tiny family, built once for each session."""

from pathlib import Path

import pytest

from warren_gpu_worker.base_models import resolve_base_models


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name -> folder of `warren/tiny` and `warren/tiny-lora`."""
    folder: Path = tmp_path_factory.mktemp("models")
    return resolve_base_models(["warren/tiny", "warren/tiny-lora"], folder)
