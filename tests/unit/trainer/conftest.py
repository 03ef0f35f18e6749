"""One tiny base model for all trainer tests."""

from pathlib import Path

import pytest
import torch
from tests.support.trainer import tiny_base


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny_base(tmp_path_factory.mktemp("models"))
