"""Base models for tests: the tiny family, built once for each session and without a child process."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.tiny import FAMILY, ensure_tiny
from warren_gpu_worker.base_models.tiny_build import build


def build_tiny(name: str, models_folder: Path) -> Path:
    """Whatever is drawn for its weights, the draws of tests stay as they are."""

    def build_here(name: str, folder: Path) -> None:
        state = torch.get_rng_state()
        build(folder, FAMILY[name])
        torch.set_rng_state(state)

    return ensure_tiny(name, models_folder, build=build_here)


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name -> folder of `warren/tiny` and `warren/tiny-lora`."""
    folder: Path = tmp_path_factory.mktemp("models")
    return {name: str(build_tiny(name, folder)) for name in ("warren/tiny", "warren/tiny-lora")}


@pytest.fixture
def tiny(tiny_models: dict[str, str]) -> PreTrainedModel:
    torch.set_num_threads(1)
    return load_base(tiny_models["warren/tiny"])


@pytest.fixture
def tiny_lora(tiny_models: dict[str, str]) -> PreTrainedModel:
    torch.set_num_threads(1)
    return load_base(tiny_models["warren/tiny-lora"])


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainers' one base model."""
    torch.set_num_threads(1)
    return build_tiny("warren/tiny-lora", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def even_model(tiny_models: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model that every engine can run."""
    from tests.support.engines import build_even_model

    folder = tmp_path_factory.mktemp("even")
    build_even_model(folder, tiny_models["warren/tiny-lora"])
    return str(folder)
