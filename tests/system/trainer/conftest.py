"""One tiny base model, and for each test a worker's settings, a broker and an owner of models."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.support.base_models import base_folder
from tests.support.trainer import BASE
from tests.support.trainer_owner import Owner, owner_of

from warren_broker.memory import open_hub
from warren_broker.memory.hub import MemoryHub
from warren_gpu_worker.settings import GpuWorkerSettings

__all__ = ["base_folder"]


@pytest.fixture
def settings(base_folder: Path, tmp_path: Path) -> GpuWorkerSettings:
    return GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(tmp_path / "checkpoints"),
        device="cpu",
        hang_s=60.0,
    )


@pytest_asyncio.fixture
async def hub() -> AsyncGenerator[MemoryHub]:
    async with open_hub() as hub:
        yield hub


@pytest_asyncio.fixture
async def owner(hub: MemoryHub) -> AsyncGenerator[Owner]:
    async with owner_of(hub.client("owner")) as owner:
        yield owner
