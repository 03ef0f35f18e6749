import os
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Generator[Path]:
    """Where this machine keeps who has which slot."""
    before = os.environ.get("WARREN_HOME")
    os.environ["WARREN_HOME"] = str(tmp_path)
    yield tmp_path
    del os.environ["WARREN_HOME"]
    if before is not None:
        os.environ["WARREN_HOME"] = before
