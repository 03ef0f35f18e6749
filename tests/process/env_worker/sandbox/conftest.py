"""A cluster for tests of sandboxes in pods."""

import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.fake_kubernetes import Fake, fake_kubernetes


@pytest.fixture(scope="module")
def _kubectl() -> None:
    """It speaks WebSockets from 1.31 on, and before that another protocol, which ours does not know."""
    kubectl = shutil.which("kubectl")
    if kubectl is None or shutil.which("bwrap") is None:
        pytest.skip("kubectl, or bubblewrap, is not installed")
    told = subprocess.run([kubectl, "version", "--client"], check=True, capture_output=True).stdout
    version = re.search(rb"v1\.(\d+)", told)
    if version is None or int(version[1]) < 31:
        pytest.skip("kubectl is older than 1.31")


@pytest.fixture
async def fake(
    _kubectl: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Fake]:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with fake_kubernetes(tmp_path) as found:
        yield found
